"""Replays files of runs and captures line by line, and sums up the results, also against labels."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from heapq import heappush, heappushpop
from itertools import count
from pathlib import Path
from statistics import median
from typing import Generic, NamedTuple, TypeVar

import msgspec

from looptrap.errors import CallError
from looptrap.policy.action import Action
from looptrap.replay.capture import CapturedRun, CaptureReplayer, is_captured
from looptrap.replay.judge import FirstActions, RunResult, first_actions, judge_run
from looptrap.replay.recorded_run import FileLine, RecordedRun, RunLabel, iter_lines, read_run
from looptrap.replay.ruleset import Ruleset, scale_policies


class ScoredRun(msgspec.Struct, frozen=True, gc=False):
    """A run's label, if it has one, and the first actions on it."""

    first: FirstActions
    judged: RunLabel | None = None
    wasted_bytes: int = 0
    """Bytes of the prompts of a loop after it began."""
    saved_bytes: int = 0
    """Those of them that a refusal would have saved."""

    @classmethod
    def of(cls, run: RecordedRun, first: FirstActions) -> ScoredRun:
        """Return the score of a run: what it wasted, and what its first refusal saves."""
        judged, refused = run.judged, first.refusal()
        if judged is None or judged.label != "loop" or judged.first_loop_step is None:
            return cls(first, judged)
        wasted = saved = 0
        for turn in range(max(judged.first_loop_step + 1, 0), len(run.turns)):
            size = run.prompt_bytes(turn)
            wasted += size
            if refused is not None and turn >= refused:
                saved += size
        return cls(first, judged, wasted, saved)

    @property
    def is_labelled(self) -> bool:
        return self.judged is not None and self.judged.label in ("loop", "ok")

    @property
    def is_refused(self) -> bool:
        return self.first.refusal() is not None

    @property
    def is_flagged(self) -> bool:
        """Whether any action was taken, even a warning."""
        return self.first.at_least(Action.WARN) is not None


class LabelGroup(msgspec.Struct, gc=False):
    """Runs of one label: how many, how many flagged, and of those how many refused."""

    runs: int = 0
    flagged: int = 0
    refused: int = 0

    def add(self, case: ScoredRun) -> None:
        """Count a run."""
        self.runs += 1
        self.flagged += case.is_flagged
        self.refused += case.is_refused


class Score(msgspec.Struct):
    """Totals over any number of runs."""

    loops: LabelGroup = msgspec.field(default_factory=LabelGroup)
    honest: LabelGroup = msgspec.field(default_factory=LabelGroup)
    """Runs labelled `ok`."""
    hard: LabelGroup = msgspec.field(default_factory=LabelGroup)
    """Those of them that look like loops."""
    unjudged: LabelGroup = msgspec.field(default_factory=LabelGroup)
    wasted_bytes: int = 0
    saved_bytes: int = 0
    delays: Counter[int] = msgspec.field(default_factory=Counter)
    """Refused loops by the number of calls since they began."""

    @classmethod
    def of(cls, cases: Iterable[ScoredRun]) -> Score:
        """Return the score over these cases."""
        score = cls()
        for case in cases:
            score.add(case)
        return score

    def add(self, case: ScoredRun) -> None:
        """Count a run."""
        judged = case.judged
        if judged is None or not case.is_labelled:
            self.unjudged.add(case)
        elif judged.label == "ok":
            self.honest.add(case)
            if judged.hard_negative:
                self.hard.add(case)
        else:
            self.loops.add(case)
            self.wasted_bytes += case.wasted_bytes
            self.saved_bytes += case.saved_bytes
            refused = case.first.refusal()
            if refused is not None and judged.first_loop_step is not None:
                self.delays[refused - judged.first_loop_step] += 1

    @property
    def has_labels(self) -> bool:
        return bool(self.loops.runs or self.honest.runs)

    @property
    def recall(self) -> float | None:
        """The share of loops refused."""
        return ratio(self.loops.refused, self.loops.runs)

    @property
    def flag_recall(self) -> float | None:
        """The share of loops flagged."""
        return ratio(self.loops.flagged, self.loops.runs)

    @property
    def precision(self) -> float | None:
        """The share of loops among the labelled runs refused."""
        return ratio(self.loops.refused, self.loops.refused + self.honest.refused)

    @property
    def saved_share(self) -> float | None:
        """The share of the wasted prompt bytes that refusals would have saved."""
        return ratio(self.saved_bytes, self.wasted_bytes)

    @property
    def calls_until_caught(self) -> float | None:
        """The median, over the loops refused, of the calls since they began."""
        return float(median(self.delays.elements())) if self.delays else None


def ratio(part: int, whole: int) -> float | None:
    """Return a share; None of nothing."""
    return part / whole if whole else None


SWEEP_FACTORS = (0.6, 0.8, 1.0, 1.25, 1.5, 2.0)


class ThresholdSweep:
    """Scores of rules with all thresholds times each factor."""

    def __init__(self, rules: Ruleset) -> None:
        self.scores = {factor: Score() for factor in SWEEP_FACTORS}
        self._rulesets = {
            factor: replace(rules, policies=scale_policies(rules.policies, factor))
            for factor in SWEEP_FACTORS
            if factor != 1.0
        }

    def add(self, run: RecordedRun, unscaled: ScoredRun) -> None:
        """Judge a labelled run under each factor; `unscaled` is its score under 1."""
        self.scores[1.0].add(unscaled)
        for factor, rules in self._rulesets.items():
            self.scores[factor].add(ScoredRun.of(run, first_actions(run, rules)))


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
        return self._results(self._captured.finish())

    def _results(self, runs: Iterable[CapturedRun]) -> Iterator[RunResult]:
        for run in runs:
            result = run.result()
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
                for result in self._results(self._captured.finished_runs()):
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
