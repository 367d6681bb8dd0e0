"""What a test and an answer wait for; either may live on another thread or loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from functools import partial

PATIENCE = 5.0
"""Seconds after which a test that waits has failed."""


class Signal:
    """Happens once; can be set and waited for from any thread and any loop."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._event = threading.Event()
        self._wakers: list[Callable[[], object]] = []

    @property
    def is_set(self) -> bool:
        """Has it happened?"""
        return self._event.is_set()

    def set(self) -> None:
        """Let it happen; wake all who wait."""
        with self._lock:
            self._event.set()
            wakers, self._wakers = self._wakers, []
        for wake in wakers:
            wake()

    async def wait(self, timeout: float | None = PATIENCE) -> None:
        """Return once it has happened; raise TimeoutError after `timeout` seconds."""
        woken = asyncio.Event()
        wake = partial(asyncio.get_running_loop().call_soon_threadsafe, woken.set)
        with self._lock:
            if self._event.is_set():
                return
            self._wakers.append(wake)
        try:
            await asyncio.wait_for(woken.wait(), timeout)
        finally:
            with self._lock:
                if wake in self._wakers:
                    self._wakers.remove(wake)

    def wait_blocking(self, timeout: float = PATIENCE) -> None:
        """Do what `wait` does, where there is no loop."""
        if not self._event.wait(timeout):
            raise TimeoutError(f"nothing happened within {timeout} seconds")


class Gate:
    """Holds an answer back from the moment it is `reached` until somebody opens it."""

    def __init__(self) -> None:
        self.reached = Signal()
        self.opened = Signal()
        self.abandoned = Signal()
        """The client went away while its answer waited here."""

    def open(self) -> None:
        """Let the answer go on."""
        self.opened.set()

    async def passed(self) -> None:
        """Return when the gate is open; for whoever brings the answer."""
        self.reached.set()
        try:
            await self.opened.wait(timeout=None)
        except asyncio.CancelledError:
            self.abandoned.set()
            raise
