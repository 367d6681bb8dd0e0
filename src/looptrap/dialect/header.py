"""Headers in which clients describe a call: its session, its turn, a retry, progress."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from looptrap.dialect.agent import session_in_headers

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
