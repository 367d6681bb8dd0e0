"""The threshold sweep: what if every threshold were lower, or higher?"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from looptrap.detect.window import HIT_LIMIT
from looptrap.policy.action import Action, Ladder
from looptrap.policy.policy import Policy
from looptrap.policy.rule import UNNAMED_FACTOR, Rule
from looptrap.replay.play import Tools, first_flags
from looptrap.replay.run import Run
from looptrap.replay.score import Case, Score

FACTORS = (0.6, 0.8, 1.0, 1.25, 1.5, 2.0)

LOWEST = 2
"""A first call is never a repeat."""


class Sweep:
    """Scores of the same policies with all thresholds times each factor."""

    def __init__(self, policies: Sequence[Policy], tools: Tools | None = None) -> None:
        self._tools = tools
        self.scores = {factor: Score() for factor in FACTORS}
        self._policies = {factor: scaled(policies, factor) for factor in FACTORS if factor != 1.0}

    def add(self, run: Run, unscaled: Case) -> None:
        """Play a labelled run under each factor; under 1 it has been played already."""
        for factor, score in self.scores.items():
            policies = self._policies.get(factor)
            if policies is None:
                score.add(unscaled)
            else:
                score.add(Case.of(run, first_flags(run, policies, self._tools)))


def scaled(policies: Iterable[Policy], factor: float) -> tuple[Policy, ...]:
    """Return the policies with every threshold times `factor`."""
    return tuple(
        replace(policy, rules=tuple(_scaled_rule(rule, factor) for rule in policy.rules))
        for policy in policies
    )


def _scaled_rule(rule: Rule, factor: float) -> Rule:
    most = HIT_LIMIT // UNNAMED_FACTOR if rule.watch == "session" else HIT_LIMIT
    return replace(rule, ladder=scaled_ladder(rule.ladder, factor, most))


def scaled_ladder(ladder: Ladder, factor: float, most: int = HIT_LIMIT) -> Ladder:
    """Return the ladder times `factor`, its steps as far apart as they must be.

    Steps that would meet are moved up by one; those beyond `most` are moved down.
    """
    thresholds: dict[Action, int] = {}
    lowest = min(LOWEST, ladder.first)
    for action, threshold in ladder.steps:
        thresholds[action] = max(round(threshold * factor), lowest)
        lowest = thresholds[action] + 1
    for action in reversed(thresholds):
        thresholds[action] = min(thresholds[action], most)
        most = thresholds[action] - 1
    return Ladder(thresholds)
