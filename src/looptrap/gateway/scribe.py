"""Scribes: lines that are written on a thread of their own, whoever reads them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from contextlib import suppress
from threading import Event, Thread
from typing import Generic, TextIO, TypeVar

T = TypeVar("T")

MOST_WAITING = 10_000
"""Lines that wait to be written; where nobody reads them, more are dropped and counted."""

INTERVAL = 0.1
"""Seconds between two looks for lines."""

LAST_LINES = 1.0
"""Seconds for what waits when the gateway stops."""

Write = Callable[[str], object]


class Scribe(Generic[T]):
    """Puts entries into lines and writes them: a pipe that nobody empties holds up no call."""

    def __init__(self, name: str, line: Callable[[T], str], write: Write) -> None:
        self.dropped = 0
        self._line = line
        self._write = write
        self._waiting: deque[T] = deque()
        self._stopping = Event()
        self._thread = Thread(target=self._run, name=f"looptrap-{name}", daemon=True)

    def start(self) -> None:
        """Begin to write."""
        self._thread.start()

    def stop(self) -> None:
        """Write what waits, and end."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(LAST_LINES)

    def add(self, entry: T) -> None:
        """Take an entry, where there is room for it."""
        if len(self._waiting) < MOST_WAITING:
            self._waiting.append(entry)
        else:
            self.dropped += 1

    def _run(self) -> None:
        is_over = False
        while not is_over:
            is_over = self._stopping.wait(INTERVAL)
            lines = [self._line(self._waiting.popleft()) for _ in range(len(self._waiting))]
            if lines:
                self._write("".join(lines))


def onto(stream: TextIO) -> Write:
    """Return what writes to a stream, if somebody still reads it."""

    def write(text: str) -> None:
        with suppress(OSError, ValueError):
            stream.write(text)
            stream.flush()

    return write
