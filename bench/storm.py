"""A day of agents and a failing provider: naive retries and the policy, in simulated time.

python -m bench.storm [--seed 6] [--turns 180000] [--outage 40] [--limiter minute] [--json]

Every client has the same turns, and its own provider with the same failures. The provider and the
time are simulated; `RetrySchedule`, `Breakers`, the limits of a `Turn` and the classifiers are the
real ones. Fewer `--turns` make the day shorter, not less busy: the outage does not change.
"""

from __future__ import annotations

import argparse
import heapq
import json
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import asdict, replace
from functools import partial
from itertools import count
from math import inf
from random import Random
from typing import NamedTuple

from bench.figure import Figure
from bench.weather import LIMITERS, OUTAGE, STEPS, TENANTS, TURNS, Call, Day, Figures, Job, Provider
from looptrap.retry import Breakers, Chain, Link, RetryPolicy, Turn
from looptrap.retry.schedule import FinalFailure, RetrySchedule, Try, Wait
from looptrap.retry.turn import TurnLimits
from looptrap.retry.turn_budget import TurnAccount

# What agents do. Frameworks try whatever fails 3 times (LangChain's `with_retry` does by default),
# the SDK below them 3 times (`max_retries=2` of OpenAI's and Anthropic's), and so does a tool that
# is an agent: their products are known as a bug (BerriAI/litellm#7130). One layer is the least.
ATTEMPTS = 3
LAYERS = {"naive": 1, "naive³": 3}
OURS = "looptrap"
FIXED_BACKOFF = 1.0

POLICY, LIMITS = RetryPolicy(), TurnLimits()


class Clock:
    """The simulated time."""

    now = 0.0


Acting = Generator[float, None, bool]
"""An agent's turn: yields the seconds until it continues, returns whether it is done."""


class Naive:
    """Retries every failure after the same pause, in independent layers."""

    def __init__(self, clock: Clock, provider: Provider, layers: int) -> None:
        self._clock, self._provider = clock, provider
        self._attempts = ATTEMPTS**layers

    def turn(self, job: Job) -> Acting:
        for call in job.calls:
            for left in reversed(range(self._attempts)):
                seconds, error = self._provider.take(job, call, self._clock.now)
                yield seconds
                if error is None:
                    break
                if not left:
                    return False
                yield FIXED_BACKOFF
            yield call.tool_seconds
        return True


class Looptrap:
    """Does what `Turn` does, one step after the other, on the simulated clock."""

    def __init__(self, clock: Clock, provider: Provider, chance: Callable[[], float]) -> None:
        self._clock, self._provider, self._chance = clock, provider, chance
        self._breakers = Breakers()
        self._chains = [Chain((Link("provider", None, f"key {n}"),)) for n in range(TENANTS)]

    def turn(self, job: Job) -> Acting:
        clock, account = self._clock, TurnAccount(LIMITS, self._clock.now)
        ends = clock.now + account.left(clock.now).deadline
        for call in job.calls:
            if account.take(clock.now, steps=1).exceeded_limit or not (
                yield from self._step(job, call, ends)
            ):
                return False
            account.spend(call.tokens, 0.0)
            if account.take(clock.now, tool_calls=1).exceeded_limit:
                return False
            yield call.tool_seconds
        return True

    def _step(self, job: Job, call: Call, ends: float) -> Acting:
        clock, chain = self._clock, self._chains[job.tenant]
        course = RetrySchedule(chain, POLICY, self._breakers, now=clock.now, deadline=ends)
        while True:
            match course.next(clock.now, self._chance()):
                case FinalFailure():
                    return False
                case Wait(seconds):
                    yield seconds
                case Try():
                    seconds, error = self._provider.take(job, call, clock.now)
                    yield min(seconds, ends - clock.now)
                    if clock.now >= ends:  # a turn's driver cuts what is still running then
                        course.abandoned(clock.now)
                        return False
                    if error is None:
                        course.succeeded(clock.now)
                        return True
                    course.failed(POLICY.classifiers.classify(error, clock.now), clock.now)


Begin = Callable[[Clock, Provider], Naive | Looptrap]


def clients(seed: int) -> dict[str, Begin]:
    """Return how each client begins its day."""
    found: dict[str, Begin] = {
        name: partial(Naive, layers=layers) for name, layers in LAYERS.items()
    }
    return found | {OURS: partial(Looptrap, chance=Random(seed + 2).random)}


def live(day: Day, begin: Begin) -> Figures:
    """Simulate a client's day, event by event."""
    clock, figures = Clock(), Figures()
    client = begin(clock, Provider(day, figures))
    order, jobs = count(), day.jobs()
    waiting: list[tuple[float, int, Job, Acting]] = []
    coming = next(jobs, None)
    while waiting or coming:
        if coming and (not waiting or coming.began <= waiting[0][0]):
            clock.now, job, turn = coming.began, coming, client.turn(coming)
            figures.turns += 1
            coming = next(jobs, None)
        else:
            clock.now, _, job, turn = heapq.heappop(waiting)
        try:
            heapq.heappush(waiting, (clock.now + next(turn), next(order), job, turn))
        except StopIteration as end:
            figures.end(job, clock.now, is_done=end.value, in_outage=day.outage.has(clock.now))
    return figures


