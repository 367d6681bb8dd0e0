"""Markers: what is left of a turn that was given up, to be requeued by somebody else."""

from __future__ import annotations

import msgspec

from looptrap.call.content import UNREADABLE


class Spent(msgspec.Struct, frozen=True, kw_only=True):
    """What a turn has taken so far."""

    seconds: float = 0.0
    tokens: int = 0
    usd: float = 0.0
    tool_calls: int = 0


class Marker(msgspec.Struct, frozen=True, kw_only=True):
    """Where and why a turn ended early."""

    turn: str
    step: int
    """The step it ended in; the first is 1."""
    reason: str
    """The failure's code, such as `http_503`, or the limit that was met, such as `deadline`."""
    attempts: int
    """The attempts made in that step."""
    spent: Spent = Spent()

    def dumps(self) -> str:
        """Return it as JSON."""
        return msgspec.json.encode(self).decode()

    @classmethod
    def loads(cls, text: str | bytes) -> Marker:
        """Return what `dumps` wrote; raises ValueError for anything else."""
        try:
            return msgspec.json.decode(text, type=cls)
        except UNREADABLE as error:
            raise ValueError(f"not a marker of a turn: {error}") from None

    def __str__(self) -> str:
        return (
            f"{self.reason} in step {self.step} of turn {self.turn},"
            f" after {self.attempts} attempts and {self.spent.seconds:.1f} s"
        )
