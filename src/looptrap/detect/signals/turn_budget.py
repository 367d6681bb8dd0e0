"""`turn_budget`: more tool calls since the last user message than a turn should need."""

from __future__ import annotations

from sys import maxsize

from looptrap.detect.signals.signal import Evidence, SignalOptions
from looptrap.detect.trajectory import Trajectory

MAX_ROUNDS_READ = 40
"""Latest rounds whose calls are counted; each earlier round counts as one call."""


class TurnBudget:
    """Counts the tool calls since the last user message."""

    __slots__ = ("_first",)

    def __init__(self, options: SignalOptions) -> None:
        self._first = options.first

    def __call__(self, trajectory: Trajectory) -> Evidence | None:
        """Return how many; None before the first, and while there are certainly fewer."""
        # Calls and their results are messages: where there are few, none needs decoding.
        if self._first > MAX_ROUNDS_READ and trajectory.length < self._first:
            return None
        rounds = trajectory.latest(maxsize)
        count = sum(len(round_.calls) for round_ in rounds[:MAX_ROUNDS_READ]) + len(
            rounds[MAX_ROUNDS_READ:]
        )
        if not count:
            return None
        return Evidence(
            signal="turn_budget",
            what=f"{count} tool calls in {len(rounds)} rounds since the last user message",
            count=count,
            ago=len(rounds) - 1,
            confidence=0.5,
        )
