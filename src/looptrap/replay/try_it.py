"""Try it: a pasted conversation, judged step by step, with what every rule finds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import msgspec

from looptrap.detect.round import Round
from looptrap.detect.signals.signal import Evidence
from looptrap.detect.strip import MAX_CELLS, StripCell, strip
from looptrap.detect.trajectory import Trajectory
from looptrap.dialect.model import Call
from looptrap.engine import Plan
from looptrap.policy.action import Action, Ladder
from looptrap.policy.rule import Rule
from looptrap.policy.verdict import Verdict, counted
from looptrap.policy.watch import CountingWatch, Watch
from looptrap.replay.judge import judge_call, replay_guard
from looptrap.replay.recorded_run import RecordedRequest
from looptrap.replay.ruleset import Ruleset
from looptrap.replay.transcript import read_transcript
from looptrap.store.model import Count

MAX_STEPS = 2_000

TIME_LIMIT_S = 7.0
"""Seconds for judging; later steps are left out."""

MAX_SUMMARY_CHARS = 200
"""Characters of a text in a summary."""

MIN_REPEAT_COUNT = 2
"""Counts across requests are explained from here on: a first call is never a repeat."""


class TryItRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A pasted text, and the ruleset in plain form."""

    text: str
    rules: dict[str, object]
    seconds: float = TIME_LIMIT_S


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


class StepVerdict(msgspec.Struct, frozen=True, gc=False):
    """The verdict on a request."""

    action: Action
    rule: str | None
    message: str
    count: int


