"""Projects an endless loop of one call: how many calls would pass, and what they cost."""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, field
from math import ceil

import msgspec

from looptrap.dialect.model import Request, Usage
from looptrap.dialect.registry import read
from looptrap.engine import Transaction
from looptrap.money.price import NANO, Price
from looptrap.replay.judge import replay_guard
from looptrap.replay.ruleset import Ruleset

MAX_CALLS = 10_000
"""Calls that are judged, which takes about a second."""

START_TIME = 1_800_000_000.0
"""Any time would do."""

CHAT_PATH = "/v1/chat/completions"

HOUR_S = 3600.0
SPAN_SECONDS = {"minute": 60.0, "hour": HOUR_S, "night": 12 * HOUR_S, "weekend": 63 * HOUR_S}
"""Seconds; a weekend lasts from Friday, 18:00, to Monday, 9:00."""

ANSWER_SECONDS = (1, 5, 15, 60)
"""How long answers may take, from a small model to one that reasons."""

MAX_SPAN_S = max(SPAN_SECONDS.values())


@dataclass(slots=True)
class LoopProjection:
    """Which calls of a loop passed, as far as it was simulated."""

    seconds: float = 0.0
    """How long it was simulated."""
    judged_calls: int = 0
    allowed_at: list[float] = field(default_factory=list)
    """The times of the calls that passed, in seconds since the first …"""
    resumed_at: list[float] = field(default_factory=list)
    """… and of those that came right after a refusal."""
    rule: str = ""
    """The rule that refused first, if one did …"""
    first_refused: int | None = None
    """… and at which call, the first being 1."""

    def calls_in(self, seconds: float) -> int:
        """Return how many calls pass in that time; beyond the simulation, extrapolated."""
        within = self._between(0.0, seconds)
        if seconds <= self.seconds:
            return within
        # From one resumption to another is a full period; without any, the rate is constant.
        is_cycle = len(self.resumed_at) > 1
        start = self.resumed_at[0] if is_cycle else self.seconds / 2
        end = self.resumed_at[-1] if is_cycle else self.seconds
        rate = self._between(start, end) / (end - start)
        return within + round(rate * (seconds - self.seconds))

    def _between(self, start: float, end: float) -> int:
        return bisect_left(self.allowed_at, end) - bisect_left(self.allowed_at, start)


def project_loop(
    rules: Ruleset, *, model: str, rps: float, seconds: float, refusal_s: float | None = None
) -> LoopProjection:
    """Judge the same chat call repeatedly, for that long or `MAX_CALLS` times.

    Each call is sent as soon as the one before is answered. The simulated client ignores refusals,
    and sends the next call `refusal_s` after one, or at the same pace; it waits where it is
    throttled.
    """
    guard = replay_guard(rules.enforced())
    content = json.dumps({"model": model, "messages": [{"role": "user", "content": "Go on."}]})
    body, loop, was_refused = content.encode(), LoopProjection(), False
    refusals, delay = 0, 0.0
    pace = 1 / rps
    while loop.judged_calls < MAX_CALLS and loop.seconds < seconds:
        request = Request("POST", CHAT_PATH, "", [], body, "caller", session="session")
        now = START_TIME + loop.seconds
        ticket = guard.begin(Transaction(guard, read(request)), now).ticket
        verdict = ticket.verdict
        is_refused = verdict.action.refuses
        guard.end(ticket, None, now if is_refused else now + pace)
        loop.judged_calls += 1
        if not is_refused:
            loop.allowed_at.append(loop.seconds)
            if was_refused:
                loop.resumed_at.append(loop.seconds)
        elif loop.first_refused is None:
            loop.rule, loop.first_refused = verdict.rule, loop.judged_calls
        was_refused = is_refused
        refusals += is_refused and refusal_s is not None
        delay += verdict.delay
        answered = loop.judged_calls - refusals
        loop.seconds = answered / rps + refusals * (refusal_s or 0.0) + delay
    return loop


class LoopSpanCost(msgspec.Struct, frozen=True):
    """What a loop of some length costs."""

    span: str
    seconds: float
    calls: int
    cost_usd: float
    passed: int
    """How many of the calls Looptrap lets pass."""
    with_looptrap_usd: float
    saved_usd: float


@dataclass(frozen=True, slots=True)
class LoopCost:
    """What a loop costs, with Looptrap and without."""

    loop: LoopProjection
    rps: float
    usage: Usage
    """Of each call."""
    price: Price

    def usd(self, calls: int) -> float:
        """Return the cost of that many calls."""
        return calls * self.price.cost(self.usage) / NANO

    @property
    def until_refused_usd(self) -> float | None:
        """The cost of an agent that stops at the first refusal."""
        return None if self.loop.first_refused is None else self.usd(self.loop.first_refused - 1)

    @property
    def is_slowed(self) -> bool:
        """Whether calls were delayed."""
        return self.loop.judged_calls < self._calls_in(self.loop.seconds)

    def spans(self) -> Iterator[LoopSpanCost]:
        """Yield the costs, from the shortest time to the longest."""
        for name, seconds in SPAN_SECONDS.items():
            calls = self._calls_in(seconds)
            passed = min(self.loop.calls_in(seconds), calls)
            yield LoopSpanCost(
                span=name,
                seconds=seconds,
                calls=calls,
                cost_usd=self.usd(calls),
                passed=passed,
                with_looptrap_usd=self.usd(passed),
                saved_usd=self.usd(calls - passed),
            )

    def _calls_in(self, seconds: float) -> int:
        # A rounding error is not another call.
        return ceil(round(seconds * self.rps, 6))


class AnswerTimeCost(msgspec.Struct, frozen=True):
    """What an hour of a loop costs whose answers take some seconds, one call after the other."""

    seconds: int
    calls: int
    cost_usd: float
    first_refused: int | None
    passed: int
    with_looptrap_usd: float


def costs_by_answer_time(
    rules: Ruleset, *, model: str, usage: Usage, price: Price
) -> Iterator[AnswerTimeCost]:
    """Yield the costs of loops whose answers take longer and longer."""
    for seconds in ANSWER_SECONDS:
        rps = 1 / seconds
        loop = project_loop(rules, model=model, rps=rps, seconds=HOUR_S, refusal_s=1.0)
        hour = next(
            one for one in LoopCost(loop, rps, usage, price).spans() if one.seconds == HOUR_S
        )
        yield AnswerTimeCost(
            seconds,
            hour.calls,
            hour.cost_usd,
            loop.first_refused,
            hour.passed,
            hour.with_looptrap_usd,
        )
