"""SpoolDrainer: the thread that writes to a shared database what waits in the spool."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from threading import Event as Flag
from threading import Thread

from looptrap.incident.history.history import IncidentHistory
from looptrap.incident.history.presence import BEAT_INTERVAL_S

IDLE_S = 0.5
"""Seconds between two looks without a wake-up."""

RETRY_PAUSE_S = 1.0
"""Seconds to wait after a failed write."""

ADOPT_INTERVAL_S = 10.0
"""Seconds between two looks for what killed processes left in the folder of the spool."""

SWEEP_INTERVAL_S = 10.0
"""Seconds between two sweeps of what is expired or too large."""

UPKEEP_INTERVAL_S = 1.0

LOG_INTERVAL_S = 60.0
"""Seconds between two log lines while nothing can be written."""

STOP_ATTEMPTS = 2

log = logging.getLogger("looptrap")

ErrorLog = Callable[[str, Exception], None]


class Maintenance:
    """What is done to a history now and then, on the thread that writes it."""

    def __init__(
        self, history: IncidentHistory, upkeep: Callable[[], None], log_error: ErrorLog
    ) -> None:
        self._history = history
        self._upkeep = upkeep
        self._log_error = log_error
        self._next_upkeep = self._next_sweep = float("-inf")

    def run(self, now: float) -> None:
        """Do what is due; a failure is logged, and tried again later."""
        if now >= self._next_upkeep:
            self._next_upkeep = now + UPKEEP_INTERVAL_S
            try:
                self._upkeep()
            except Exception as error:  # noqa: BLE001 - see above
                self._log_error("the history is not read", error)
        if now >= self._next_sweep:
            self._next_sweep = now + SWEEP_INTERVAL_S
            try:
                if self._history.sweep():
                    self._next_sweep = now
            except Exception as error:  # noqa: BLE001 - see above
                self._log_error("the history is not swept", error)


class SpoolDrainer:
    """Writes what waits, says that this process is alive, and maintains the history."""

    def __init__(
        self,
        history: IncidentHistory,
        maintenance: Maintenance,
        on_drained: Callable[[], None],
        log_error: ErrorLog,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.failed = 0
        """Failed writes."""
        self.is_failing = False
        """Whether the latest write failed."""
        self._history = history
        self._maintenance = maintenance
        self._on_drained = on_drained
        self._log_error = log_error
        self._monotonic = monotonic
        self._wakeup = Flag()
        self._stopping = False
        self._not_before = self._next_beat = self._next_adoption = float("-inf")
        self._next_log = float("-inf")
        self._thread = Thread(target=self._run, name="looptrap-history-drain", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def wake(self) -> None:
        """Look at once: something waits."""
        self._wakeup.set()

    def stop(self, timeout: float) -> None:
        """Write what waits, if that can be done now; the rest stays for the next process."""
        self._stopping = True
        self._wakeup.set()
        self._thread.join(timeout)

    def run_once(self) -> None:
        """Write what waits, unless the last write has just failed."""
        now = self._monotonic()
        if now < self._not_before:
            return
        try:
            self._work(now)
        except Exception as error:  # noqa: BLE001 - it waits on disk, and a later write takes it
            self.failed += 1
            self.is_failing = True
            now = self._monotonic()
            self._not_before = now + RETRY_PAUSE_S
            if now >= self._next_log:
                self._next_log = now + LOG_INTERVAL_S
                self._log_error("the history is not written, and waits on disk", error)
        else:
            if self.is_failing:
                log.warning("the history is written again")
            self.is_failing = False
            self._next_log = float("-inf")
            self._maintenance.run(now)

    def _work(self, now: float) -> None:
        spool = self._history.spool
        if spool is None:
            return
        if now >= self._next_adoption:
            self._next_adoption = now + ADOPT_INTERVAL_S
            spool.adopt()
        if spool.drain():
            self._on_drained()
        if now >= self._next_beat:
            self._next_beat = now + BEAT_INTERVAL_S
            if self._history.beat():
                self._on_drained()

    def _run(self) -> None:
        while not self._stopping:
            self._wakeup.wait(IDLE_S)
            self._wakeup.clear()
            self.run_once()
        for _ in range(STOP_ATTEMPTS):
            self._not_before = float("-inf")
            self.run_once()
            if not self.is_failing:
                return
