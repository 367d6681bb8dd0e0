"""A process that is started again whenever it ends."""

from __future__ import annotations

import asyncio
import logging
import signal
import time
from abc import ABC, abstractmethod
from asyncio.subprocess import Process
from collections.abc import Callable
from contextlib import suppress

from looptrap.errors import ConfigError, Problem

STEADY_AFTER_S = 10.0
"""Seconds after which an end is an accident, no failure to start."""

FIRST_DELAY_S, MAX_DELAY_S = 0.1, 10.0
"""Seconds to wait after the first end that came too soon, and at most."""


class RestartBackoff:
    """Waits longer after each end that follows soon on a start: never a hot loop."""

    def __init__(self) -> None:
        self._hasty = 0

    def after(self, lived: float) -> float:
        """Return the seconds to wait after a life of so many seconds."""
        if lived >= STEADY_AFTER_S:
            self._hasty = 0
            return 0.0
        pause = min(MAX_DELAY_S, FIRST_DELAY_S * 2.0 ** min(self._hasty, 30))
        self._hasty += 1
        return pause


MAX_FUTILE_STARTS = 5
"""Starts in a row after which it never was up, until it is given up."""

log = logging.getLogger("looptrap")


class SupervisedProcess(ABC):
    """Keeps one process running until told to stop."""

    name: str
    """What it is called where its end is told."""

    def __init__(self, on_end: Callable[[], None] = lambda: None) -> None:
        self.up = asyncio.Event()
        """Set while it does what it is there for."""
        self.first_up: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Done when it is up for the first time; a ConfigError when it cannot be."""
        self.restarts = 0
        self.futile = 0
        """Starts in a row after which it was never up."""
        self._last = ""
        self._on_end = on_end
        self._pace = RestartBackoff()
        self._process: Process | None = None
        self._stopping = asyncio.Event()
        self._keeping: asyncio.Task[None] | None = None

    @property
    def pid(self) -> int | None:
        """The process, where there is one."""
        return self._process.pid if self._process is not None else None

    def start(self) -> None:
        """Start it, and again whenever it ends."""
        self._keeping = asyncio.get_running_loop().create_task(self._keep())

    async def stop(self, patience: float) -> None:
        """Ask it to end, end it after so many seconds, and start it no more."""
        self._stopping.set()
        if self._keeping is None:
            return
        self._send(signal.SIGTERM)
        done, _ = await asyncio.wait([self._keeping], timeout=patience)
        if not done:
            log.error("%s %s did not stop in time and was killed", self.name, self.pid)
            self.kill()
            await self._keeping

    def kill(self) -> None:
        """End it at once, and start it no more."""
        self._stopping.set()
        self._send(signal.SIGKILL)

    @abstractmethod
    async def _spawn(self) -> Process:
        """Start the process."""

    @abstractmethod
    async def _attend(self) -> None:
        """Look after the process while it runs, and tell when it is up."""

    def _is_up(self) -> None:
        self.futile = 0
        self.up.set()
        if not self.first_up.done():
            self.first_up.set_result(None)

    def _cannot_start(self, error: ConfigError) -> None:
        if not self.first_up.done():
            self.first_up.set_exception(error)

    def ending(self) -> Problem:
        """Return how it ended the last time."""
        return Problem("gateway.workers", f"{self.name} {self._last}, {self.futile} times in a row")

    def _send(self, number: signal.Signals) -> None:
        if self._process is not None:
            with suppress(ProcessLookupError):
                self._process.send_signal(number)

    async def _keep(self) -> None:
        while not self._stopping.is_set():
            began = time.monotonic()
            await self._live()
            if self._stopping.is_set():
                return
            pause = self._pace.after(time.monotonic() - began)
            soon = f" in {pause:g} s" if pause else ""
            log.error("%s %s: another is started%s", self.name, self._last, soon)
            self.restarts += 1
            if self.futile >= MAX_FUTILE_STARTS:
                self._cannot_start(ConfigError([self.ending()]))
            self._on_end()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), pause)

    async def _live(self) -> None:
        """Run the process once, to its end."""
        self.futile += 1
        try:
            self._process = process = await self._spawn()
        except OSError as error:
            self._last = f"cannot be started: {(error.strerror or str(error)).lower()}"
            return
        if self._stopping.is_set():  # it was not there to be asked
            self._send(signal.SIGTERM)
        attending = asyncio.get_running_loop().create_task(self._attend())
        status = await process.wait()
        self._process = None
        self.up.clear()
        self._last = f"{process.pid} {_describe_exit(status)}"
        attending.cancel()
        (outcome,) = await asyncio.gather(attending, return_exceptions=True)
        if isinstance(outcome, Exception):
            log.error("%s %d was not looked after", self.name, process.pid, exc_info=outcome)


def _describe_exit(status: int) -> str:
    """Return how a process ended, in words."""
    if status >= 0:
        return f"ended with status {status}"
    try:
        return f"was ended by {signal.Signals(-status).name}"
    except ValueError:
        return f"was ended by signal {-status}"
