"""Headers: how a turn is passed to another process, and what is accepted of one that comes.

`X-Looptrap-Turn` is the id. W3C `baggage` repeats it, with what is left of every limit, for
services in between that do not know Looptrap.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from math import inf
from typing import NamedTuple
from urllib.parse import unquote

from looptrap.retry.classify.response import Headers, text_pairs
from looptrap.retry.turn.budget import TurnLimits

TURN_HEADER = "X-Looptrap-Turn"
BAGGAGE_HEADER = "baggage"


_PREFIX = "looptrap."
_LIMITS = {
    "steps": int,
    "deadline": float,
    "tool_calls": int,
    "tokens": int,
    "usd": float,
    "corrections": int,
}
"""The limits in the headers, and the type of each."""
_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
_MAX_BAGGAGE_CHARS = 8_192
"""The size that W3C requires everyone to pass on; the rest is ignored."""


class PropagatedTurn(NamedTuple):
    """A turn from headers: its id, and what its sender has left."""

    turn: str
    left: Mapping[str, float]


def is_turn_id(text: str) -> bool:
    """Return whether a text is a valid turn id."""
    return _ID.fullmatch(text) is not None


def write_turn_headers(turn: str, left: TurnLimits, baggage: str = "") -> dict[str, str]:
    """Return the headers of a turn, with the `baggage` of others added."""
    members = [f"{_PREFIX}turn={turn}"]
    for name, kind in _LIMITS.items():
        value = getattr(left, name)
        if value is not None:
            members.append(f"{_PREFIX}{name}={value if kind is int else format(value, '.6f')}")
    others = [member for member in _members(baggage) if not member.startswith(_PREFIX)]
    return {TURN_HEADER: turn, BAGGAGE_HEADER: ",".join(members + others)}


def read_turn_headers(headers: Headers) -> PropagatedTurn | None:
    """Return the turn in headers; None where there is none, or an invalid one."""
    try:
        found = list(text_pairs(headers))
    except (TypeError, ValueError, AttributeError):
        return None
    entries = _entries(",".join(value for name, value in found if name == BAGGAGE_HEADER))
    ids = [value.strip() for name, value in found if name == TURN_HEADER.lower()]
    turn = ids[0] if ids else entries.get("turn", "")
    if not is_turn_id(turn) or entries.get("turn", turn) != turn:
        return None
    left = {
        name: kind(number)
        for name, kind in _LIMITS.items()
        if (number := _number(entries.get(name))) is not None
    }
    return PropagatedTurn(turn, left)


def _members(baggage: str) -> list[str]:
    return [member.strip() for member in baggage[:_MAX_BAGGAGE_CHARS].split(",") if member.strip()]


def _entries(baggage: str) -> dict[str, str]:
    """Return our entries, the first of each name, without their properties."""
    found: dict[str, str] = {}
    for member in _members(baggage):
        name, _, value = member.partition(";")[0].partition("=")
        if name.strip().startswith(_PREFIX):
            found.setdefault(name.strip().removeprefix(_PREFIX), unquote(value.strip()))
    return found


def _number(text: str | None) -> float | None:
    """Return a valid limit; None for anything else."""
    if text is None or len(text) > 32:
        return None
    try:
        number = float(text)
    except ValueError:
        return None
    return number if 0 <= number < inf else None
