"""Scores: how well verdicts agree with the labels of runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from statistics import median

import msgspec

from looptrap.detect.scope import HIT_LIMIT
from looptrap.policy.action import Action, Ladder
from looptrap.policy.policy import Policy
from looptrap.policy.rule import UNNAMED_FACTOR, Rule
from looptrap.replay.judge import FirstActions, ToolRules, first_actions
from looptrap.replay.recorded_run import RecordedRun, RunLabel


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

MIN_THRESHOLD = 2
"""A first call is never a repeat."""


class ThresholdSweep:
    """Scores of policies with all thresholds times each factor."""

    def __init__(self, policies: Sequence[Policy], tools: ToolRules | None = None) -> None:
        self._tools = tools
        self.scores = {factor: Score() for factor in SWEEP_FACTORS}
        self._policies = {
            factor: scale_policies(policies, factor) for factor in SWEEP_FACTORS if factor != 1.0
        }

    def add(self, run: RecordedRun, unscaled: ScoredRun) -> None:
        """Judge a labelled run under each factor; `unscaled` is its score under 1."""
        self.scores[1.0].add(unscaled)
        for factor, policies in self._policies.items():
            first = first_actions(run, policies, self._tools)
            self.scores[factor].add(ScoredRun.of(run, first))


def scale_policies(policies: Iterable[Policy], factor: float) -> tuple[Policy, ...]:
    """Return the policies with every threshold times `factor`."""
    return tuple(
        replace(policy, rules=tuple(_scaled_rule(rule, factor) for rule in policy.rules))
        for policy in policies
    )


def _scaled_rule(rule: Rule, factor: float) -> Rule:
    limit = HIT_LIMIT // UNNAMED_FACTOR if rule.watch == "session" else HIT_LIMIT
    return replace(rule, ladder=scale_ladder(rule.ladder, factor, limit))


def scale_ladder(ladder: Ladder, factor: float, limit: int = HIT_LIMIT) -> Ladder:
    """Return the ladder times `factor`, with distinct steps.

    Equal steps are moved up by one; those beyond `limit` are moved down.
    """
    thresholds: dict[Action, int] = {}
    lowest = min(MIN_THRESHOLD, ladder.first)
    for action, threshold in ladder.steps:
        thresholds[action] = max(round(threshold * factor), lowest)
        lowest = thresholds[action] + 1
    for action in reversed(thresholds):
        thresholds[action] = min(thresholds[action], limit)
        limit = thresholds[action] - 1
    return Ladder(thresholds)
