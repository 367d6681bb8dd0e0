"""What replaying many runs found, counted as they come: memory does not grow with the file."""

from __future__ import annotations

from collections import Counter
from heapq import heappush, heappushpop
from itertools import count

from looptrap.policy.action import Action
from looptrap.replay.result import Result
from looptrap.replay.run import Run
from looptrap.replay.score import Case, Score
from looptrap.replay.sweep import Sweep

MOST_SHOWN = 500
"""So many flagged runs are kept to be listed: the severest, and those that wasted most."""


class Summary:
    """Counts over all runs so far."""

    def __init__(self, sweep: Sweep | None = None) -> None:
        self.sweep = sweep
        self.runs = 0
        self.skipped = 0
        """Lines that are not runs."""
        self.unfinished = 0
        """Files that could not be read to their end."""
        self.calls = 0
        self.saved_calls = 0
        self.saved_tokens = 0
        self.actions: Counter[Action] = Counter()
        """Runs by their severest verdict; those simply allowed are not here."""
        self.signals: Counter[str] = Counter()
        self.rules: Counter[str] = Counter()
        self.score = Score()
        self._flagged: list[tuple[int, int, int, Result]] = []
        self._order = count(0, -1)  # of two alike the earlier stays, and results are never compared

    def add(self, result: Result, run: Run | None = None) -> None:
        """Count a run; without it, one that nobody can have labelled."""
        case = Case(result.first) if run is None else Case.of(run, result.first)
        if self.sweep is not None and run is not None and case.is_labelled:
            self.sweep.add(run, case)
        self.runs += 1
        self.calls += result.calls
        self.score.add(case)
        if result.verdict is Action.ALLOW:
            return
        self.saved_calls += result.saved_calls
        self.saved_tokens += result.saved_tokens
        self.actions[result.verdict] += 1
        self.signals[result.signal or "none"] += 1
        self.rules[result.rule or "none"] += 1
        entry = (result.verdict.severity, result.saved_tokens, next(self._order), result)
        if len(self._flagged) < MOST_SHOWN:
            heappush(self._flagged, entry)
        else:
            heappushpop(self._flagged, entry)

    @property
    def flagged(self) -> int:
        """How many runs something would have been done about."""
        return self.actions.total()

    def worst(self) -> list[Result]:
        """Return the flagged runs, severest first; no more than `MOST_SHOWN`."""
        return [entry[-1] for entry in sorted(self._flagged, reverse=True)]
