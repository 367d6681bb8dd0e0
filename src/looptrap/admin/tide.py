"""The tide: what calls came to between two looks at the books of all processes."""

from __future__ import annotations

from typing import TypedDict

from looptrap.incident.history import Books
from looptrap.incident.saving import usd
from looptrap.incident.spent import MINUTE, Spent

BACK = 2 * MINUTE
"""Seconds that sums go back: what is counted is written some seconds later."""

RENEWED = 10 * MINUTE
"""Seconds after which sums begin later: so there is never much to add up."""

AHEAD = 86_400
"""Seconds: no clock of another process is as far ahead."""


class Figures(TypedDict):
    """What calls came to."""

    allowed: int
    warned: int
    refused: int
    shadowed: int
    cost_usd: float | None
    saved_usd: float


class Tide:
    """Looks at the books now and then; waits for the disk."""

    def __init__(self, books: Books, now: float) -> None:
        self._books = books
        self._since = _beginning(now)
        self._sums = self._added_up(now)

    def look(self, now: float) -> Figures:
        """Return what calls came to since the last look."""
        before, spent = self._sums, self._added_up(now)
        self._sums = spent
        if now - self._since > RENEWED:
            self._since = _beginning(now)
            self._sums = self._added_up(now)
        return _figures(
            Spent(
                **{
                    name: max(getattr(spent, name) - getattr(before, name), 0)
                    for name in Spent.__struct_fields__
                }
            )
        )

    def _added_up(self, now: float) -> Spent:
        return self._books.totals(self._since, now + AHEAD)


def _beginning(now: float) -> float:
    return now // MINUTE * MINUTE - BACK


def _figures(spent: Spent) -> Figures:
    return {
        "allowed": max(spent.calls - spent.warned - spent.refused, 0),
        "warned": spent.warned,
        "refused": spent.refused,
        "shadowed": spent.shadowed,
        "cost_usd": spent.cost_usd,
        "saved_usd": usd(spent.saved),
    }
