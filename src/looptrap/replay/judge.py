"""Judges the requests of a recorded run one by one, as the gateway would have."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from looptrap.detect.signals.signal import Evidence
from looptrap.dialect.model import BYTES_PER_TOKEN, Call
from looptrap.engine import Guard, Ticket
from looptrap.policy.action import Action
from looptrap.policy.verdict import ALLOWED, Verdict
from looptrap.replay.recorded_run import RecordedRun
from looptrap.replay.ruleset import Ruleset


class FirstActions(msgspec.Struct, frozen=True, gc=False):
    """At which assistant turn, counted from 0, each action would first have been taken."""

    warn: int | None = None
    throttle: int | None = None
    nudge: int | None = None
    stop: int | None = None
    block: int | None = None

    def at_least(self, action: Action) -> int | None:
        """Return the first turn at which that action or a severer one would have been taken."""
        severe = [one.value for one in Action if one.severity >= action.severity]
        turns = [getattr(self, name, None) for name in severe]
        return min((turn for turn in turns if turn is not None), default=None)

    def refusal(self) -> int | None:
        """Return the first turn that would have been refused."""
        return self.at_least(Action.STOP)


class RunResult(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """The result of one run."""

    id: str
    calls: int
    """Recorded assistant turns."""
    verdict: Action
    """The severest of all its requests."""
    first: FirstActions
    rule: str | None = None
    """The rule of the verdict; `signal` and `evidence` are its reasons."""
    signal: str | None = None
    evidence: tuple[Evidence, ...] = ()
    saved_calls: int = 0
    """Recorded turns from the first refusal on."""
    saved_tokens: int = 0
    """An estimate, by bytes, of the tokens of those calls and their answers."""
    saved_usd: float | None = None


LISTEN_STEP_CHARS = 1_024
"""Characters after which an answer is judged again."""


def replay_guard(rules: Ruleset) -> Guard:
    """Return a guard for a replay, with no counts yet."""
    return Guard(rules.policies, tools=rules.tools, projects=rules.projects, secret=b"replay")


class RunVerdicts:
    """The verdicts on a run's requests."""

    __slots__ = ("_first", "calls", "worst")

    def __init__(self) -> None:
        self._first: dict[str, int] = {}
        self.calls = 0
        """The requests judged so far."""
        self.worst: Verdict = ALLOWED

    def add(self, verdict: Verdict) -> None:
        """Add the verdict on the next request."""
        action = verdict.action
        if action is not Action.ALLOW:
            self._first.setdefault(action.value, self.calls)
        if action.severity > self.worst.action.severity:
            self.worst = verdict
        self.calls += 1

    @property
    def first(self) -> FirstActions:
        """At which request each action was first taken."""
        return FirstActions(**self._first)

    def result(self, name: str, *, calls: int, saved_calls: int, saved_bytes: int) -> RunResult:
        """Return the result of the run."""
        worst = self.worst
        return RunResult(
            id=name,
            calls=calls,
            verdict=worst.action,
            first=self.first,
            rule=worst.rule or None,
            signal=worst.evidence[0].signal if worst.evidence else None,
            evidence=worst.evidence,
            saved_calls=saved_calls,
            saved_tokens=saved_bytes // BYTES_PER_TOKEN,
        )


def judge_requests(run: RecordedRun, rules: Ruleset) -> Iterator[Verdict]:
    """Judge every request of a run, and its answer, with a guard of its own.

    A refusal does not end the run. A verdict on an answer counts for its call.
    """
    guard = replay_guard(rules)
    return (judge_call(guard, *request) for request in run.requests())


def judge_call(guard: Guard, call: Call, now: float, answer: str) -> Verdict:
    """Judge a call, and its answer where known; return the severer verdict."""
    ticket = guard.admit(call, now)
    if ticket.listening and answer:
        _judge_answer(guard, ticket, answer)
    verdicts = ticket.verdict, ticket.heard or ticket.verdict
    return max(verdicts, key=lambda verdict: verdict.action.severity)


def _judge_answer(guard: Guard, ticket: Ticket, text: str) -> None:
    """Judge an answer as it would have been relayed, up to where it would have been cut."""
    for end in range(LISTEN_STEP_CHARS, len(text) + LISTEN_STEP_CHARS, LISTEN_STEP_CHARS):
        verdict = guard.hear(ticket, text[:end])
        if verdict is not None and verdict.action.refuses:
            return


def judge_run(run: RecordedRun, rules: Ruleset) -> RunResult:
    """Return the result of a run."""
    verdicts = RunVerdicts()
    for verdict in judge_requests(run, rules):
        verdicts.add(verdict)
    refused, calls = verdicts.first.refusal(), len(run.turns)
    saved = range(calls if refused is None else refused, calls)
    volume = sum(run.prompt_bytes(turn) + run.answer_bytes(turn) for turn in saved)
    return verdicts.result(run.id, calls=calls, saved_calls=len(saved), saved_bytes=volume)


def first_actions(run: RecordedRun, rules: Ruleset) -> FirstActions:
    """Return the first actions on a run, up to the first refusal."""
    verdicts = RunVerdicts()
    for verdict in judge_requests(run, rules):
        verdicts.add(verdict)
        if verdict.action.refuses:
            break
    return verdicts.first
