"""Headers: how a turn is passed to another process, and what is accepted of one that comes.

`X-Looptrap-Turn` is the id. W3C `baggage` repeats it, with what is left of every limit, for
services in between that do not know Looptrap.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from math import inf
from typing import Any, Protocol
from urllib.parse import unquote

import msgspec

from looptrap.retry.turn.budget import TurnLimits

TURN_HEADER = "X-Looptrap-Turn"
BAGGAGE_HEADER = "baggage"


class HasItems(Protocol):
    """Headers of servers and clients: mappings, and messages that are no mappings."""

    def items(self) -> Iterable[tuple[Any, Any]]: ...


Headers = HasItems | Sequence[tuple[str, str]] | Sequence[tuple[bytes, bytes]]
"""Header names and values, as text or as bytes."""

_PREFIX = "looptrap."
_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
_MAX_BAGGAGE_CHARS = 8_192
"""The size that W3C requires everyone to pass on; the rest is ignored."""


class PropagatedTurn(msgspec.Struct, frozen=True):
    """A turn from headers: its id, and what its sender has left."""

    turn: str
    left: Mapping[str, float]

    def apply_to(self, limits: TurnLimits) -> TurnLimits:
        """Return limits lowered to what the sender has left: a sender cannot raise them."""
        lowered = {name: getattr(limits, name) for name in _IS_WHOLE_NUMBER}
        for name, value in self.left.items():
            if lowered[name] is None or value < lowered[name]:
                lowered[name] = int(value) if _IS_WHOLE_NUMBER[name] else value
        return TurnLimits(**lowered)


_IS_WHOLE_NUMBER: Mapping[str, bool] = {
    "steps": True,
    "deadline": False,
    "tool_calls": True,
    "tokens": True,
    "usd": False,
    "corrections": True,
}
"""The limits in the headers, and whether each is a whole number."""


def is_turn_id(text: str) -> bool:
    """Return whether a text is a valid turn id."""
    return _ID.fullmatch(text) is not None


def write_turn_headers(turn: str, left: TurnLimits, baggage: str = "") -> dict[str, str]:
    """Return the headers of a turn, with the `baggage` of others added."""
    members = [f"{_PREFIX}turn={turn}"]
    for name, is_whole in _IS_WHOLE_NUMBER.items():
        value = getattr(left, name)
        if value is not None:
            members.append(
                f"{_PREFIX}{name}={value}" if is_whole else f"{_PREFIX}{name}={value:.6f}"
            )
    others = [member for member in _members(baggage) if not member.startswith(_PREFIX)]
    return {TURN_HEADER: turn, BAGGAGE_HEADER: ",".join(members + others)}


def read_turn_headers(headers: Headers) -> PropagatedTurn | None:
    """Return the turn in headers; None where there is none, or an invalid one."""
    try:
        found = list(_pairs(headers))
    except (TypeError, ValueError, AttributeError):
        return None
    entries = _entries(",".join(value for name, value in found if name == BAGGAGE_HEADER))
    ids = [value.strip() for name, value in found if name == TURN_HEADER.lower()]
    turn = ids[0] if ids else entries.get("turn", "")
    if not is_turn_id(turn) or entries.get("turn", turn) != turn:
        return None
    left = {
        name: number
        for name in _IS_WHOLE_NUMBER
        if (number := _number(entries.get(name))) is not None
    }
    return PropagatedTurn(turn, left)


def _pairs(headers: Headers) -> Iterable[tuple[str, str]]:
    items: Iterable[tuple[Any, Any]]
    items = headers if isinstance(headers, Sequence) else headers.items()
    for name, value in items:
        yield _text(name).lower(), _text(value)


def _text(value: Any) -> str:
    """Return a name or value as text; empty for what is neither text nor bytes."""
    if isinstance(value, bytes):
        return value.decode("latin-1")
    return value if isinstance(value, str) else ""


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
