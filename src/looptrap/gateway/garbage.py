"""The garbage collector's settings: it runs seldom, but never lets memory grow without a look."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable
from os import sysconf
from pathlib import Path
from resource import RUSAGE_SELF, getrusage

YOUNG, MIDDLE, OLD = 20_000, 20, 20
"""Python's own are 700, 10 and 10. What a request leaves is freed without the collector, since
nothing of it is kept in a circle, and looking for that again and again costs a tenth of the CPU."""

EVERY = 1.0
"""Seconds between two looks at the size of the process."""

STEP = 64 << 20
"""Bytes by which the process may grow before everything is looked through. The thresholds above
count objects, and a circle of three may hold a body of megabytes: an exception with its traceback
makes one easily."""

SHARE = 4
"""A process of 1 GB may grow by this part of its size instead: the larger it is, the longer a look
takes, and a store that fills must not cost one every second."""

_STATM = Path("/proc/self/statm")
_PAGE = sysconf("SC_PAGE_SIZE")


def resident() -> int:
    """Return the bytes that this process holds; where there is no /proc, the most it ever held."""
    try:
        return int(_STATM.read_bytes().split()[1]) * _PAGE
    except OSError:
        return getrusage(RUSAGE_SELF).ru_maxrss  # in bytes on macOS, the one such system we run on


class Watch:
    """Runs a full collection whenever the process has grown since the last one."""

    def __init__(
        self, size: Callable[[], int] = resident, collect: Callable[[], object] = gc.collect
    ) -> None:
        self._size = size
        self._collect = collect
        self._most = self._next()

    def look(self) -> None:
        """Collect if the process has grown by a step since the last time."""
        if self._size() > self._most:
            self._collect()
            self._most = self._next()

    def repeat(self) -> None:
        """Look now, and again every second for as long as the loop runs."""
        self.look()
        asyncio.get_running_loop().call_later(EVERY, self.repeat)

    def _next(self) -> int:
        size = self._size()
        return size + max(STEP, size // SHARE)


def spare() -> None:
    """Look seldom, and never again at what was made at the start; call it when all is up."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG, MIDDLE, OLD)
    Watch().repeat()
