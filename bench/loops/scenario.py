"""A scenario: the requests of one or more agents over time; and its play against a guard."""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

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


@dataclass(frozen=True, slots=True)
class Played:
    """What a guard said: the first step that it warned of, and the first that it refused."""

    warned: int | None
    refused: int | None
    why: str = ""


def play(scenario: Scenario, guard: Guard) -> Played:
    """Send all requests to a guard at their times, until one is refused."""
    under_way: list[tuple[float, int, Any]] = []
    warned = None
    for index, step in enumerate(scenario.steps):
        now = START + step.at
        while under_way and under_way[0][0] <= now:
            _conclude(guard, scenario, *heapq.heappop(under_way))
        try:
            ticket = guard.check(
                step.body, caller=step.caller, path=step.path, headers=step.headers, now=now
            )
        except RefusedError as refusal:
            return Played(warned, index, str(refusal))
        if warned is None and ticket.verdict.action.name != "ALLOW":
            warned = index
        heapq.heappush(under_way, (now + step.takes, index, ticket))
    return Played(warned, None)


def _conclude(guard: Guard, scenario: Scenario, at: float, index: int, ticket: Any) -> None:
    guard.conclude(ticket, Outcome(200), now=at, answer=scenario.steps[index].answer)
