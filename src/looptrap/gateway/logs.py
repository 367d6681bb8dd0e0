"""What the gateway logs: requests, decisions, and each traceback once a minute."""

from __future__ import annotations

import json
import logging
import sys
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from threading import Event, Lock, Thread
from types import TracebackType
from typing import Generic, Literal, TextIO, TypeVar

import msgspec

from looptrap.dialect.model import MAX_NAME_CHARS, Outcome
from looptrap.engine import Transaction
from looptrap.incident.model import Sighting
from looptrap.money.price import usd

T = TypeVar("T")

MAX_WAITING_LINES = 10_000
"""Lines that wait to be written; where the output is blocked, more are dropped and counted."""

WRITE_INTERVAL_S = 0.1
STOP_TIMEOUT_S = 1.0
"""Seconds to write what waits when the gateway stops."""

TRACEBACK_INTERVAL_S = 60.0
"""Seconds in which each fault is written once."""

MAX_FAULTS = 100
"""Faults that are counted apart; all others count as one."""

TRACEBACK_LOGGERS = ("looptrap", "asyncio")

LogForm = Literal["text", "json"]
LogFields = dict[str, str | int | float]
WriteText = Callable[[str], object]


class LogWriter(Generic[T]):
    """Formats entries and writes them on a thread: a blocked pipe delays no call."""

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
        """Take an entry; drop it where too many wait."""
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
    """Return a function that writes to a stream, and ignores one that is closed."""

    def write(text: str) -> None:
        with suppress(OSError, ValueError):
            stream.write(text)
            stream.flush()

    return write


class AccessLog(LogWriter[LogFields]):
    """One line for each request, never with prompt text, keys or query values."""

    def __init__(self, form: LogForm, clock: Callable[[], float]) -> None:
        super().__init__("access-log", partial(format_line, form), stream_writer(sys.stdout))
        self._clock = clock

    def __call__(self, transaction: Transaction, outcome: Outcome) -> None:
        """Log a settled request."""
        call, verdict = transaction.call, transaction.ticket.verdict
        request = call.request
        fields: LogFields = {
            "time": _iso_time(self._clock()),
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
        self.add(fields)


def decision_log(form: LogForm, write: WriteText | None = None) -> LogWriter[Sighting]:
    """Return a log of decisions other than `allow`, by default to stderr.

    It never has prompt text or keys.
    """

    def line(seen: Sighting) -> str:
        fields: LogFields = {
            "time": _iso_time(seen.time),
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
            fields["cost_usd"] = usd(seen.cost)
        return format_line(form, fields)

    return LogWriter("decision-log", line, write or stream_writer(sys.stderr))


def format_line(form: LogForm, fields: LogFields) -> str:
    """Return the fields that are not empty as one line of a log."""
    fields = {name: value for name, value in fields.items() if value != ""}
    if form == "json":
        return json.dumps(fields, separators=(",", ":")) + "\n"
    return " ".join(f"{name}={_word(value)}" for name, value in fields.items()) + "\n"


def _word(value: str | float) -> str:
    """Return a value without spaces and line ends."""
    text = str(value)
    return text if text.isprintable() and " " not in text else json.dumps(text)


def _iso_time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")


class _Fault(msgspec.Struct):
    """One fault, and how often it was logged again since it was written."""

    logger: str
    title: str
    until: float
    repeats: int = 0


class TracebackFilter(logging.Filter):
    """Lets a traceback pass once a minute for each place that raises it.

    A fault of ours that clients can cause at will must not fill the disk, nor may the loop spend
    its time on writing it.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock = clock
        self._faults: dict[str, _Fault] = {}
        self._lock = Lock()

    def install(self) -> None:
        """Begin to filter what is logged."""
        for name in TRACEBACK_LOGGERS:
            logging.getLogger(name).addFilter(self)

    def uninstall(self) -> None:
        """Log the counts that are left, and filter no more."""
        for name in TRACEBACK_LOGGERS:
            logging.getLogger(name).removeFilter(self)
        self.log_counts(everything=True)

    def filter(self, record: logging.LogRecord) -> bool:
        """Let everything pass but tracebacks that were written in the last minute."""
        if not isinstance(record.exc_info, tuple) or record.exc_info[1] is None:
            return True
        _, error, traceback = record.exc_info
        # asyncio adds lines that name the connection: no two would be alike.
        message = str(record.msg).partition("\n")[0]
        title = f"{message}: {type(error).__name__}{_origin(traceback)}"
        now = self._clock()
        with self._lock:
            if title not in self._faults and len(self._faults) >= MAX_FAULTS:
                title = "something else failed"
            fault = self._faults.get(title)
            if fault is not None:
                fault.repeats += 1
                return False
            self._faults[title] = _Fault(record.name, title, now + TRACEBACK_INTERVAL_S)
        return True

    def log_counts(self, *, everything: bool = False) -> None:
        """Log how often each fault was repeated whose minute is over."""
        if not self._faults:
            return
        now = self._clock()
        with self._lock:
            due = [one for one in self._faults.values() if everything or one.until <= now]
            for fault in due:
                del self._faults[fault.title]
                if fault.repeats and not everything:  # it goes on: no second traceback for now
                    again = _Fault(fault.logger, fault.title, now + TRACEBACK_INTERVAL_S)
                    self._faults[fault.title] = again
        for fault in due:
            if fault.repeats:
                message = "%s … and %d more like it in the last minute"
                logging.getLogger(fault.logger).error(message, fault.title, fault.repeats)


def _origin(traceback: TracebackType | None) -> str:
    """Return the function and line that raised an exception."""
    if traceback is None:
        return ""
    while traceback.tb_next is not None:
        traceback = traceback.tb_next
    code = traceback.tb_frame.f_code
    return f" in {code.co_qualname}, line {traceback.tb_lineno}"
