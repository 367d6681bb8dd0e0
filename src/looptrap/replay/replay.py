"""Replays files of runs and captures line by line, and sums up the results."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from heapq import heappush, heappushpop
from itertools import count
from pathlib import Path
from typing import Generic, NamedTuple, TypeVar

from looptrap.errors import CallError
from looptrap.policy.action import Action
from looptrap.replay.capture import CaptureReplayer, is_captured
from looptrap.replay.judge import RunResult, judge_run
from looptrap.replay.recorded_run import FileLine, RecordedRun, iter_lines, read_run
from looptrap.replay.ruleset import Ruleset
from looptrap.replay.score import Score, ScoredRun, ThresholdSweep

MAX_LISTED_RUNS = 500
"""Flagged runs that are listed: the severest, and those that wasted most."""


T = TypeVar("T")


class TopItems(Generic[T]):
    """The items of the greatest weight, greatest first; of two alike the earlier one."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._entries: list[tuple[tuple[int, ...], int, T]] = []
        self._order = count(0, -1)  # unique, so that items are never compared

    def add(self, weight: tuple[int, ...], item: T) -> None:
        """Add an item; the one of the least weight is dropped where there are too many."""
        entry = (weight, next(self._order), item)
        if len(self._entries) < self._limit:
            heappush(self._entries, entry)
        else:
            heappushpop(self._entries, entry)

    def __iter__(self) -> Iterator[T]:
        return (item for _, _, item in sorted(self._entries, reverse=True))


class ReplaySummary:
    """Totals of all runs so far."""

    def __init__(self, sweep: ThresholdSweep | None = None) -> None:
        self.sweep = sweep
        self.runs = 0
        self.skipped_lines = 0
        """Lines that are not runs."""
        self.unfinished_files = 0
        """Files that could not be read completely."""
        self.calls = 0
        self.saved_calls = 0
        self.saved_tokens = 0
        self.actions: Counter[Action] = Counter()
        """Runs by their severest verdict, without those that were allowed."""
        self.signals: Counter[str] = Counter()
        self.rules: Counter[str] = Counter()
        self.score = Score()
        self.worst: TopItems[RunResult] = TopItems(MAX_LISTED_RUNS)
        """The flagged runs, severest first."""

    def add(self, result: RunResult, run: RecordedRun | None = None) -> None:
        """Add a result; `run` is None for a captured one, which has no label."""
        case = ScoredRun(result.first) if run is None else ScoredRun.of(run, result.first)
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
        self.worst.add((result.verdict.severity, result.saved_tokens), result)

    @property
    def flagged_runs(self) -> int:
        """The number of runs with an action."""
        return self.actions.total()


class ReplayStep(NamedTuple):
    """One line of a file: the result of a run, why it is none, or neither yet."""

    number: int | None
    """None for an error of the file itself."""
    position: int
    """Where it ends in the file, in bytes on disk."""
    result: RunResult | None = None
    problem: str = ""


class Replay:
    """Replays files of runs against rules; `summary` has the totals so far."""

    def __init__(self, rules: Ruleset, *, sweeps: bool = False) -> None:
        self._rules = rules.enforced()
        self._captured = CaptureReplayer(self._rules)
        self.summary = ReplaySummary(ThresholdSweep(self._rules) if sweeps else None)

    def play_file(self, path: Path) -> Iterator[ReplayStep]:
        """Replay a file, a step a line or a run; a read error is the last step.

        Runs of a capture may continue in the next file: their results come when they end.
        """
        position = 0
        try:
            for line in iter_lines(path):
                position = line.position
                yield from self._steps(line, path)
        except OSError as error:
            self.summary.unfinished_files += 1
            yield ReplayStep(None, position, problem=error.strerror or str(error))

    def finish(self) -> Iterator[RunResult]:
        """End the captured runs that are still open, and yield their results."""
        for result in self._captured.finish():
            self.summary.add(result)
            yield result

    def _steps(self, line: FileLine, path: Path) -> Iterator[ReplayStep]:
        number, position = line.number, line.position
        try:
            if line.text is None:
                raise CallError("is too long for a run")
            if is_captured(line.text):
                self._captured.play(line.text)
                yield ReplayStep(number, position)
                for result in self._captured.finished_results():
                    self.summary.add(result)
                    yield ReplayStep(number, position, result)
            else:
                run = read_run(line.text, f"{path.name}:{number}")
                for result in self.finish():
                    yield ReplayStep(number, position, result)
                result = judge_run(run, self._rules)
                self.summary.add(result, run)
                yield ReplayStep(number, position, result)
        except CallError as error:
            self.summary.skipped_lines += 1
            yield ReplayStep(number, position, problem=str(error))
