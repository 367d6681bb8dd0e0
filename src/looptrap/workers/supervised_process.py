"""SupervisedProcess: a process that is restarted whenever it ends."""

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
"""Uptime in seconds after which an exit does not count as a quick one."""

FIRST_DELAY_S, MAX_DELAY_S = 0.1, 10.0
"""Seconds to wait after the first quick exit, and at most."""


class RestartBackoff:
    """Waits longer after each quick exit, so that restarts are never a hot loop."""

    def __init__(self) -> None:
        self._quick_exits = 0

    def next_delay(self, uptime: float) -> float:
        """Return the seconds to wait after an exit with this uptime."""
        if uptime >= STEADY_AFTER_S:
            self._quick_exits = 0
            return 0.0
        pause = min(MAX_DELAY_S, FIRST_DELAY_S * 2.0 ** min(self._quick_exits, 30))
        self._quick_exits += 1
        return pause


MAX_FAILED_STARTS = 5
"""Failed starts in a row after which it counts as failed."""

log = logging.getLogger("looptrap")


class SupervisedProcess(ABC):
    """Keeps one process running until it is stopped."""

    name: str
    """Its name in log lines."""

    def __init__(self, on_end: Callable[[], None] = lambda: None) -> None:
        self.ready = asyncio.Event()
        """Set while the process is ready."""
        self.first_ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Done when it is first ready; fails with ConfigError if it cannot start."""
        self.restarts = 0
        self.failed_starts = 0
        """Starts in a row without becoming ready."""
        self._last_exit = ""
        self._on_end = on_end
        self._backoff = RestartBackoff()
        self._process: Process | None = None
        self._stopping = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    @property
    def pid(self) -> int | None:
        """The id of the running process, if any."""
        return self._process.pid if self._process is not None else None

    def start(self) -> None:
        """Start it, and restart it whenever it ends."""
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def stop(self, timeout: float) -> None:
        """Terminate it, kill it after `timeout` seconds, and do not restart it."""
        self._stopping.set()
        if self._task is None:
            return
        self._send(signal.SIGTERM)
        done, _ = await asyncio.wait([self._task], timeout=timeout)
        if not done:
            log.error("%s %s did not stop in time and was killed", self.name, self.pid)
            self.kill()
            await self._task

    def kill(self) -> None:
        """Kill it, and do not restart it."""
        self._stopping.set()
        self._send(signal.SIGKILL)

    @abstractmethod
    async def _spawn(self) -> Process:
        """Start the process."""

    @abstractmethod
    async def _supervise(self) -> None:
        """Talk to the process while it runs; call `_set_ready` when it is ready."""

    def _set_ready(self) -> None:
        self.failed_starts = 0
        self.ready.set()
        if not self.first_ready.done():
            self.first_ready.set_result(None)

    def _cannot_start(self, error: ConfigError) -> None:
        if not self.first_ready.done():
            self.first_ready.set_exception(error)

    def last_error(self) -> ConfigError:
        """Return how it last ended."""
        message = f"{self.name} {self._last_exit}, {self.failed_starts} times in a row"
        return ConfigError([Problem("gateway.workers", message)])

    def _send(self, number: signal.Signals) -> None:
        if self._process is not None:
            with suppress(ProcessLookupError):
                self._process.send_signal(number)

    async def _run(self) -> None:
        while not self._stopping.is_set():
            began = time.monotonic()
            await self._run_once()
            if self._stopping.is_set():
                return
            pause = self._backoff.next_delay(time.monotonic() - began)
            soon = f" in {pause:g} s" if pause else ""
            log.error("%s %s: restarting%s", self.name, self._last_exit, soon)
            self.restarts += 1
            if self.failed_starts >= MAX_FAILED_STARTS:
                self._cannot_start(self.last_error())
            self._on_end()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), pause)

    async def _run_once(self) -> None:
        """Run the process once, to its end."""
        self.failed_starts += 1
        try:
            self._process = process = await self._spawn()
        except OSError as error:
            self._last_exit = f"cannot be started: {(error.strerror or str(error)).lower()}"
            return
        if self._stopping.is_set():  # stop() came before there was a process
            self._send(signal.SIGTERM)
        supervision = asyncio.get_running_loop().create_task(self._supervise())
        status = await process.wait()
        self._process = None
        self.ready.clear()
        self._last_exit = f"{process.pid} {_describe_exit(status)}"
        supervision.cancel()
        (outcome,) = await asyncio.gather(supervision, return_exceptions=True)
        if isinstance(outcome, Exception):
            log.error("%s %d: supervision failed", self.name, process.pid, exc_info=outcome)


def _describe_exit(status: int) -> str:
    """Return how a process ended, in words."""
    if status >= 0:
        return f"ended with status {status}"
    try:
        return f"was ended by {signal.Signals(-status).name}"
    except ValueError:
        return f"was ended by signal {-status}"
