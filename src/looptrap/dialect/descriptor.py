"""Descriptors: the properties by which rules, budgets and kill switches distinguish calls.

And the headers in which clients describe a call: its session, its turn, a retry, progress.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from operator import attrgetter
from urllib.parse import unquote_plus

from looptrap.dialect.agent import session_in_headers
from looptrap.dialect.model import Call
from looptrap.errors import ConfigError

# Headers

SESSION_HEADERS = ("X-Looptrap-Session", "X-Session-Id", "X-Zelyx-Session-Id")
"""Headers for the session, unless the operator sets others."""

OWN_SESSION = b"x-looptrap-session"
"""The session that an application names for Looptrap, to keep calls apart on purpose."""

RETRY_COUNT = b"x-stainless-retry-count"
"""The number of earlier attempts, sent by OpenAI's and Anthropic's SDKs."""

PROGRESS = b"x-looptrap-progress"
"""A new value reports progress of the application, whatever its history looks like."""

TURN = b"x-looptrap-turn"
"""The turn that a call is part of."""

SESSION_LIMIT = b"x-looptrap-session-limit-usd"
"""The cost limit that the client sets for the session, in dollars."""


def session_of(headers: Mapping[bytes, bytes], names: Sequence[bytes]) -> str:
    """Return the session in the first of these headers (lower-case) that was sent.

    Without one, return the session that a known agent names in a header of its own; without
    names, sessions are not read at all.
    """
    for name in names:
        if name in headers:
            return _text(headers[name])
    return session_in_headers(headers) if names else ""


def _text(value: bytes) -> str:
    """Decode a name as clients send it: UTF-8, else Latin-1, in which every byte is a character."""
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value.decode("latin-1")


def is_retry(headers: Mapping[bytes, bytes]) -> bool:
    """Return whether an SDK marks the call as its own transport retry."""
    count = headers.get(RETRY_COUNT, b"")
    # Not converted to a number: Python raises for one of more than 4,300 digits.
    return count.isdigit() and count.strip(b"0") != b""


# Descriptors

Descriptor = Callable[[Call], str]


def _header(name: str) -> Descriptor:
    key = name.lower().encode("latin-1", "replace")
    return lambda call: (call.request.header(key) or b"").decode("latin-1")


def _query(name: str) -> Descriptor:
    def read(call: Call) -> str:
        for field in call.request.query.split("&"):
            key, _, value = field.partition("=")
            if unquote_plus(key) == name:
                return unquote_plus(value)
        return ""

    return read


def _claim(name: str) -> Descriptor:
    return lambda call: call.request.claims.get(name, "")


ATTRIBUTES = {
    "caller": "request.caller",
    "project": "request.project",
    "session": "request.session",
    "user": "user",
    "model": "model",
    "ip:address": "request.address",
}
"""Descriptors that are attributes of calls."""

PLAIN: dict[str, Descriptor] = {
    **{name: attrgetter(path) for name, path in ATTRIBUTES.items()},
    "turn": _header(TURN.decode()),
    "gateway": lambda _call: "",
}
"""Descriptors without an argument; `gateway` is the same for all calls."""
NAMED: dict[str, Callable[[str], Descriptor]] = {
    "header": _header,
    "query": _query,
    "jwt": _claim,
}
_FORMS = ", ".join((*PLAIN, "header:<name>", "query:<name>", "jwt:<claim>"))


def descriptor(name: str) -> Descriptor:
    """Return a function that reads the descriptor of that name from a call; "" if it has none."""
    if name in PLAIN:
        return PLAIN[name]
    kind, _, rest = name.partition(":")
    if kind in NAMED and rest:
        return NAMED[kind](rest)
    suggestion = ""
    if close := get_close_matches(kind, NAMED if rest else PLAIN, n=1):
        suggestion = f", did you mean {close[0]}{':' if rest else ''}{rest}?"
    raise ConfigError(f"is {name!r}, must be a descriptor: {_FORMS}{suggestion}")
