"""The writer: a thread that keeps what there is to keep, and what cannot be kept yet."""

from __future__ import annotations

import logging
import sqlite3
import time
from collections.abc import Callable, Sequence
from threading import Event as Flag
from threading import Thread
from typing import NamedTuple, TypeVar

from looptrap.errors import LooptrapError
from looptrap.incident.history.history import IncidentHistory
from looptrap.incident.history.outbox import OutgoingEvent
from looptrap.incident.model import Annotation, Incident
from looptrap.usage.model import UsageBatch

POLL_INTERVAL_S = 0.1
"""Seconds between two looks for work: nobody is woken for a single incident."""

RETRY_PAUSE_S = 1.0
"""Seconds without a try after something could not be written, and between two words about it."""

SWEEP_INTERVAL_S = 10.0
"""Seconds between two looks for what is too old or too much."""

MAX_PENDING_INCIDENTS = 100_000
MAX_PENDING_EVENTS = 10_000
MAX_PENDING_ANNOTATIONS = 1_000
"""So many wait while nothing can be written; one more is lost."""

STOP_ATTEMPTS = 3
STOP_TIMEOUT_S = 15.0
"""Seconds for what waits when the gateway stops."""

log = logging.getLogger("looptrap")

T = TypeVar("T")


class WriteBatch(NamedTuple):
    """What there is to keep."""

    incidents: Sequence[Incident] = ()
    events: Sequence[OutgoingEvent] = ()
    spending: UsageBatch | None = None
    remarks: Sequence[Annotation] = ()


def _ignore(_written: WriteBatch) -> None: ...


class HistoryWriter:
    """Asks for work and writes it, each time in one transaction; whatever happens, no call suffers.

    `work` is asked on the writer's thread, with the time; `on_written` is told there what is safe.
    """

    def __init__(
        self,
        history: IncidentHistory,
        work: Callable[[float], WriteBatch],
        *,
        on_written: Callable[[WriteBatch], None] = _ignore,
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.written = 0
        """Incidents written, each time one was."""
        self.failed = 0
        """Times that nothing could be written."""
        self.lost = 0
        """What had no room to wait, or no time in the end: incidents, events, remarks, sums."""
        self._history = history
        self._work = work
        self._on_written = on_written
        self._clock = clock
        self._monotonic = monotonic
        self._incidents: dict[tuple[str, str], Incident] = {}
        self._events: list[OutgoingEvent] = []
        self._spending = UsageBatch()
        self._remarks: list[Annotation] = []
        self.is_stuck = False
        """Whether the latest writing failed."""
        self._not_before = self._next_sweep = self._next_word = float("-inf")
        self._stopping = Flag()
        self._thread: Thread | None = None

    @property
    def waiting(self) -> int:
        """How many incidents, events, remarks and rows of spending are not written yet."""
        told = len(self._events) + len(self._remarks)
        return len(self._incidents) + told + len(self._spending)

    def start(self) -> None:
        """Begin to write."""
        self._thread = Thread(target=self._run, name="looptrap-history", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Write what waits, and end; what cannot be written now is lost."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join(STOP_TIMEOUT_S)

    def look(self) -> None:
        """Gather what there is, and write it unless that has just failed."""
        self._gather()
        now = self._monotonic()
        if now >= self._not_before and self._write() and now >= self._next_sweep:
            self._sweep(now)

    def _run(self) -> None:
        while not self._stopping.wait(POLL_INTERVAL_S):
            self.look()
        self._gather()
        for _ in range(STOP_ATTEMPTS):
            if self._write():
                return
            time.sleep(POLL_INTERVAL_S)
        self.lost += self.waiting
        log.error("the history ends without %d incidents, events and sums", self.waiting)

    def _gather(self) -> None:
        """Ask for work; of each incident only the latest state has to be written."""
        try:
            work = self._work(self._clock())
        except Exception as error:  # noqa: BLE001 - what was seen later is still to be kept
            self._say("incidents are not gathered", error)
            return
        for part in work.incidents:
            key = part.id, part.instance
            if (
                self._incidents.pop(key, None) is None
                and len(self._incidents) >= MAX_PENDING_INCIDENTS
            ):
                self.lost += 1
                continue
            self._incidents[key] = part
        self._take(self._events, work.events, MAX_PENDING_EVENTS)
        self._take(self._remarks, work.remarks, MAX_PENDING_ANNOTATIONS)
        if work.spending:
            self._spending.add(work.spending)

    def _take(self, waiting: list[T], more: Sequence[T], most: int) -> None:
        room = most - len(waiting)
        waiting += more[:room]
        self.lost += max(len(more) - room, 0)

    def _write(self) -> bool:
        """Write all that waits; say whether that went well."""
        if not self.waiting:
            return True
        incidents = list(self._incidents.values())
        work = WriteBatch(incidents, self._events, self._spending, self._remarks)
        try:
            self._history.put(*work)
        except Exception as error:  # noqa: BLE001 - a history that cannot be written is no outage
            self.failed += 1
            self.is_stuck = True
            self._not_before = self._monotonic() + RETRY_PAUSE_S
            self._say("the history is not written", error)
            return False
        self.is_stuck = False
        self.written += len(work.incidents)
        self._incidents, self._events, self._remarks = {}, [], []
        self._spending = UsageBatch()
        try:
            self._on_written(work)
        except Exception as error:  # noqa: BLE001 - it is written, whoever cannot be told so
            self._say("nobody was told what the history has", error)
        return True

    def _sweep(self, now: float) -> None:
        try:
            is_more = self._history.sweep()
        except Exception as error:  # noqa: BLE001 - a later sweep gets it
            self._say("the history is not swept", error)
            is_more = False
        self._next_sweep = now if is_more else now + SWEEP_INTERVAL_S

    def _say(self, what: str, error: Exception) -> None:
        """Say what went wrong, not too often; nothing in it comes from a call."""
        now = self._monotonic()
        if now >= self._next_word:
            self._next_word = now + RETRY_PAUSE_S
            is_telling = isinstance(error, sqlite3.Error | OSError | LooptrapError)
            log.error("%s: %s", what, error if is_telling else type(error).__name__)
