"""Budgets that come to an end: told once, however many calls find them so."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from looptrap.incident.budget import budget_reached
from looptrap.incident.model import Event
from looptrap.money.standing import Standing

MOST_TOLD = 10_000
"""Stages that are known to be told; whoever has to be told of more is told twice, under one id."""


class BudgetTeller:
    """Has people told of each stage of each account, once in its period."""

    def __init__(self, tell: Callable[[Event], None]) -> None:
        self._tell = tell
        self._told: dict[tuple[str, int, int], None] = {}

    def settled(
        self, standings: Sequence[Standing], now: float, project: str, request_id: bytes
    ) -> None:
        """Take how budgets stood when a call was judged."""
        for one in standings:
            key = one.fingerprint, one.ends, one.stage
            if key in self._told:
                continue
            if len(self._told) >= MOST_TOLD:
                del self._told[next(iter(self._told))]
            self._told[key] = None
            asked = request_id.decode("latin-1")
            self._tell(budget_reached(one, time=now, project=project, request_id=asked))
