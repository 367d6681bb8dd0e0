"""Pacing: requests that take long to read share a part of the loop's time, callers in turn."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict, deque
from collections.abc import Callable

REST = 3.0
"""Seconds of rest after each second of such work: all of it together gets a quarter of the time."""

FREE = 0.001
"""Seconds of each job that ask for no rest: any request may take as long."""

MOST_WAITING = 1_024
"""Requests that wait for their turn; one more is refused."""

Work = Callable[[], None]


class Pacer:
    """Does work at once while there was little of it lately, else later, callers in turn."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        self._queues: OrderedDict[str, deque[Work]] = OrderedDict()
        self._waiting = 0
        self._resting_until = 0.0
        self._timer: asyncio.TimerHandle | None = None

    @property
    def is_full(self) -> bool:
        """Whether so many requests wait that no more may."""
        return self._waiting >= MOST_WAITING

    def submit(self, caller: str, work: Work) -> None:
        """Do some work for a caller, now or in its turn; it must not raise."""
        if not self._waiting and self._clock() >= self._resting_until:
            self._do(work)
            return
        self._queues.setdefault(caller, deque()).append(work)
        self._waiting += 1
        self._wait()

    def finish(self) -> None:
        """Do everything that waits: the gateway is about to stop."""
        while self._waiting:
            self._do(self._next())

    def _wait(self) -> None:
        if self._timer is None and self._waiting:
            delay = max(0.0, self._resting_until - self._clock())
            self._timer = asyncio.get_running_loop().call_later(delay, self._wake)

    def _wake(self) -> None:
        self._timer = None
        if self._waiting:
            self._do(self._next())
            self._wait()

    def _next(self) -> Work:
        """Take the first job of the caller who has waited longest since its last one."""
        caller, queue = self._queues.popitem(last=False)
        work = queue.popleft()
        if queue:
            self._queues[caller] = queue
        self._waiting -= 1
        return work

    def _do(self, work: Work) -> None:
        began = self._clock()
        work()
        ended = self._clock()
        self._resting_until = ended + max(0.0, ended - began - FREE) * REST
