"""HistoryWriter: the thread that writes the history, and queues what cannot be written yet.

SpoolDrainer is a second thread: it writes to a shared database what waits in the spool.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence, Sized
from math import inf
from threading import Event as Flag
from threading import Thread
from typing import TypeVar

from looptrap.errors import LooptrapError
from looptrap.incident.history.batch import WriteBatch
from looptrap.incident.history.history import BEAT_INTERVAL_S, IncidentHistory
from looptrap.incident.history.outbox import OutgoingEvent
from looptrap.incident.model import Annotation, Incident
from looptrap.usage.call_log import CallRow
from looptrap.usage.model import UsageBatch

POLL_INTERVAL_S = 0.1
"""Seconds between two batches: a single incident is not worth a wake-up."""

RETRY_PAUSE_S = 1.0
"""Seconds to wait after a failed write."""

SWEEP_INTERVAL_S = 10.0
"""Seconds between two sweeps of what is expired or too large."""

UPKEEP_INTERVAL_S = 1.0

MAX_PENDING_INCIDENTS = 100_000
MAX_PENDING_EVENTS = 10_000
MAX_PENDING_ANNOTATIONS = 1_000
MAX_PENDING_CALLS = 10_000
"""Queue sizes while nothing can be written; beyond them entries are lost."""

STOP_ATTEMPTS = 3
STOP_TIMEOUT_S = 15.0
"""Seconds to write what is queued when the gateway stops."""

log = logging.getLogger("looptrap")

T = TypeVar("T")


class HistoryWriter:
    """Fetches batches and writes each in one transaction; its failures never affect calls.

    A batch for a shared database goes to the spool, and from there on a second thread. `work` is
    called on the writer's thread, `on_written` and `upkeep` on the one that writes the database.
    """

    def __init__(
        self,
        history: IncidentHistory,
        work: Callable[[float], WriteBatch],
        *,
        on_written: Callable[[WriteBatch], None] = lambda _batch: None,
        upkeep: Callable[[], None] = lambda: None,
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.written = 0
        """Incidents written, counting each write."""
        self.lost = 0
        """Entries dropped because a queue was full, or at the stop."""
        self._history = history
        self._work = work
        self._on_written = on_written
        self._clock = clock
        self._monotonic = monotonic
        self._incidents: dict[tuple[str, str], Incident] = {}
        self._events: list[OutgoingEvent] = []
        self._spending = UsageBatch()
        self._annotations: list[Annotation] = []
        self._calls: list[CallRow] = []
        self._failed = 0
        self._is_failing = False
        self._not_before = self._next_log = -inf
        self._upkeep = upkeep
        self._next_upkeep = self._next_sweep = -inf
        self.drainer: SpoolDrainer | None = None
        self._spooled: WriteBatch | None = None
        """The latest batch that went to the spool, with events if there are any."""
        if history.spool is not None:
            self.drainer = SpoolDrainer(
                history, self._maintain, self._on_drained, self._log_error, monotonic
            )
        self._stopping = Flag()
        self._thread: Thread | None = None

    @property
    def is_failing(self) -> bool:
        """Whether the latest write failed."""
        return self._is_failing or (self.drainer is not None and self.drainer.is_failing)

    @property
    def failed(self) -> int:
        """Failed writes."""
        return self._failed + (self.drainer.failed if self.drainer is not None else 0)

    @property
    def waiting(self) -> int:
        """Incidents, events, annotations, usage rows and calls that are only in memory."""
        queues: tuple[Sized, ...] = (
            self._incidents, self._events, self._annotations, self._spending, self._calls,
        )  # fmt: skip
        return sum(map(len, queues))

    def start(self) -> None:
        """Start the threads."""
        if self.drainer is not None:
            self.drainer.start()
        self._thread = Thread(target=self._run, name="looptrap-history", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Write what is queued and stop; what cannot be written now is lost."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join(STOP_TIMEOUT_S)
        if self.drainer is not None:
            self.drainer.stop(STOP_TIMEOUT_S)

    def run_once(self) -> None:
        """Fetch a batch, and write unless the last write has just failed."""
        self._gather()
        now = self._monotonic()
        if now < self._not_before or not self._write():
            return
        if self.drainer is None:
            self._maintain(now)
        elif self.drainer.is_failing:
            # Fewer batches: of an incident only the latest state has to wait.
            self._not_before = now + RETRY_PAUSE_S

    def _run(self) -> None:
        while not self._stopping.wait(POLL_INTERVAL_S):
            self.run_once()
        self._gather()
        for _ in range(STOP_ATTEMPTS):
            if self._write():
                return
            time.sleep(POLL_INTERVAL_S)
        self.lost += self.waiting
        what = "incidents, events, annotations, usage rows and calls"
        log.error("history: stopped with %d %s not written", self.waiting, what)

    def _gather(self) -> None:
        """Fetch a batch; only the latest state of each incident is queued."""
        try:
            work = self._work(self._clock())
        except Exception as error:  # noqa: BLE001 - a later batch must still be written
            self._log_error("history: a batch could not be made", error)
            return
        for part in work.incidents:
            key = part.id, part.instance
            known = self._incidents.pop(key, None)
            if known is None and len(self._incidents) >= MAX_PENDING_INCIDENTS:
                self.lost += 1
            else:
                self._incidents[key] = part
        self._extend(self._events, work.events, MAX_PENDING_EVENTS)
        self._extend(self._annotations, work.annotations, MAX_PENDING_ANNOTATIONS)
        self._extend(self._calls, work.calls, MAX_PENDING_CALLS)
        if work.spending:
            self._spending.add(work.spending)

    def _extend(self, waiting: list[T], more: Sequence[T], limit: int) -> None:
        free = limit - len(waiting)
        waiting += more[:free]
        self.lost += max(len(more) - free, 0)

    def _write(self) -> bool:
        """Write everything queued; return whether that succeeded."""
        if not self.waiting:
            return True
        incidents = list(self._incidents.values())
        work = WriteBatch(incidents, self._events, self._spending, self._annotations, self._calls)
        try:
            self._history.write(work)
        except Exception as error:  # noqa: BLE001 - a failing disk must not stop the gateway
            self._failed += 1
            self._is_failing = True
            self._not_before = self._monotonic() + RETRY_PAUSE_S
            self._log_error("the history is not written", error)
            return False
        self._is_failing = False
        self.written += len(work.incidents)
        self._incidents, self._events, self._annotations, self._calls = {}, [], [], []
        self._spending = UsageBatch()
        if self.drainer is None:
            self._report(work)
        else:
            if work.events or self._spooled is None:
                self._spooled = work
            self.drainer.wake()
        return True

    def _on_drained(self) -> None:
        """Report what was spooled, or that there are alerts that others left behind."""
        spooled, self._spooled = self._spooled, None
        self._report(spooled if spooled is not None else WriteBatch())

    def _report(self, written: WriteBatch) -> None:
        try:
            self._on_written(written)
        except Exception as error:  # noqa: BLE001 - the batch is written nevertheless
            self._log_error("history: the callback after a write failed", error)

    def _maintain(self, now: float) -> None:
        """Do what is due, on the thread that writes the database; what fails is tried again."""
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

    def _log_error(self, what: str, error: Exception) -> None:
        """Log an error, at most once a second; other errors' texts may hold parts of a call."""
        now = self._monotonic()
        if now >= self._next_log:
            self._next_log = now + RETRY_PAUSE_S
            is_safe = isinstance(error, OSError | LooptrapError)
            log.error("%s: %s", what, error if is_safe else type(error).__name__)


IDLE_S = 0.5
"""Seconds between two looks without a wake-up."""

ADOPT_INTERVAL_S = 10.0
"""Seconds between two looks for what killed processes left in the folder of the spool."""

LOG_INTERVAL_S = 60.0
"""Seconds between two log lines while nothing can be written."""

STOP_DRAINS = 2


class SpoolDrainer:
    """Writes what waits, says that this process is alive, and maintains the history."""

    def __init__(
        self,
        history: IncidentHistory,
        maintain: Callable[[float], None],
        on_drained: Callable[[], None],
        log_error: Callable[[str, Exception], None],
        monotonic: Callable[[], float],
    ) -> None:
        self.failed = 0
        """Failed writes."""
        self.is_failing = False
        """Whether the latest write failed."""
        self._history = history
        self._maintain = maintain
        self._on_drained = on_drained
        self._log_error = log_error
        self._monotonic = monotonic
        self._wakeup = Flag()
        self._stopping = False
        self._not_before = self._next_beat = self._next_adoption = self._next_log = -inf
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
            self._next_log = -inf
            self._maintain(now)

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
        for _ in range(STOP_DRAINS):
            self._not_before = -inf
            self.run_once()
            if not self.is_failing:
                return
