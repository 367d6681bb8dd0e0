"""The access log: one line a request, never with prompt text, keys or query values."""

from __future__ import annotations

import json
import sys
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from threading import Event, Thread
from typing import Generic, Literal, TextIO, TypeVar

from looptrap.dialect.model import MAX_NAME_CHARS, Outcome
from looptrap.engine import Transaction
from looptrap.usage.savings import usd

T = TypeVar("T")

MAX_WAITING_LINES = 10_000
"""Lines that wait to be written; where nobody reads them, more are dropped and counted."""

WRITE_INTERVAL_S = 0.1
"""Seconds between two looks for lines."""

STOP_TIMEOUT_S = 1.0
"""Seconds for what waits when the gateway stops."""

WriteText = Callable[[str], object]


class LogWriter(Generic[T]):
    """Puts entries into lines and writes them: a pipe that nobody empties holds up no call."""

    def __init__(self, name: str, line: Callable[[T], str], write: WriteText) -> None:
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
            self._thread.join(STOP_TIMEOUT_S)

    def add(self, entry: T) -> None:
        """Take an entry, where there is room for it."""
        if len(self._waiting) < MAX_WAITING_LINES:
            self._waiting.append(entry)
        else:
            self.dropped += 1

    def _run(self) -> None:
        is_over = False
        while not is_over:
            is_over = self._stopping.wait(WRITE_INTERVAL_S)
            lines = [self._line(self._waiting.popleft()) for _ in range(len(self._waiting))]
            if lines:
                self._write("".join(lines))


def stream_writer(stream: TextIO) -> WriteText:
    """Return what writes to a stream, if somebody still reads it."""

    def write(text: str) -> None:
        with suppress(OSError, ValueError):
            stream.write(text)
            stream.flush()

    return write


LogFields = dict[str, str | int | float]


class AccessLog(LogWriter[LogFields]):
    """Writes what became of every request."""

    def __init__(
        self,
        form: Literal["text", "json"],
        clock: Callable[[], float],
        write: WriteText | None = None,
    ) -> None:
        super().__init__(
            "access-log", partial(format_line, form), write or stream_writer(sys.stdout)
        )
        self._clock = clock

    def __call__(self, transaction: Transaction, outcome: Outcome) -> None:
        """Log a settled request."""
        self.add(self._fields(transaction, outcome))

    def _fields(self, transaction: Transaction, outcome: Outcome) -> LogFields:
        call, verdict = transaction.call, transaction.ticket.verdict
        request = call.request
        fields: LogFields = {
            "time": datetime.fromtimestamp(self._clock(), UTC).isoformat(timespec="milliseconds"),
            "method": request.method,
            "path": request.path,
            "status": transaction.status,
            "verdict": verdict.action.value,
            "caller": request.caller,
            "model": call.model[:MAX_NAME_CHARS],
            "provider": transaction.provider,
            "input_tokens": outcome.usage.input_tokens,
            "output_tokens": outcome.usage.output_tokens,
            "request_id": transaction.request_id.decode("latin-1"),
        }
        if verdict.rule:
            fields |= {"rule": verdict.rule, "count": verdict.count}
        if outcome.cost is not None:
            fields["cost_usd"] = usd(outcome.cost)
        if outcome.usage.is_estimated:
            fields["estimated"] = 1
        if outcome.cut_off:
            fields["cut_off"] = 1
        return {name: value for name, value in fields.items() if value != ""}


def format_line(form: Literal["text", "json"], fields: Mapping[str, str | int | float]) -> str:
    """Return fields as one line of a log."""
    if form == "json":
        return json.dumps(fields, separators=(",", ":")) + "\n"
    return " ".join(f"{name}={_word(value)}" for name, value in fields.items()) + "\n"


def _word(value: str | float) -> str:
    """Return the value so that it stays one word on one line."""
    text = str(value)
    return text if text.isprintable() and " " not in text else json.dumps(text)
