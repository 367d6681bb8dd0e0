"""Clock, sleep and jitter, and their replacement in tests."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """Clocks, sleeps and jitter; each can be replaced."""

    clock: Callable[[], float] = time.monotonic
    wall: Callable[[], float] = time.time
    """The time of day, for a Retry-After that is a date."""
    sleep: Callable[[float], None] = time.sleep
    sleep_async: Callable[[float], Awaitable[None]] = asyncio.sleep
    chance: Callable[[], float] = random.random
    """The jitter, from 0 to 1."""


_CURRENT_TIMING: ContextVar[Timing] = ContextVar("looptrap_retry_timing", default=Timing())  # noqa: B039


def current_timing() -> Timing:
    """Return the real timing, or that of `testing()`."""
    return _CURRENT_TIMING.get()


class FakeClock:
    """Time that passes only in waits, or when a test advances it."""

    def __init__(self, chance: float) -> None:
        self.waits: list[float] = []
        """The seconds of every wait, in order."""
        self.now = 0.0
        self.timing = Timing(
            clock=lambda: self.now,
            sleep=self._sleep,
            sleep_async=self._sleep_async,
            chance=lambda: chance,
        )

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self.now += seconds

    def _sleep(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.advance(seconds)

    async def _sleep_async(self, seconds: float) -> None:
        self._sleep(seconds)
        await asyncio.sleep(0)  # other tasks run, as in a real wait


@contextmanager
def testing(chance: float = 1.0) -> Iterator[FakeClock]:  # noqa: PT028 - no test
    """Skip and record all waits inside this context.

    Other threads and tasks stay in real time. A `chance` of 1 makes every backoff as long as it can
    be.
    """
    fake_clock = FakeClock(chance)
    token = _CURRENT_TIMING.set(fake_clock.timing)
    try:
        yield fake_clock
    finally:
        _CURRENT_TIMING.reset(token)


testing.__test__ = False  # type: ignore[attr-defined]  # or pytest would collect it
