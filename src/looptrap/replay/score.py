"""Scores: how well verdicts agree with the labels of runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from statistics import median

import msgspec

from looptrap.policy.action import Action
from looptrap.replay.judge import FirstActions, first_actions
from looptrap.replay.recorded_run import RecordedRun, RunLabel
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
