"""LocalHistory: incidents of a process without a gateway, stored as the gateway does."""

from __future__ import annotations

import atexit
import os
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from secrets import token_bytes, token_hex
from threading import Lock

from looptrap.database.place import is_postgres
from looptrap.detect.fingerprint import derived_session_of
from looptrap.dialect.model import Outcome
from looptrap.engine import Ticket
from looptrap.incident.history import HistoryWriter, IncidentHistory, WriteBatch
from looptrap.incident.model import Sighting
from looptrap.incident.setting import IncidentSettings
from looptrap.incident.sighting import make_sightings
from looptrap.incident.tracker import Tracker
from looptrap.policy.verdict import ALLOWED
from looptrap.usage.recorder import InputCostEstimator

MAX_PENDING_SIGHTINGS = 10_000
"""Sightings that wait for the writer; one more is dropped."""

_open_histories: dict[str, LocalHistory] = {}
_registry_lock = Lock()


class LocalHistory:
    """Makes incidents of sightings and writes them, on a thread of its own; no call waits."""

    def __init__(
        self,
        path: str,
        settings: IncidentSettings | None = None,
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._path = path
        self._settings = settings or IncidentSettings()
        self._clock = clock
        self._secret = token_bytes(32)
        self._waiting: deque[Sighting] = deque()
        self._lock = Lock()
        self._begin()

    @classmethod
    def open(cls, path: str | Path, settings: IncidentSettings | None = None) -> LocalHistory:
        """Return this process's history in that file; a ConfigError says why there can be none."""
        file = str(path) if is_postgres(str(path)) else os.path.realpath(path)
        with _registry_lock:
            incident_history = _open_histories.get(file)
            if incident_history is None:
                incident_history = _open_histories[file] = cls(file, settings)
                atexit.register(incident_history.close)
            return incident_history

    def _begin(self) -> None:
        self._process = os.getpid()
        self._recorded = self._tracked = self._written = 0
        self._history = IncidentHistory(self._path, self._settings, clock=self._clock)
        self._history.open()
        self._tracker = Tracker(
            self._history.instance,
            quiet=self._settings.quiet,
            new_id=lambda: f"inc_{int(self._clock() * 1000):011x}{token_hex(4)}",
            has_channels=False,
        )
        for part in self._history.abandoned_incidents():
            self._tracker.merge_remote(part)
        self._writer = HistoryWriter(
            self._history, self._take_batch, on_written=self._on_written, clock=self._clock
        )
        self._writer.start()

    def record(
        self,
        ticket: Ticket,
        outcome: Outcome | None,
        now: float,
        *,
        request_id: str,
        provider: str,
        estimate: InputCostEstimator,
    ) -> None:
        """Record the verdict about a call and, if it was sent, its outcome."""
        if ticket.verdict is ALLOWED and ticket.heard is None and ticket.shadow is None:
            return
        call = ticket.call
        sightings = make_sightings(
            ticket,
            outcome,
            now,
            session=call.request.session or derived_session_of(call, self._secret),
            request_id=request_id,
            provider=provider,
            estimate=estimate,
        )
        loops = [one for one in sightings if one.reason == "loop_detected"]
        with self._lock:
            if self._process != os.getpid():
                self._begin()  # a fork has no thread, and must not use the connection
            if len(self._waiting) < MAX_PENDING_SIGHTINGS:
                self._waiting += loops
                self._recorded += len(loops)

    @property
    def is_written(self) -> bool:
        """Whether all that was recorded is written."""
        return self._written >= self._recorded

    def close(self) -> None:
        """Write what waits, and end."""
        if self._process == os.getpid():
            self._writer.stop()
            self._history.close()

    # On the writer's thread

    def _take_batch(self, now: float) -> WriteBatch:
        for _ in range(len(self._waiting)):
            self._tracker.add(self._waiting.popleft())
            self._tracked += 1
        self._tracker.tick(now)
        return WriteBatch(self._tracker.take_changed())

    def _on_written(self, _batch: WriteBatch) -> None:
        self._written = self._tracked