class TryItStep(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """One request: its latest round, what rules find, and the verdict."""

    index: int
    messages: int
    """How many it carries."""
    role: str
    """`assistant` for a round, else the role of the last message."""
    summary: str
    result: str | None = None
    """The result of its tool calls, if any."""
    tools: tuple[str, ...] = ()
    is_error: bool = False
    strip_id: str | None = None
    opinions: list[RuleExplanation]
    verdict: StepVerdict


class AppliedRule(msgspec.Struct, frozen=True, gc=False):
    """A rule that was applied to every step."""

    policy: str
    rule: str
    signal: str
    thresholds: dict[Action, int]


class TryItReport(msgspec.Struct, frozen=True, kw_only=True):
    """The result for a pasted text."""

    dialect: str
    model: str
    rules: list[AppliedRule]
    steps: list[TryItStep]
    strip: list[StripCell]
    verdict: StepVerdict
    """The severest, first reached …"""
    at: int | None
    """… at this step; None where no action is taken."""
    limits: list[str]
    """What was not judged, a sentence each."""


def judge_transcript(request: TryItRequest, clock: Callable[[], float]) -> TryItReport:
    """Judge a pasted text; raises CallError for what cannot be read."""
    deadline = clock() + request.seconds
    transcript = read_transcript(request.text)
    # The settings of a project, if one was chosen, are in the policies already.
    rules = replace(Ruleset.read(request.rules).enforced(), projects=())
    guard, explainer = replay_guard(rules), Explainer(rules)
    steps: list[TryItStep] = []
    rounds: list[Round | None] = []
    for index, (call, now, answer) in enumerate(transcript.requests[:MAX_STEPS]):
        if index and clock() >= deadline:
            break
        explanations = explainer.explain(call, now, answer)
        verdict = judge_call(guard, call, now, answer)
        rounds.append(Trajectory(call, 1).newest)
        steps.append(_step(index, call, rounds[-1], explanations, verdict))
    first = transcript.requests[0].call
    worst = max(steps, key=lambda step: step.verdict.action.severity)
    cells, ids = _strip(rounds)
    return TryItReport(
        dialect=first.dialect,
        model=first.model,
        rules=[
            AppliedRule(policy.name, rule.name, rule.watch, dict(rule.ladder.steps))
            for policy, rule in rules.rules()
        ],
        steps=[
            msgspec.structs.replace(step, strip_id=id) for step, id in zip(steps, ids, strict=True)
        ],
        strip=cells,
        verdict=worst.verdict,
        at=worst.index if worst.verdict.action is not Action.ALLOW else None,
        limits=[*transcript.limits, *_limits(transcript.requests, len(steps))],
    )


def _step(
    index: int, call: Call, latest: Round | None, opinions: list[RuleExplanation], verdict: Verdict
) -> TryItStep:
    """Return a step; `latest` is None after a person's message."""
    shown: dict[str, Any]
    if latest is None:
        last = call.tail(1)
        role, text = (last[0].role, last[0].text) if last else ("", "")
        shown = {"role": role, "summary": _short(text)}
    else:
        called = ", ".join(f"{call_.name}({call_.arguments})" for call_ in latest.calls)
        shown = {
            "role": "assistant",
            "summary": _short(called or latest.text),
            "result": _short(latest.result) if latest.calls else None,
            "tools": tuple(sorted(latest.names)),
            "is_error": latest.failure is not None,
        }
    return TryItStep(
        index=index,
        messages=len(call.raws),
        opinions=opinions,
        verdict=StepVerdict(verdict.action, verdict.rule or None, verdict.message, verdict.count),
        **shown,
    )


def _strip(rounds: Sequence[Round | None]) -> tuple[list[StripCell], list[str | None]]:
    """Return the strip of the latest rounds, and the id of each step."""
    latest_first = [round_ for round_ in reversed(rounds) if round_ is not None]
    cells = strip(latest_first, b"replay", len(rounds))
    remaining = iter(cells)
    return cells[-MAX_CELLS:], [None if round_ is None else next(remaining).id for round_ in rounds]


def _limits(requests: Sequence[RecordedRequest], judged: int) -> Iterator[str]:
    if judged < len(requests):
        yield f"The first {judged:,} of {len(requests):,} steps were judged."
    if any(request.call.chain for request in requests):
        yield "The provider keeps the earlier history, so nothing is read from it."


def _short(text: str) -> str:
    text = " ".join(text[: MAX_SUMMARY_CHARS * 4].split())
    return text if len(text) <= MAX_SUMMARY_CHARS else f"{text[: MAX_SUMMARY_CHARS - 1]}…"


class Explainer:
    """Finds what rules see in calls, also below their thresholds, and refuses none."""

    def __init__(self, rules: Ruleset) -> None:
        self._real_ladders: dict[int, tuple[Ladder, Ladder]] = {}
        """By id: the ladder that a watch uses here, and the rule's real one."""

        def eager(rule: Rule) -> Rule:
            return replace(rule, ladder=self._eager_ladder(rule.ladder))

        policies = tuple(
            replace(policy, rates=(), rules=tuple(map(eager, policy.rules)))
            for policy in rules.policies
        )
        tools = {
            name: replace(tool, ladder=tool.ladder and self._eager_ladder(tool.ladder))
            for name, tool in rules.tools.items()
        }
        self._guard = replay_guard(Ruleset(policies, tools=tools))

    def explain(self, call: Call, now: float, answer: str) -> list[RuleExplanation]:
        """Return what rules find in a call and its answer, without those that find nothing."""
        guard, store = self._guard, self._guard.store
        plan = guard.plan(call, now)
        retry = call.request.is_retry
        counts = store.hit(plan.hits, now, retry=retry)
        while plan.follows:
            more = guard.follow(plan, counts, store.recall(plan.recalls, now))
            if not more and not plan.recalls:
                break
            counts += store.hit(more, now, retry=retry)
        store.answer([hit for hit in plan.hits if not hit.mark and not hit.continues], now)
        if plan.fitting is not None:
            store.remember(plan.fitting.notes, now)
        return [
            *self._explain_counts(plan, counts),
            *(self._explanation(finding.watch, finding.evidence) for finding in plan.findings),
            *(
                self._explanation(watch, evidence)
                for watch in plan.listening
                if (evidence := watch.signal(answer)) is not None
            ),
        ]

    def _explain_counts(self, plan: Plan, counts: Sequence[Count]) -> Iterable[RuleExplanation]:
        """Return one explanation a rule: the highest count, where it counts in several ways."""
        found: dict[tuple[str, str], RuleExplanation] = {}
        own = [(watch, place, "") for place, watch in enumerate(plan.watches)]
        followed = [(watch, place, "similar_prompt") for watch, place in plan.predecessors]
        for watch, place, signal in (*own, *followed):
            hits, key = counts[place].hits, (watch.policy.name, watch.rule.name)
            if hits >= MIN_REPEAT_COUNT and (key not in found or hits > found[key].count):
                found[key] = self._explanation(watch, counted(watch, hits, signal))
        return found.values()

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
        # Some watches have a ladder derived from their rule's.
        factor = watch.factor if isinstance(watch, CountingWatch) else 1
        return self._real_ladders[id(watch.rule.ladder)][1].times(factor)
