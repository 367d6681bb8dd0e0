"""Try it: a pasted conversation, judged step by step, with what every rule finds."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from looptrap.detect.round import Round
from looptrap.detect.strip import MAX_CELLS, StripCell, strip
from looptrap.detect.trajectory import Trajectory
from looptrap.dialect.model import Call
from looptrap.policy.action import Action
from looptrap.policy.policy import Policy
from looptrap.policy.rule import Rule
from looptrap.policy.verdict import Verdict
from looptrap.replay.explain import Explainer, RuleExplanation
from looptrap.replay.judge import as_enforced, judge_call, replay_guard
from looptrap.replay.recorded_run import RecordedRequest
from looptrap.replay.ruleset import Ruleset
from looptrap.replay.transcript import read_transcript

MAX_STEPS = 2_000

TIME_LIMIT_S = 7.0
"""Seconds for judging; later steps are left out."""

MAX_SUMMARY_CHARS = 200
"""Characters of a text in a summary."""

STRIP_SECRET = b"replay"


class TryItRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A pasted text, and the ruleset in plain form."""

    text: str
    rules: dict[str, object]
    seconds: float = TIME_LIMIT_S


class StepVerdict(msgspec.Struct, frozen=True, gc=False):
    """The verdict on a request."""

    action: Action
    rule: str | None
    message: str
    count: int

    @classmethod
    def of(cls, verdict: Verdict) -> StepVerdict:
        """Return the parts of a verdict that are shown."""
        return cls(verdict.action, verdict.rule or None, verdict.message, verdict.count)


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

    @classmethod
    def of(cls, policy: Policy, rule: Rule) -> AppliedRule:
        """Return the parts of a rule that are shown."""
        return cls(policy.name, rule.name, rule.watch, dict(rule.ladder.steps))


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
    rules = Ruleset.read(request.rules)
    policies = as_enforced(rules.policies)
    guard, explainer = replay_guard(policies, rules.tools), Explainer(policies, rules.tools)
    steps: list[TryItStep] = []
    rounds: list[Round | None] = []
    for index, (call, now, answer) in enumerate(transcript.requests[:MAX_STEPS]):
        if index and clock() >= deadline:
            break
        explanations = explainer.explain(call, now, answer)
        verdict = judge_call(guard, call, now, answer)
        rounds.append(_latest(call))
        steps.append(_step(index, call, rounds[-1], explanations, verdict))
    first, worst = transcript.requests[0].call, _worst(steps)
    cells, ids = _strip(rounds)
    return TryItReport(
        dialect=first.dialect,
        model=first.model,
        rules=[AppliedRule.of(*step) for step in rules.rules()],
        steps=[
            msgspec.structs.replace(step, strip_id=id) for step, id in zip(steps, ids, strict=True)
        ],
        strip=cells,
        verdict=worst.verdict,
        at=worst.index if worst.verdict.action is not Action.ALLOW else None,
        limits=[*transcript.limits, *_unjudged(transcript.requests, len(steps))],
    )


def _latest(call: Call) -> Round | None:
    """Return the latest round of a request; None after a person's message."""
    latest = Trajectory(call, 1).latest(1)
    return latest[0] if latest else None


def _step(
    index: int, call: Call, latest: Round | None, opinions: list[RuleExplanation], verdict: Verdict
) -> TryItStep:
    judgement = StepVerdict.of(verdict)
    if latest is None:
        last = call.tail(1)
        return TryItStep(
            index=index,
            messages=len(call.raws),
            role=last[0].role if last else "",
            summary=_short(last[0].text) if last else "",
            opinions=opinions,
            verdict=judgement,
        )
    called = ", ".join(f"{call_.name}({call_.arguments})" for call_ in latest.calls)
    return TryItStep(
        index=index,
        messages=len(call.raws),
        role="assistant",
        summary=_short(called or latest.text),
        result=_short(latest.result) if latest.calls else None,
        tools=tuple(sorted(latest.names)),
        is_error=latest.failure is not None,
        opinions=opinions,
        verdict=judgement,
    )


def _strip(rounds: Sequence[Round | None]) -> tuple[list[StripCell], list[str | None]]:
    """Return the strip of the latest rounds, and the id of each step."""
    cells = strip(
        [round_ for round_ in reversed(rounds) if round_ is not None], STRIP_SECRET, len(rounds)
    )
    remaining = iter(cells)
    return cells[-MAX_CELLS:], [None if round_ is None else next(remaining).id for round_ in rounds]


def _worst(steps: Sequence[TryItStep]) -> TryItStep:
    return max(steps, key=lambda step: step.verdict.action.severity)


def _unjudged(requests: Sequence[RecordedRequest], judged: int) -> list[str]:
    limits = []
    if judged < len(requests):
        limits.append(f"The first {judged:,} of {len(requests):,} steps were judged.")
    if any(request.call.chain for request in requests):
        limits.append("The provider keeps the earlier history, so nothing is read from it.")
    return limits


def _short(text: str) -> str:
    shown = " ".join(text[: MAX_SUMMARY_CHARS * 4].split())
    return shown if len(shown) <= MAX_SUMMARY_CHARS else f"{shown[: MAX_SUMMARY_CHARS - 1]}…"
