"""The decision log: one line a decision that is not `allow`, never with prompt text or keys."""

from __future__ import annotations

import json
import sys
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from datetime import UTC, datetime
from threading import Event, Thread
from typing import Literal

from looptrap.gateway.access_log import word
from looptrap.incident.model import Sighting
from looptrap.incident.saving import usd

MOST_WAITING = 10_000
"""Lines that wait to be written; where nobody reads them, more are dropped and counted."""

INTERVAL = 0.1
"""Seconds between two looks for lines."""

LAST_LINES = 1.0
"""Seconds for what waits when the gateway stops."""

Write = Callable[[str], object]


class DecisionLog:
    """Writes lines on a thread of its own: a pipe that nobody empties holds up no call."""

    def __init__(self, form: Literal["text", "json"], write: Write | None = None) -> None:
        self.dropped = 0
        self._form = form
        self._write = write or _to_stderr
        self._waiting: deque[Sighting] = deque()
        self._stopping = Event()
        self._thread = Thread(target=self._run, name="looptrap-decision-log", daemon=True)

    def start(self) -> None:
        """Begin to write."""
        self._thread.start()

    def stop(self) -> None:
        """Write what waits, and end."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(LAST_LINES)

    def add(self, sightings: Iterable[Sighting]) -> None:
        """Take what was decided about a call."""
        for one in sightings:
            if len(self._waiting) < MOST_WAITING:
                self._waiting.append(one)
            else:
                self.dropped += 1

    def _run(self) -> None:
        is_over = False
        while not is_over:
            is_over = self._stopping.wait(INTERVAL)
            lines = [self._line(self._waiting.popleft()) for _ in range(len(self._waiting))]
            if lines:
                self._write("".join(lines))

    def _line(self, seen: Sighting) -> str:
        fields = _fields(seen)
        if self._form == "json":
            return json.dumps(fields, separators=(",", ":")) + "\n"
        return " ".join(f"{name}={word(value)}" for name, value in fields.items()) + "\n"


def _fields(seen: Sighting) -> dict[str, str | int | float]:
    line: dict[str, str | int | float] = {
        "time": datetime.fromtimestamp(seen.time, UTC).isoformat(timespec="milliseconds"),
        "decision": seen.action,
        "mode": "shadow" if seen.mode == "shadow" else "",
        "reason": seen.reason,
        "rule": seen.rule,
        "signal": seen.signal,
        "count": seen.count,
        "caller": seen.caller,
        "project": seen.project,
        "session": seen.session,
        "model": seen.model,
        "fingerprint": seen.fingerprint,
        "request_id": seen.request_id,
        "message": seen.message,
    }
    if seen.cost is not None:
        line["cost_usd"] = usd(seen.cost)
    return {name: value for name, value in line.items() if value != ""}


def _to_stderr(text: str) -> None:
    with suppress(OSError, ValueError):  # nobody reads it any more
        sys.stderr.write(text)
        sys.stderr.flush()