def own_seconds(turns: int = 200) -> float:
    """Return the CPU seconds that a turn of the library adds to a step, the least of 5 rounds."""
    best = inf
    for _ in range(5):
        started = time.process_time()
        for _ in range(turns):
            with Turn(breakers=Breakers()) as turn:
                for _ in range(STEPS[1]):
                    turn.call(int)
        best = min(best, time.process_time() - started)
    return best / turns / STEPS[1]


class Aim(NamedTuple):
    """An aim of the policy, and the result."""

    what: str
    wanted: str
    found: str
    is_reached: bool


def aims(days: dict[str, Figures], latency: float) -> list[Aim]:
    """Compare the policy with its aims, and with the mildest of the naive clients."""
    ours, naive = days[OURS], days["naive"]
    retried, fewer = ours.permanent_retried, naive.outage_tokens / max(1, ours.outage_tokens)
    lost = ours.lost_outside / ours.turns
    return [
        Aim("permanent errors retried", "0", f"{retried}", retried == 0),
        Aim("fewer tokens in the outage", "≥ 100 ×", f"{fewer:.0f} ×", fewer >= 100),
        Aim("lost to what passes, outside it", "≤ 0.2 %", f"{100 * lost:.3f} %", lost <= 0.002),
        Aim("latency when nothing fails", "≤ 1.1 ×", f"{latency:.5f} ×", latency <= 1.1),
    ]


def figures(seed: int = 6) -> Iterator[Figure]:
    """Yield the figures of the report."""
    day = Day.of(TURNS, seed, OUTAGE)
    chosen = {name: begin for name, begin in clients(seed).items() if name in (OURS, "naive")}
    days = {name: live(day, begin) for name, begin in chosen.items()}
    mine, naive = days[OURS], days["naive"]
    fewer = naive.outage_tokens / max(1, mine.outage_tokens)
    yield Figure(
        part="storm",
        name="tokens that naive retries send in an outage ÷ ours",
        value=fewer,
        aim=100,
        more_is_better=True,
    )
    lost = 100 * mine.lost_outside / mine.turns
    name = "turns lost to what passes, outside the outage"
    yield Figure(part="storm", name=name, value=lost, unit="%", aim=0.2)
    name, retried = "permanent errors retried", float(mine.permanent_retried)
    yield Figure(part="storm", name=name, value=retried, unit="", aim=0, tolerance=0)


ROWS: dict[str, Callable[[Figures], str]] = {
    "attempts a turn": lambda one: f"{one.attempts / one.turns:.2f}",
    "permanent errors retried": lambda one: f"{one.permanent_retried:,}",
    "attempts in the outage": lambda one: f"{one.outage_attempts:,}",
    "tokens sent in the outage": lambda one: f"{one.outage_tokens:,}",
    "tokens sent in all, millions": lambda one: f"{one.tokens / 1e6:,.0f}",
    "429 rate": lambda one: f"{one.limited / one.attempts:.2%}",
    "turns done": lambda one: f"{one.done / one.turns:.2%}",
    "lost to permanent errors": lambda one: f"{one.lost_permanent / one.turns:.2%}",
    "lost in the outage": lambda one: f"{one.lost_in_outage / one.turns:.2%}",
    "lost to what passes, outside it": lambda one: f"{one.lost_outside / one.turns:.3%}",
    "latency, turns untroubled": lambda one: (
        f"{one.untroubled_seconds / one.untroubled_ideal:.3f} ×"
    ),
    "latency, all turns done": lambda one: f"{one.seconds / one.ideal:.3f} ×",
}


def calm_latency(seed: int) -> float:
    """Return how much longer a turn takes under the policy when nothing fails."""
    calm = live(Day.of(TURNS // 20, seed).calm(), clients(seed)[OURS])
    return (calm.seconds + own_seconds() * calm.attempts) / calm.ideal


def show(day: Day, days: dict[str, Figures], found: list[Aim]) -> None:
    """Print one table, and whether each aim is reached."""
    minutes = (day.outage.end - day.outage.start) / 60
    print(f"{days[OURS].turns:,} turns in {day.seconds / 3600:.1f} h, seed {day.seed},", end=" ")
    print(f"an outage of {minutes:.0f} minutes, bursts of 429: {len(day.bursts)},", end=" ")
    print(f"limits by {day.limiter}\n")
    print(" " * 34 + "".join(f"{name:>15}" for name in days))
    for label, told in ROWS.items():
        print(f"{label:<34}" + "".join(f"{told(one):>15}" for one in days.values()))
    print()
    for one in found:
        state = "reached" if one.is_reached else "NOT REACHED"
        print(f"{one.what:<34}{one.wanted:>15}{one.found:>15}   {state}")


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=6)
    parser.add_argument("--turns", type=int, default=TURNS, help="a shorter day, as busy")
    parser.add_argument("--outage", type=float, default=OUTAGE / 60, help="minutes")
    parser.add_argument("--limiter", choices=LIMITERS, default="minute", help="kind of limits")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    day = Day.of(options.turns, options.seed, options.outage * 60)
    day = replace(day, limiter=options.limiter)
    if day.outage.start <= 0:
        parser.error(f"--turns is {options.turns}: that day is shorter than its outage")

    days = {name: live(day, begin) for name, begin in clients(day.seed).items()}
    found = aims(days, calm_latency(day.seed))
    if options.json:
        figures = {name: asdict(one) for name, one in days.items()}
        print(json.dumps({"clients": figures, "aims": [one._asdict() for one in found]}, indent=2))
    else:
        show(day, days, found)


if __name__ == "__main__":
    main()
