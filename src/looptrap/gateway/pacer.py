"""Pacer: limits the loop's time for requests that take long to read, callers in turn."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict, deque
from collections.abc import Callable

REST_RATIO = 3.0
"""Seconds of rest after each second of such work: all of it gets a quarter of the time."""

FREE_WORK_S = 0.001
"""Seconds of each job without rest: any request may take as long."""

MAX_WAITING_REQUESTS = 1_024
"""Requests that wait for their turn; one more is refused."""

Work = Callable[[], None]


class Pacer:
    """Does work at once if there was little of it lately, else later, callers in turn."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        self._queues: OrderedDict[str, deque[Work]] = OrderedDict()
        self._waiting = 0
        self._resting_until = 0.0
        self._timer: asyncio.TimerHandle | None = None

    @property
    def is_full(self) -> bool:
        """Whether no more requests may wait."""
        return self._waiting >= MAX_WAITING_REQUESTS

    def submit(self, caller: str, work: Work) -> None:
        """Do some work for a caller, now or in its turn; it must not raise."""
        if not self._waiting and self._clock() >= self._resting_until:
            self._do(work)
            return
        self._queues.setdefault(caller, deque()).append(work)
        self._waiting += 1
        self._start_timer()

    def finish(self) -> None:
        """Do all work that waits: the gateway is about to stop."""
        while self._waiting:
            self._do(self._next())

    def _start_timer(self) -> None:
        if self._timer is None and self._waiting:
            delay = max(0.0, self._resting_until - self._clock())
            self._timer = asyncio.get_running_loop().call_later(delay, self._wake)

    def _wake(self) -> None:
        self._timer = None
        if self._waiting:
            self._do(self._next())
            self._start_timer()

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
        self._resting_until = ended + max(0.0, ended - began - FREE_WORK_S) * REST_RATIO
