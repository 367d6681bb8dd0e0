"""Phases: what is done to a fleet, and what came of the calls meanwhile."""

from __future__ import annotations

import asyncio
import signal
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import asdict, dataclass
from typing import Any

from bench.client import DROPPED, LATE
from bench.fleet.agents import Counted, Load, errand, loop
from bench.fleet.stage import ERRAND_BUDGET, ERRAND_CALL, GATEWAYS, PORT, Fleet
from bench.upstream import SLOW

PRIMED = 80
"""Counted calls before a fault: more than any gateway can count alone while it lasts, so that what
it counted alone shows in the counts."""

PAUSE = 0.1
"""Seconds between two loops."""

Fault = Callable[[Fleet], AbstractAsyncContextManager[Callable[[], bool]]]
"""A fault that has begun when the context is entered, and is over when it is left; it yields a
function that says whether it may be left."""


@dataclass(frozen=True, slots=True)
class Result:
    """What came of the calls of one phase."""

    phase: str
    seconds: float
    calls: int
    failed: int
    """Honest calls that got anything but an answer of the provider."""
    endings: dict[str, int]
    """How the failed ones ended."""
    slowest_ms: float
    """The longest an honest call took."""
    loops: list[int]
    """Which call of each loop was the first to be refused."""
    budgets_used: list[float]
    """How much of each budget was used in the end: above 1, it was passed."""
    counted_calls: int
    """Equal calls that were answered, all in all."""
    counted_alone: int
    """Those that a gateway counted for itself, so that the others do not know of them."""
    counted_twice: int
    """Those that are counted in the store as well."""
    lost: int
    """Those that no gateway knows of afterwards, and that none counted alone."""

    def as_json(self) -> dict[str, Any]:
        """Return everything as plain values."""
        return asdict(self)


async def measure(fleet: Fleet, load: Load, name: str, fault: Fault, times: int) -> Result:
    """Run one phase: a fault, with so many loops and errands while it lasts."""
    place = fleet.front, PORT
    counted = Counted(*place)
    await counted.call(PRIMED)
    began = time.monotonic()
    loops: list[int] = []
    errands: list[int] = []
    async with fault(fleet) as is_over:
        counting = asyncio.ensure_future(counted.call(10 * times, 0.02))
        while len(loops) < times or not is_over():
            loops.append(await loop(*place))
            errands.append(await errand(*place))
            await asyncio.sleep(PAUSE)
        await counting
    await asyncio.to_thread(fleet.until_ready)
    ended = time.monotonic()
    await asyncio.sleep(SLOW + 0.2)  # calls that began in the phase may still be in flight
    before = len(counted.counts)
    await counted.call()
    answers = load.since(began)
    failed = [answer for answer in answers if answer.status != 200]
    alone = sum(_is_alone(counted.counts[:before]))
    shared = counted.counts[-1] - 1
    return Result(
        phase=name,
        seconds=ended - began,
        calls=len(answers),
        failed=len(failed),
        endings=dict(Counter(_ending(one.status) for one in failed)),
        slowest_ms=max(answer.seconds for answer in answers) * 1000,
        loops=loops,
        budgets_used=[passed * ERRAND_CALL / ERRAND_BUDGET for passed in errands],
        counted_calls=before,
        counted_alone=alone,
        counted_twice=max(0, shared - (before - alone) - counted.unanswered),
        lost=max(0, before - alone - shared),
    )


def _is_alone(counts: list[int]) -> Iterator[bool]:
    """Yield for each count whether a gateway counted alone: it is below what was known before."""
    known = 0
    for number in counts:
        yield number <= known
        known = max(known, number)


def _ending(status: int) -> str:
    return {DROPPED: "connection dropped", LATE: "no answer"}.get(status, str(status))


# Faults


def always() -> bool:
    """A fault that can end at any time."""
    return True


@asynccontextmanager
async def nothing(_fleet: Fleet) -> AsyncIterator[Callable[[], bool]]:
    """All is well."""
    yield always


@asynccontextmanager
async def restarts(fleet: Fleet) -> AsyncIterator[Callable[[], bool]]:
    """One gateway after the other is stopped and started again."""

    async def restart_all() -> None:
        for name in GATEWAYS:
            await asyncio.to_thread(fleet.stop, name)
            await asyncio.to_thread(fleet.start, name)
            await asyncio.sleep(1.0)  # HAProxy has to see it before the next one stops

    restarting = asyncio.ensure_future(restart_all())
    yield restarting.done
    await restarting


@asynccontextmanager
async def killed(fleet: Fleet) -> AsyncIterator[Callable[[], bool]]:
    """One gateway is killed, and started again at the end."""
    fleet.gateways[GATEWAYS[0]].kill()
    yield always
    await asyncio.to_thread(fleet.start, GATEWAYS[0])


def cut(names: tuple[str, ...], server: str = "store") -> Fault:
    """Return the fault that these gateways do not reach a server."""

    @asynccontextmanager
    async def fault(fleet: Fleet) -> AsyncIterator[Callable[[], bool]]:
        fleet.network.cut(*names, server)
        await asyncio.to_thread(fleet.until_ready, names, "degraded")
        yield always
        fleet.network.mend(*names, server)

    return fault


@asynccontextmanager
async def store_stalls(fleet: Fleet) -> AsyncIterator[Callable[[], bool]]:
    """The store answers nothing for a second, and then everything that it was sent."""

    async def stall() -> None:
        fleet.store.send(signal.SIGSTOP)
        await asyncio.sleep(1.0)
        fleet.store.send(signal.SIGCONT)

    stalling = asyncio.ensure_future(stall())
    yield stalling.done
    await stalling


@asynccontextmanager
async def store_killed(fleet: Fleet) -> AsyncIterator[Callable[[], bool]]:
    """The store is killed, and comes back empty at the end."""
    fleet.store.kill()
    await asyncio.to_thread(fleet.until_ready, GATEWAYS, "degraded")
    yield always
    await asyncio.to_thread(fleet.store.start)


@asynccontextmanager
async def database_killed(fleet: Fleet) -> AsyncIterator[Callable[[], bool]]:
    """The database is killed with all its processes, and started again at the end."""
    await asyncio.to_thread(fleet.database.kill)
    await asyncio.to_thread(fleet.until_ready, GATEWAYS, "degraded")
    yield always
    await asyncio.to_thread(fleet.database.start)


PHASES: dict[str, Fault] = {
    "all is well": nothing,
    "restarted one by one": restarts,
    "one killed (kill -9)": killed,
    "one cut off from the store": cut(GATEWAYS[:1]),
    "all cut off from the store": cut(GATEWAYS),
    "the store stalls for 1 s": store_stalls,
    "the store killed, then empty": store_killed,
    "one cut off from the database": cut(GATEWAYS[:1], "database"),
    "the database killed": database_killed,
}
