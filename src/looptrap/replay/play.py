"""Play a recorded run: judge its requests one by one, as the gateway would have."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from looptrap.guard import Guard
from looptrap.policy.action import Action
from looptrap.policy.policy import Policy
from looptrap.policy.verdict import ALLOWED, Verdict
from looptrap.replay.result import First, Result
from looptrap.replay.run import Run

BYTES_A_TOKEN = 4
"""A rough measure, good enough to say how much a refusal saves."""


def enforced(policies: Iterable[Policy]) -> tuple[Policy, ...]:
    """Return the policies as if they were enforced: what they would do is what is asked."""
    return tuple(replace(policy, mode="enforce") for policy in policies)


def verdicts(run: Run, policies: Iterable[Policy]) -> Iterator[Verdict]:
    """Judge every request of a run by a guard of its own; a refusal does not end the run."""
    guard = Guard(policies, secret=b"replay")
    for end, now in zip(run.ends, run.times, strict=True):
        yield guard.admit(run.request(end), now).verdict


def play(run: Run, policies: Iterable[Policy]) -> Result:
    """Return what would have become of a run."""
    first: dict[str, int] = {}
    worst: Verdict = ALLOWED
    for index, verdict in enumerate(verdicts(run, policies)):
        if verdict.action is not Action.ALLOW:
            first.setdefault(verdict.action.value, index)
        if verdict.action.severity > worst.action.severity:
            worst = verdict
    return _result(run, First(**first), worst)


def first_flags(run: Run, policies: Iterable[Policy]) -> First:
    """Return what would first have been done about a run, up to the first refusal."""
    first: dict[str, int] = {}
    for index, verdict in enumerate(verdicts(run, policies)):
        if verdict.action is not Action.ALLOW:
            first.setdefault(verdict.action.value, index)
        if verdict.action.refuses:
            break
    return First(**first)


def _result(run: Run, first: First, worst: Verdict) -> Result:
    refused = first.refusal()
    saved = range(len(run.turns) if refused is None else refused, len(run.turns))
    volume = sum(run.prompt_bytes(turn) + run.answer_bytes(turn) for turn in saved)
    return Result(
        id=run.id,
        calls=len(run.turns),
        verdict=worst.action,
        first=first,
        rule=worst.rule or None,
        signal=worst.evidence[0].signal if worst.evidence else None,
        evidence=worst.evidence,
        saved_calls=len(saved),
        saved_tokens=volume // BYTES_A_TOKEN,
    )
