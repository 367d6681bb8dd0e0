"""Descriptors: the properties by which rules, budgets and kill switches distinguish calls."""

from __future__ import annotations

from collections.abc import Callable
from difflib import get_close_matches
from operator import attrgetter
from urllib.parse import unquote_plus

from looptrap.dialect.header import TURN
from looptrap.dialect.model import Call
from looptrap.errors import ConfigError

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
