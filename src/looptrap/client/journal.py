"""The journal: incidents of a process without a gateway, kept as the gateway keeps its own."""

from __future__ import annotations

import atexit
import os
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from secrets import token_bytes, token_hex
from threading import Lock

from looptrap.admission import Ticket
from looptrap.call.model import Outcome
from looptrap.detect.opening import session_name
from looptrap.incident.history import History, Work, Writer
from looptrap.incident.model import Sighting
from looptrap.incident.setting import IncidentSettings
from looptrap.incident.sighting import Estimate, sightings
from looptrap.incident.tracker import Tracker
from looptrap.policy.verdict import ALLOWED

MOST_WAITING = 10_000
"""Sightings that wait to be gathered; one more is dropped."""

_journals: dict[str, Journal] = {}
_opening = Lock()


class Journal:
    """Gathers sightings into incidents and writes them, on a thread of its own; no call waits."""

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
    def at(cls, path: str | Path, settings: IncidentSettings | None = None) -> Journal:
        """Return this process's journal in that file; a ConfigError says why there can be none."""
        place = os.path.realpath(path)
        with _opening:
            journal = _journals.get(place)
            if journal is None:
                journal = _journals[place] = cls(place, settings)
                atexit.register(journal.close)
            return journal

    def _begin(self) -> None:
        self._process = os.getpid()
        self._seen = self._gathered = self._kept = 0
        self._history = History(self._path, self._settings, clock=self._clock)
        self._history.open()
        self._tracker = Tracker(
            f"{self._history.id}.{token_hex(4)}",
            quiet=self._settings.quiet,
            new_id=lambda: f"inc_{int(self._clock() * 1000):011x}{token_hex(4)}",
            is_heard=False,
        )
        for part in self._history.open_incidents():
            self._tracker.learn(part)
        self._writer = Writer(
            self._history, self._work, on_written=self._written, clock=self._clock
        )
        self._writer.start()

    def settled(
        self,
        ticket: Ticket,
        outcome: Outcome | None,
        now: float,
        *,
        request_id: str,
        provider: str,
        estimate: Estimate,
    ) -> None:
        """Take what was decided about a call and, where it left, what became of it."""
        if ticket.verdict is ALLOWED and ticket.heard is None and ticket.shadow is None:
            return
        call = ticket.call
        told = sightings(
            ticket,
            outcome,
            now,
            session=call.request.session or session_name(call, self._secret),
            request_id=request_id,
            provider=provider,
            estimate=estimate,
        )
        loops = [one for one in told if one.reason == "loop_detected"]
        with self._lock:
            if self._process != os.getpid():
                self._begin()  # a fork has neither the thread nor a right to the connection
            if len(self._waiting) < MOST_WAITING:
                self._waiting += loops
                self._seen += len(loops)

    @property
    def is_written(self) -> bool:
        """Whether all that was taken is safe."""
        return self._kept >= self._seen

    def close(self) -> None:
        """Write what waits, and end."""
        if self._process == os.getpid():
            self._writer.stop()
            self._history.close()

    # On the writer's thread

    def _work(self, now: float) -> Work:
        for _ in range(len(self._waiting)):
            self._tracker.sight(self._waiting.popleft())
            self._gathered += 1
        self._tracker.tick(now)
        return Work(self._tracker.take_changed())

    def _written(self, _work: Work) -> None:
        self._kept = self._gathered
