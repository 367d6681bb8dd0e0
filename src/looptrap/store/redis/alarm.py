"""One timer for everything that a server has been asked."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

GRACE = 0.002
"""Seconds in which a loop that was itself late reads what has come, before it blames a server."""


class Alarm:
    """Calls `overdue` when the earliest deadline of all has passed, and nobody has answered.

    Deadlines are of `time.monotonic`: the time of a loop stands still while a turn lasts.
    """

    def __init__(self, earliest: Callable[[], float | None], overdue: Callable[[], None]) -> None:
        self._earliest = earliest
        self._overdue = overdue
        self._timer: asyncio.TimerHandle | None = None
        self._goes_off = 0.0

    def set(self, deadline: float) -> None:
        """See to it that somebody looks at this time, or sooner."""
        if self._timer is not None and self._goes_off <= deadline:
            return
        self._arm(deadline, False)

    def cancel(self) -> None:
        """Look no more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _arm(self, goes_off: float, is_second: bool) -> None:
        self.cancel()
        self._goes_off = goes_off
        delay = max(0.0, goes_off - time.monotonic())
        self._timer = asyncio.get_running_loop().call_later(delay, self._look, is_second)

    def _look(self, is_second: bool) -> None:
        self._timer = None
        deadline, now = self._earliest(), time.monotonic()
        if deadline is None:
            return
        if deadline > now:
            self._arm(deadline, False)
        elif not is_second:
            self._arm(now + GRACE, True)
        else:
            self._overdue()
