"""HistoryWriter: the thread that writes the history, and queues what cannot be written yet."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence, Sized
from threading import Event as Flag
from threading import Thread
from typing import TypeVar

from looptrap.errors import LooptrapError
from looptrap.incident.history.batch import WriteBatch
from looptrap.incident.history.history import IncidentHistory
from looptrap.incident.history.outbox import OutgoingEvent
from looptrap.incident.model import Annotation, Incident
from looptrap.usage.call_log import CallRow
from looptrap.usage.model import UsageBatch

POLL_INTERVAL_S = 0.1
"""Seconds between two batches: a single incident is not worth a wake-up."""

RETRY_PAUSE_S = 1.0
"""Seconds to wait after a failed write, and between two log lines about it."""

SWEEP_INTERVAL_S = 10.0
"""Seconds between two sweeps of what is expired or too large."""

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

    `work` and `on_written` are called on the writer's thread, with the time and the batch.
    """

    def __init__(
        self,
        history: IncidentHistory,
        work: Callable[[float], WriteBatch],
        *,
        on_written: Callable[[WriteBatch], None] = lambda _batch: None,
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.written = 0
        """Incidents written, counting each write."""
        self.failed = 0
        """Failed writes."""
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
        self.is_failing = False
        """Whether the latest write failed."""
        self._not_before = self._next_sweep = self._next_log = float("-inf")
        self._stopping = Flag()
        self._thread: Thread | None = None

    @property
    def waiting(self) -> int:
        """Incidents, events, annotations, usage rows and calls that are not written yet."""
        queues: tuple[Sized, ...] = (
            self._incidents, self._events, self._annotations, self._spending, self._calls,
        )  # fmt: skip
        return sum(map(len, queues))

    def start(self) -> None:
        """Start the thread."""
        self._thread = Thread(target=self._run, name="looptrap-history", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Write what is queued and stop; what cannot be written now is lost."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join(STOP_TIMEOUT_S)

    def run_once(self) -> None:
        """Fetch a batch, and write unless the last write has just failed."""
        self._gather()
        now = self._monotonic()
        if now >= self._not_before and self._write() and now >= self._next_sweep:
            self._sweep(now)

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
            self._history.put(*work)
        except Exception as error:  # noqa: BLE001 - a failing disk must not stop the gateway
            self.failed += 1
            self.is_failing = True
            self._not_before = self._monotonic() + RETRY_PAUSE_S
            self._log_error("the history is not written", error)
            return False
        self.is_failing = False
        self.written += len(work.incidents)
        self._incidents, self._events, self._annotations, self._calls = {}, [], [], []
        self._spending = UsageBatch()
        try:
            self._on_written(work)
        except Exception as error:  # noqa: BLE001 - the batch is written nevertheless
            self._log_error("history: the callback after a write failed", error)
        return True

    def _sweep(self, now: float) -> None:
        self._next_sweep = now + SWEEP_INTERVAL_S
        try:
            if self._history.sweep():
                self._next_sweep = now
        except Exception as error:  # noqa: BLE001 - a later sweep tries again
            self._log_error("the history is not swept", error)

    def _log_error(self, what: str, error: Exception) -> None:
        """Log an error, at most once a second; other errors' texts may hold parts of a call."""
        now = self._monotonic()
        if now >= self._next_log:
            self._next_log = now + RETRY_PAUSE_S
            is_safe = isinstance(error, OSError | LooptrapError)
            log.error("%s: %s", what, error if is_safe else type(error).__name__)
