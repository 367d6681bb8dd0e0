"""Events to deliver, and time that a test moves."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from tests.patience import PATIENCE

from looptrap.incident.model import AlertEvent

START = 1_800_000_000.0


def event(number: int = 1, **changes) -> AlertEvent:
    given = {
        "id": f"evt_{number}",
        "name": "loop.detected",
        "time": 1_794_000_000.25,
        "project": "research",
        "request_id": "req-7",
        "incident": "inc-1",
        "stage": "detected",
        "title": "Loop detected: 6 calls of key:ci, blocked by identical-conversation",
        "data": {
            "incident_id": "inc-1",
            "fingerprint": "v1:abc",
            "hit_count": 6,
            "model": "gpt-5.4-mini",
            "cooldown_seconds": 30,
        },
    }
    return AlertEvent(**{**given, **changes})


class Timeline:
    """A clock that stands still until a test moves it, and sleep that follows it."""

    def __init__(self, now: float = START) -> None:
        self.now = now
        self.sleeping: list[tuple[float, asyncio.Future[None]]] = []

    def clock(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        if seconds <= 0:
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        entry = (self.now + seconds, future)
        self.sleeping.append(entry)
        try:
            await future
        finally:
            if entry in self.sleeping:
                self.sleeping.remove(entry)

    def advance(self, seconds: float) -> None:
        self.now += seconds
        woken = [entry for entry in self.sleeping if entry[0] <= self.now]
        self.sleeping = [entry for entry in self.sleeping if entry[0] > self.now]
        for _, future in woken:
            if not future.done():
                future.set_result(None)


async def until(is_so: Callable[[], object]) -> None:
    """Wait until something is so, for a bounded time."""
    async with asyncio.timeout(PATIENCE):
        while not is_so():
            await asyncio.sleep(0.001)
