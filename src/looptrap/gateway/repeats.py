"""Tracebacks in the log: each fault is written once a minute, then counted."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from threading import Lock
from types import TracebackType

import msgspec

EVERY = 60.0
"""Seconds in which a fault is written once."""

MOST = 100
"""Faults that are told apart; all others together are one."""

LOGGERS = ("looptrap", "asyncio")


class _Fault(msgspec.Struct):
    """One fault, and how often it was seen again since it was written."""

    logger: str
    what: str
    until: float
    more: int = 0


class Repeats(logging.Filter):
    """Lets a traceback pass once a minute for each place that it comes from.

    A fault of ours that clients can bring about at will must not fill the disk, nor may the loop
    spend its time on writing it.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock = clock
        self._faults: dict[str, _Fault] = {}
        self._lock = Lock()

    def install(self) -> None:
        """Begin to filter what is logged."""
        for name in LOGGERS:
            logging.getLogger(name).addFilter(self)

    def uninstall(self) -> None:
        """Say what has not been said yet, and filter no more."""
        for name in LOGGERS:
            logging.getLogger(name).removeFilter(self)
        self.tell(everything=True)

    def filter(self, record: logging.LogRecord) -> bool:
        """Let everything pass but tracebacks that were written lately."""
        if not isinstance(record.exc_info, tuple) or record.exc_info[1] is None:
            return True
        _, error, traceback = record.exc_info
        # asyncio adds lines that name the connection: no two would be alike.
        title = str(record.msg).partition("\n")[0]
        what = f"{title}: {type(error).__name__}{_place(traceback)}"
        now = self._clock()
        with self._lock:
            if what not in self._faults and len(self._faults) >= MOST:
                what = "something else failed"
            fault = self._faults.get(what)
            if fault is not None:
                fault.more += 1
                return False
            self._faults[what] = _Fault(record.name, what, now + EVERY)
        return True

    def tell(self, *, everything: bool = False) -> None:
        """Write how often faults were seen again whose minute is over."""
        if not self._faults:
            return
        now = self._clock()
        with self._lock:
            due = [one for one in self._faults.values() if everything or one.until <= now]
            for fault in due:
                del self._faults[fault.what]
                if fault.more and not everything:  # it goes on: no second traceback for now
                    again = _Fault(fault.logger, fault.what, now + EVERY)
                    self._faults[fault.what] = again
        for fault in due:
            if fault.more:
                message = "%s … and %d more like it in the last minute"
                logging.getLogger(fault.logger).error(message, fault.what, fault.more)


def _place(traceback: TracebackType | None) -> str:
    """Return where something was raised."""
    if traceback is None:
        return ""
    while traceback.tb_next is not None:
        traceback = traceback.tb_next
    code = traceback.tb_frame.f_code
    return f" in {code.co_qualname}, line {traceback.tb_lineno}"
