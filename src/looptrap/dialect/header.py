"""Headers by which clients say something about a call: its session, its turn, that they got on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

SESSION_HEADERS = ("X-Looptrap-Session", "X-Session-Id", "X-Zelyx-Session-Id")
"""Where a client may name its session, unless the operator says otherwise."""

RETRY_COUNT = b"x-stainless-retry-count"
"""How often OpenAI's and Anthropic's SDKs have tried before, by their own account."""

PROGRESS = b"x-looptrap-progress"
"""By another value in it an application says that it got on, whatever the history looks like."""

TURN = b"x-looptrap-turn"
"""Names the turn that a call is part of."""

SESSION_LIMIT = b"x-looptrap-session-limit-usd"
"""The most that a session may cost, in dollars, by the client's own word."""


def session_of(sent: Mapping[bytes, bytes], names: Iterable[bytes]) -> str:
    """Return the session that a client named, by the first of `names` (lower-case) it used."""
    for name in names:
        if name in sent:
            return sent[name].decode("latin-1")
    return ""


def is_retry(sent: Mapping[bytes, bytes]) -> bool:
    """Say whether an SDK marks the call as its own transport retry."""
    count = sent.get(RETRY_COUNT, b"")
    # Not as a number: Python raises for one of more than 4,300 digits.
    return count.isdigit() and count.strip(b"0") != b""
