"""A scenario: the requests of one or more agents over time; and its play against a detector."""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from time import process_time
from typing import Any, Literal, Protocol

from looptrap import Guard
from looptrap.dialect.model import Outcome
from looptrap.errors import RefusedError

START = 1_800_000_000.0
"""When every scenario begins, in seconds since 1970."""


@dataclass(frozen=True, slots=True)
class Step:
    """One request, and the answer that its provider would give."""

    at: float
    """Seconds since the scenario began."""
    takes: float
    """Seconds until it is answered."""
    body: Mapping[str, Any]
    answer: bytes = b""
    """The provider's answer: JSON, or server-sent events where the body asks for a stream."""
    path: str = "/v1/chat/completions"
    headers: Mapping[str, str] = field(default_factory=dict)
    caller: str = "team"


@dataclass(frozen=True, slots=True)
class Scenario:
    """Requests in the order of their times; those of one that is answered may overlap."""

    name: str
    kind: str
    """What it is about: `trimmed`, `compacted`, …; its twin has the same kind."""
    is_loop: bool
    steps: Sequence[Step]
    harness: str = ""
    """In the form of which agent or framework the requests are."""
    begins: int = 0
    """For a loop: the step from which nothing new happens."""
    shows: str = "whole"
    """What of the run a request has: `whole`, `trimmed`, `elided`, `compacted`, `kept` or
    `prompt`."""
    difficulty: str = "medium"
    """How hard it is to tell loop and twin apart: `easy`, `medium`, `hard`."""


Verdict = Literal["allow", "warn", "refuse"]


class Asker(Protocol):
    """A detector with the state of one scenario, asked before each call.

    It may have more: `answered(step, at)` is told of each answer at its time, `reason` says why
    it refused, and `clock()` returns its CPU seconds where this process does not spend them.
    """

    def __call__(self, step: Step) -> Verdict:
        """Return what becomes of this call."""
        ...


@dataclass(frozen=True, slots=True)
class Played:
    """What a detector said: the first step that it warned of, and the first that it refused."""

    warned: int | None
    refused: int | None
    why: str = ""
    calls: int = 0
    """How many calls it judged, the refused one included."""
    cpu_s: float = 0.0
    warnings: tuple[int, ...] = ()
    """All steps that it warned of."""


def ask(scenario: Scenario, asker: Asker) -> Played:
    """Ask for a verdict on each call at its time, and tell of answers, until one is refused."""
    clock = getattr(asker, "clock", process_time)
    answered = getattr(asker, "answered", None)
    under_way: list[tuple[float, int]] = []
    warnings: list[int] = []
    refused, index, begun = None, -1, clock()
    for index, step in enumerate(scenario.steps):
        while under_way and under_way[0][0] <= step.at:
            at, which = heapq.heappop(under_way)
            if answered is not None:
                answered(scenario.steps[which], at)
        verdict = asker(step)
        if verdict == "refuse":
            refused = index
            break
        if verdict == "warn":
            warnings.append(index)
        heapq.heappush(under_way, (step.at + step.takes, index))
    why = getattr(asker, "reason", "") if refused is not None else ""
    warned = warnings[0] if warnings else None
    return Played(warned, refused, why, index + 1, clock() - begun, tuple(warnings))


class GuardAsker:
    """Asks a guard of Looptrap."""

    def __init__(self, guard: Guard) -> None:
        self._guard = guard
        self._tickets: dict[int, Any] = {}
        self.reason = ""

    def __call__(self, step: Step) -> Verdict:
        """Return what the guard says of a call."""
        try:
            ticket = self._guard.check(
                step.body,
                caller=step.caller,
                path=step.path,
                headers=step.headers,
                now=START + step.at,
            )
        except RefusedError as refusal:
            self.reason = str(refusal)
            return "refuse"
        self._tickets[id(step)] = ticket
        return "allow" if ticket.verdict.action.name == "ALLOW" else "warn"

    def answered(self, step: Step, at: float) -> None:
        """Tell the guard how a call was answered."""
        ticket = self._tickets.pop(id(step))
        self._guard.conclude(ticket, Outcome(200), now=START + at, answer=step.answer)


def play(scenario: Scenario, guard: Guard) -> Played:
    """Send all requests to a guard at their times, until one is refused."""
    return ask(scenario, GuardAsker(guard))
