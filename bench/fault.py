"""Faults: what is killed or stopped, when, and for how long, chosen by a seed."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from contextlib import suppress
from random import Random
from typing import Literal, NamedTuple

from bench.stage import Part, Stage

What = Literal["store", "upstream a", "upstream b", "worker"]
How = Literal["killed", "stopped"]

FAULTS: tuple[tuple[What, How], ...] = (
    ("store", "killed"),
    ("store", "stopped"),
    ("upstream a", "killed"),
    ("upstream a", "stopped"),
    ("upstream b", "killed"),
    ("upstream b", "stopped"),
    ("worker", "killed"),
    ("worker", "stopped"),
)
QUIET = (2.0, 6.0)
"""Seconds between two faults …"""
AWAY = (0.5, 2.5)
"""… and the duration of one."""
TWICE = 0.2
"""The probability of two at once."""


class Fault(NamedTuple):
    """What was done to which part, from when to when; it ends when the part works again."""

    what: What
    how: How
    began: float
    ended: float

    def touches(self, began: float, ended: float, before: float = 0.0, after: float = 0.0) -> bool:
        """Return whether it was active in that time, or that many seconds around it."""
        return self.began <= ended + after and self.ended >= began - before


class Faults:
    """Causes faults, and records them."""

    def __init__(self, stage: Stage, rng: Random) -> None:
        self._stage = stage
        self._rng = rng
        self.done: list[Fault] = []
        self.kills: list[tuple[float, float]] = []
        """When workers were killed, and when their counts had last been read."""

    async def run(self, seconds: float) -> None:
        """Cause faults until the time is over, then leave everything running."""
        end = time.monotonic() + seconds
        every = list(FAULTS)
        self._rng.shuffle(every)
        while time.monotonic() < end:
            together = [every.pop(0)]
            if self._rng.random() < TWICE:
                together += [one for one in every if one[0] != together[0][0]][:1]
            every = [one for one in every if one not in together] + together  # each in its turn
            await asyncio.gather(*(self._disturb(*one) for one in together))
            await asyncio.sleep(self._rng.uniform(*QUIET))

    async def _disturb(self, what: What, how: How) -> None:
        away = self._rng.uniform(*AWAY)
        if what == "worker":
            began = await self._disturb_worker(how, away)
        else:
            part = self._stage.store if what == "store" else self._stage.upstreams[what[-1] == "b"]
            began = await _disturb_part(part, how, away)
        await self._ready()
        self.done.append(Fault(what, how, began, time.monotonic()))

    async def _disturb_worker(self, how: How, away: float) -> float:
        running = self._stage.workers_now()
        if not running:
            return time.monotonic()
        pid = self._rng.choice(running)
        asked = time.monotonic()
        if how == "killed":
            # Counts since the last scrape are lost with the worker.
            with suppress(OSError):
                await asyncio.to_thread(self._stage.metrics)
        began = time.monotonic()
        if how == "killed":
            self.kills.append((asked, began))
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL if how == "killed" else signal.SIGSTOP)
            if how == "stopped":
                await asyncio.sleep(away)
                os.kill(pid, signal.SIGCONT)
        return began

    async def _ready(self) -> None:
        """Wait until all workers serve, and count together again."""
        async with asyncio.timeout(60):
            while not await asyncio.to_thread(self._stage.is_ready):
                await asyncio.sleep(0.1)


async def _disturb_part(part: Part, how: How, away: float) -> float:
    began = time.monotonic()
    if how == "killed":
        await asyncio.to_thread(part.kill)
        await asyncio.sleep(away)
        await asyncio.to_thread(part.start)
    else:
        part.send(signal.SIGSTOP)
        await asyncio.sleep(away)
        part.send(signal.SIGCONT)
    return began
