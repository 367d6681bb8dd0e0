"""Explains what every rule finds in a call, also below its thresholds."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import msgspec

from looptrap.detect.signals.signal import Evidence
from looptrap.dialect.model import Call
from looptrap.engine import Plan
from looptrap.policy.action import Action, Ladder
from looptrap.policy.policy import Policy
from looptrap.policy.rule import UNNAMED_FACTOR
from looptrap.policy.verdict import counted
from looptrap.policy.watch import Watch
from looptrap.replay.judge import ToolRules, replay_guard
from looptrap.store.model import Count

MIN_REPEAT_COUNT = 2
"""Counts across requests are explained from here on: a first call is never a repeat."""


class RuleExplanation(msgspec.Struct, frozen=True, gc=False):
    """What one rule finds in a call."""

    policy: str
    rule: str
    signal: str
    count: int
    thresholds: dict[Action, int]
    action: Action
    """What the rule would do at that count."""
    words: str


class Explainer:
    """Finds what the rules of some policies see in calls, and refuses none."""

    def __init__(self, policies: Iterable[Policy], tools: ToolRules | None = None) -> None:
        self._real_ladders: dict[int, tuple[Ladder, Ladder]] = {}
        """By id: the ladder that a watch uses here, and the rule's real one."""
        self._guard = replay_guard(
            [
                replace(
                    policy,
                    rates=(),
                    rules=tuple(
                        replace(rule, ladder=self._eager_ladder(rule.ladder))
                        for rule in policy.rules
                    ),
                )
                for policy in policies
            ],
            {
                name: replace(policy, ladder=policy.ladder and self._eager_ladder(policy.ladder))
                for name, policy in (tools or {}).items()
            },
        )

    def explain(self, call: Call, now: float, answer: str) -> list[RuleExplanation]:
        """Return what rules find in a call and its answer, without those that find nothing."""
        guard = self._guard
        planned = guard.plan(call, now)
        retry = call.request.is_retry
        counts = guard.store.hit(planned.hits, now, retry=retry)
        if planned.follows and (more := guard.follow(planned, counts)):
            counts += guard.store.hit(more, now, retry=retry)
        return [
            *_severest(self._explain_counts(planned, counts)),
            *(self._explanation(finding.watch, finding.evidence) for finding in planned.findings),
            *(
                self._explanation(watch, evidence)
                for watch in planned.listening
                if (evidence := watch.signal(answer)) is not None
            ),
        ]

    def _explain_counts(self, planned: Plan, counts: Sequence[Count]) -> Iterator[RuleExplanation]:
        followed = [(watch, place, "similar_prompt") for watch, place in planned.predecessors]
        own = [(watch, place, "") for place, watch in enumerate(planned.watches)]
        for watch, place, signal in (*own, *followed):
            if counts[place].hits >= MIN_REPEAT_COUNT:
                yield self._explanation(watch, counted(watch.rule, counts[place].hits, signal))

    def _explanation(self, watch: Watch, evidence: Evidence) -> RuleExplanation:
        ladder = self._real_ladder(watch)
        return RuleExplanation(
            policy=watch.policy.name,
            rule=watch.rule.name,
            signal=evidence.signal,
            count=evidence.count,
            thresholds=dict(ladder.steps),
            action=ladder.at(evidence.count),
            words=evidence.what,
        )

    def _eager_ladder(self, ladder: Ladder) -> Ladder:
        """Return a ladder under which evidence is reported from the first count on."""
        eager = Ladder({Action.WARN: 1, Action.BLOCK: max(ladder.last, 2)})
        self._real_ladders[id(eager)] = (eager, ladder)
        return eager

    def _real_ladder(self, watch: Watch) -> Ladder:
        known = self._real_ladders.get(id(watch.ladder))
        if known is not None:
            return known[1]
        # Calls without a session have a ladder derived from their rule's.
        return self._real_ladders[id(watch.rule.ladder)][1].times(UNNAMED_FACTOR)


def _severest(explanations: Iterable[RuleExplanation]) -> Iterable[RuleExplanation]:
    """Return one explanation a rule: the highest count, where it counts in several ways."""
    found: dict[tuple[str, str], RuleExplanation] = {}
    for explanation in explanations:
        before = found.setdefault((explanation.policy, explanation.rule), explanation)
        if explanation.count > before.count:
            found[explanation.policy, explanation.rule] = explanation
    return found.values()
