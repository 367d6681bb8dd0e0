"""Play a recorded run: judge its requests one by one, as the gateway would have."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from looptrap.admission import Guard, Ticket
from looptrap.call.model import Call
from looptrap.policy.action import Action
from looptrap.policy.policy import Policy, Project
from looptrap.policy.tool import ToolRule
from looptrap.policy.verdict import ALLOWED, Verdict
from looptrap.replay.result import First, Result
from looptrap.replay.run import Run

BYTES_A_TOKEN = 4
"""A rough measure, good enough to say how much a refusal saves."""

HEARD = 1_024
"""After so many characters more, an answer is listened to again."""

Tools = Mapping[str, ToolRule]


def enforced(policies: Iterable[Policy]) -> tuple[Policy, ...]:
    """Return the policies as if they were enforced: what they would do is what is asked."""
    return tuple(replace(policy, mode="enforce") for policy in policies)


def guard_of(
    policies: Iterable[Policy], tools: Tools | None = None, projects: Iterable[Project] = ()
) -> Guard:
    """Return a guard for what was recorded; it has counted nothing yet."""
    return Guard(policies, tools=tools, projects=projects, secret=b"replay")


class Course:
    """What was decided about a run, request by request."""

    __slots__ = ("_first", "calls", "worst")

    def __init__(self) -> None:
        self._first: dict[str, int] = {}
        self.calls = 0
        """The requests judged so far."""
        self.worst: Verdict = ALLOWED

    def add(self, verdict: Verdict) -> None:
        """Take what was decided about the next request."""
        action = verdict.action
        if action is not Action.ALLOW:
            self._first.setdefault(action.value, self.calls)
        if action.severity > self.worst.action.severity:
            self.worst = verdict
        self.calls += 1

    @property
    def first(self) -> First:
        """At which request each action was first taken."""
        return First(**self._first)

    def result(self, name: str, *, calls: int, saved_calls: int, saved_bytes: int) -> Result:
        """Return what became of the run, of whose calls so many would have been saved."""
        worst = self.worst
        return Result(
            id=name,
            calls=calls,
            verdict=worst.action,
            first=self.first,
            rule=worst.rule or None,
            signal=worst.evidence[0].signal if worst.evidence else None,
            evidence=worst.evidence,
            saved_calls=saved_calls,
            saved_tokens=saved_bytes // BYTES_A_TOKEN,
        )


def verdicts(run: Run, policies: Iterable[Policy], tools: Tools | None = None) -> Iterator[Verdict]:
    """Judge every request of a run, and its answer, by a guard of its own.

    A refusal does not end the run. What was heard in an answer stands for the call it answers.
    """
    guard = guard_of(policies, tools)
    for end, now in zip(run.ends, run.times, strict=True):
        answer = run.messages[end].text if end < len(run.messages) else ""
        yield decide(guard, run.request(end), now, answer)


def decide(guard: Guard, call: Call, now: float, answer: str) -> Verdict:
    """Judge a call, and its answer where that is known; return the severer verdict."""
    ticket = guard.admit(call, now)
    if ticket.listening and answer:
        _hear(guard, ticket, answer)
    heard = ticket.heard
    is_severer = heard is not None and heard.action.severity > ticket.verdict.action.severity
    return heard if heard is not None and is_severer else ticket.verdict


def _hear(guard: Guard, ticket: Ticket, text: str) -> None:
    """Listen to an answer as it would have passed, up to where it would have been cut."""
    for end in range(HEARD, len(text) + HEARD, HEARD):
        verdict = guard.hear(ticket, text[:end])
        if verdict is not None and verdict.action.refuses:
            return


def play(run: Run, policies: Iterable[Policy], tools: Tools | None = None) -> Result:
    """Return what would have become of a run."""
    course = Course()
    for verdict in verdicts(run, policies, tools):
        course.add(verdict)
    refused, calls = course.first.refusal(), len(run.turns)
    saved = range(calls if refused is None else refused, calls)
    volume = sum(run.prompt_bytes(turn) + run.answer_bytes(turn) for turn in saved)
    return course.result(run.id, calls=calls, saved_calls=len(saved), saved_bytes=volume)


def first_flags(run: Run, policies: Iterable[Policy], tools: Tools | None = None) -> First:
    """Return what would first have been done about a run, up to the first refusal."""
    course = Course()
    for verdict in verdicts(run, policies, tools):
        course.add(verdict)
        if verdict.action.refuses:
            break
    return course.first
