"""Comparisons: two rulesets play the same captured calls, line by line."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappush, heappushpop
from itertools import count
from pathlib import Path

import msgspec

from looptrap.errors import CallError
from looptrap.policy.action import Action
from looptrap.replay.capture import CapturedRun, CapturePlayer
from looptrap.replay.file import lines
from looptrap.replay.play import enforced
from looptrap.replay.result import Result
from looptrap.replay.ruleset import Ruleset
from looptrap.replay.summary import Summary

MOST_CHANGED = 100
"""So many runs are told of which the rulesets make something else."""


class Counts(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """What a ruleset makes of the calls: the numbers that `looptrap replay` prints."""

    flagged_runs: int
    warned_runs: int
    """Those about which something is done, and nothing refused …"""
    refused_runs: int
    """… and those of which a call is refused."""
    saved_calls: int
    saved_tokens: int
    actions: dict[str, int]
    """Flagged runs by their severest verdict …"""
    rules: dict[str, int]
    """… by the rule that spoke it …"""
    signals: dict[str, int]
    """… and by what that saw."""

    @classmethod
    def of(cls, summary: Summary) -> Counts:
        """Return what a summary counted."""
        refused = sum(number for one, number in summary.actions.items() if one.refuses)
        return cls(
            flagged_runs=summary.flagged,
            warned_runs=summary.flagged - refused,
            refused_runs=refused,
            saved_calls=summary.saved_calls,
            saved_tokens=summary.saved_tokens,
            actions={one.value: summary.actions[one] for one in Action if summary.actions[one]},
            rules=dict(summary.rules.most_common()),
            signals=dict(summary.signals.most_common()),
        )


class Fate(msgspec.Struct, frozen=True, gc=False):
    """What becomes of a run."""

    verdict: Action
    rule: str | None
    at: int | None
    """The request, counted from 0, about which the verdict is first spoken."""
    saved_calls: int

    @classmethod
    def of(cls, result: Result) -> Fate:
        """Return what a result says of it."""
        at = getattr(result.first, result.verdict.value, None)
        return cls(result.verdict, result.rule, at, result.saved_calls)


class Changed(msgspec.Struct, frozen=True, gc=False):
    """A run of which the rulesets make something else."""

    run: str
    began: float
    model: str
    project: str
    calls: int
    now: Fate
    then: Fate

    @property
    def weight(self) -> tuple[bool, int, int]:
        """How much it matters: is it refused or not, how much severer, how many calls more."""
        one, two = self.now.verdict, self.then.verdict
        return (
            one.refuses != two.refuses,
            abs(one.severity - two.severity),
            abs(self.now.saved_calls - self.then.saved_calls),
        )


class Comparison:
    """Plays captures by the rules of now and by others; tells where these differ."""

    def __init__(self, now: Ruleset, then: Ruleset, since: float = 0.0) -> None:
        self.now, self.then = Summary(), Summary()
        self.skipped = 0
        """Lines that are not captured calls."""
        self.changed_runs = 0
        self._changed: list[tuple[tuple[bool, int, int], int, Changed]] = []
        self._order = count(0, -1)  # of two alike the earlier stays, and runs are never compared
        self._players = [
            CapturePlayer(enforced(one.policies), one.tools, one.projects, since=since)
            for one in (now, then)
        ]

    @property
    def reached(self) -> float:
        """When the latest call came that was played."""
        return self._players[0].now

    def play(self, path: Path, goes_on: Callable[[], bool]) -> bool:
        """Play a file; say whether to its end."""
        try:
            for line in lines(path):
                if not goes_on():
                    return False
                self._play(line.text)
                self._tell()
        except OSError:
            pass  # gone meanwhile, to make room for later ones
        return True

    def finish(self) -> None:
        """End all runs, and count them."""
        for player in self._players:
            player.end()
        self._tell()

    def changed(self) -> list[Changed]:
        """Return the runs that change, what matters most first; no more than `MOST_CHANGED`."""
        return [entry[-1] for entry in sorted(self._changed, reverse=True)]

    def _play(self, text: bytes | None) -> None:
        try:
            if text is None:
                raise CallError("is too long for a call")
            for player in self._players:
                player.play(text)
        except CallError:
            self.skipped += 1

    def _tell(self) -> None:
        # Both have read the same lines, so the same runs are over.
        one, two = (player.ended_runs() for player in self._players)
        for of_now, of_then in zip(one, two, strict=True):
            self._add(of_now, of_now.result(), of_then.result())

    def _add(self, run: CapturedRun, now: Result, then: Result) -> None:
        self.now.add(now)
        self.then.add(then)
        fates = Fate.of(now), Fate.of(then)
        if fates[0] == fates[1]:
            return
        self.changed_runs += 1
        changed = Changed(run.id, run.began, run.model, run.project, run.calls, *fates)
        entry = (changed.weight, next(self._order), changed)
        if len(self._changed) < MOST_CHANGED:
            heappush(self._changed, entry)
        else:
            heappushpop(self._changed, entry)
