"""Capture: generation calls that were judged, written down to be replayed, off their path.

Capture   takes calls from the gateway, and has a thread of its own to write them
line      Lines: what is written of a call, as it was sent or as digests of it
folder    Folder: the files, who can read them, and how many there are
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from threading import Event, Thread

from looptrap.call.captured import HISTORIES, Form
from looptrap.call.model import Call
from looptrap.gateway.capture.folder import Folder
from looptrap.gateway.capture.line import Lines
from looptrap.policy.verdict import Verdict

MOST_CALLS = 10_000
MOST_BYTES = 64 << 20
"""So many calls, and bytes of their bodies, wait to be written; one more is not captured."""

INTERVAL = 0.1
"""Seconds between two looks for calls: nobody is woken for a single one."""

BURST, REST = 0.001, 0.002
"""Seconds of work at a time, and at least between two such times: the gateway's own thread cannot
run meanwhile, and to take turns with it line by line would cost both more than the work does."""

PAUSE = 1.0
"""Seconds without a try after a line could not be written, and between two words about it."""

LAST_LINES = 10.0
"""Seconds for what waits when the gateway stops."""

log = logging.getLogger("looptrap")


class Capture:
    """Writes down calls and their verdicts; whatever goes wrong there, no call suffers."""

    def __init__(
        self,
        form: Form,
        path: str | Path,
        *,
        limit: int,
        secret: bytes,
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.written = 0
        self.overflowed = 0
        """Calls for which there was no room to wait."""
        self.failed = 0
        """Calls that could not be written."""
        self._folder = Folder(path, limit, clock)
        self._form: Form = form
        self._lines = Lines(form, secret)
        self._monotonic = monotonic
        self._waiting: deque[tuple[Call, Verdict, float]] = deque()
        # Two counters with one writer each need no lock; their difference is what waits.
        self._bytes_added = self._bytes_taken = 0
        self._not_before = 0.0
        self._stopping = Event()
        self._thread: Thread | None = None

    def start(self) -> None:
        """Make the folder and begin to write; raise ConfigError where that is not possible."""
        self._folder.make()
        self._thread = Thread(target=self._run, name="looptrap-capture", daemon=True)
        self._thread.start()

    def add(self, call: Call, verdict: Verdict, now: float) -> None:
        """Take a call that was judged; all else is done elsewhere, later."""
        if not call.generates or call.dialect not in HISTORIES:
            return
        size = len(call.request.body)
        held = self._bytes_added - self._bytes_taken
        if held + size > MOST_BYTES or len(self._waiting) >= MOST_CALLS:
            self.overflowed += 1
            return
        self._bytes_added += size
        self._waiting.append((call, verdict, now))

    def rekey(self, secret: bytes) -> None:
        """Make digests under another secret from now on; no line leans on one under the old."""
        self._lines = Lines(self._form, secret)

    def stop(self) -> None:
        """Write what waits, and end."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join(LAST_LINES)

    def _run(self) -> None:
        while not self._stopping.wait(INTERVAL):
            while self._waiting and not self._stopping.wait(REST):
                self._write_some()
        while self._waiting:
            self._write_some()
        self._folder.close()

    def _write_some(self) -> None:
        """Write what waits: no longer than for a burst, and into one file."""
        began, taken = self._monotonic(), 0
        lines: list[bytes] = []
        try:
            if began >= self._not_before and self._folder.is_at_end():
                self._folder.open()
                self._lines.start_over()
            until, room = self._monotonic() + BURST, self._folder.room
            while self._waiting and room > 0 and (not taken or self._monotonic() < until):
                call, verdict, now = self._waiting.popleft()
                self._bytes_taken += len(call.request.body)
                taken += 1
                if began >= self._not_before:
                    lines.append(self._lines.line(call, verdict, now))
                    room -= len(lines[-1])
            if lines:
                self._folder.write(b"".join(lines))
            self.written += len(lines)
            self.failed += taken - len(lines)
        except Exception as error:  # noqa: BLE001 - a call that cannot be written is no outage
            self.failed += taken
            self._folder.close()
            self._not_before = began + PAUSE
            log.error("calls are not captured: %s", _why(error))


def _why(error: Exception) -> str:
    """Return what went wrong, without anything that a call may have brought."""
    return (isinstance(error, OSError) and error.strerror) or type(error).__name__
