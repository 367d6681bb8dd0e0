"""PostgresPool: a few connections, each with a deadline for what it waits for."""

from __future__ import annotations

import select
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from threading import BoundedSemaphore, Lock, Thread
from time import sleep
from weakref import WeakSet

import psycopg
from psycopg import errors

MAX_CONNECTIONS = 5
"""One writes, one delivers alerts, the others read for operators."""

AWAY_PAUSE_S = 1.0
"""Seconds after a failed connection in which no other is tried: operators get their answer."""

GRACE_S = 1.0
"""Seconds beyond the time-out after which an answer of the server is not waited for any more."""

WATCH_INTERVAL_S = 0.2
"""Seconds between two looks at the deadlines."""

IDLE_TRANSACTION_S = 30

MIN_CONNECT_TIMEOUT_S = 2
"""The shortest that libpq knows."""

LOST = (errors.ReadOnlySqlTransaction, errors.AdminShutdown, errors.CrashShutdown,
        errors.CannotConnectNow)  # fmt: skip
"""Errors of a server that is going away, or that is a standby now."""


class PostgresPool:
    """Connections that are checked before their first use, and closed when something goes wrong.

    libpq resolves the host name at each connection, so after a failover by DNS the new server is
    found; a server that takes no writes is left.
    """

    def __init__(
        self,
        url: str,
        timeout: float,
        prepare: Callable[[psycopg.Connection], None],
        monotonic: Callable[[], float],
    ) -> None:
        self.epoch = 0
        """Grows when connections were lost."""
        self._url = url
        self._timeout = timeout
        self._prepare = prepare
        self._monotonic = monotonic
        self._free = BoundedSemaphore(MAX_CONNECTIONS)
        self._lock = Lock()
        self._idle: list[psycopg.Connection] = []
        self._deadlines: dict[psycopg.Connection, float] = {}
        self._interrupted: WeakSet[psycopg.Connection] = WeakSet()
        self._away_until = float("-inf")
        self._why_away: psycopg.Error | None = None
        self._is_open = False

    def open(self) -> None:
        """Begin to watch the deadlines; no connection is made yet."""
        if not self._is_open:
            self._is_open = True
            Thread(target=self._watch, name="looptrap-deadlines", daemon=True).start()

    def close(self) -> None:
        """Close all connections that are not in use; the others are closed when given back."""
        self._is_open = False
        self._drop_idle()

    @contextmanager
    def connection(self) -> Iterator[psycopg.Connection]:
        """Yield a connection; raise psycopg.Error if there is none within the time-out."""
        if not self._is_open:
            raise psycopg.InterfaceError("the history is closed")
        if not self._free.acquire(timeout=self._timeout):
            raise psycopg.OperationalError("all connections of this process are busy")
        try:
            raw = self._take() or self._connect()
            with self.patience(raw, self._timeout):
                try:
                    yield raw
                except BaseException as error:
                    self._release(raw, error)
                    if raw in self._interrupted:
                        why = f"gave no answer within {self._timeout:g} seconds"
                        raise psycopg.OperationalError(why) from None
                    raise
            self._release(raw)
        finally:
            self._free.release()

    @contextmanager
    def unprepared(self) -> Iterator[psycopg.Connection]:
        """Yield a connection of its own, to look at what is there."""
        self.open()
        raw = self._login()
        try:
            with self.patience(raw, self._timeout):
                yield raw
        finally:
            raw.close()

    @contextmanager
    def patience(self, raw: psycopg.Connection, seconds: float) -> Iterator[None]:
        """Give up waiting for the server after so long, with a moment for its own time-out.

        The server's time-outs do not help where it hangs or where the network swallows packets.
        """
        with self._lock:
            before = self._deadlines.get(raw)
            self._deadlines[raw] = self._monotonic() + seconds + GRACE_S
        try:
            yield
        finally:
            with self._lock:
                del self._deadlines[raw]
                if before is not None:
                    self._deadlines[raw] = before

    def renew(self, raw: psycopg.Connection) -> None:
        """Begin to wait anew, as a further statement is sent."""
        with self._lock:
            until = self._monotonic() + self._timeout + GRACE_S
            self._deadlines[raw] = max(until, self._deadlines[raw])

    def _take(self) -> psycopg.Connection | None:
        """Return an idle connection that the server has not closed."""
        while True:
            with self._lock:
                raw = self._idle.pop() if self._idle else None
            if raw is None or not _has_ended(raw):
                return raw
            self.epoch += 1
            raw.close()

    def _connect(self) -> psycopg.Connection:
        if self._why_away is not None and self._monotonic() < self._away_until:
            raise psycopg.OperationalError(str(self._why_away)) from self._why_away
        try:
            raw = self._login()
        except psycopg.Error as error:
            self._why_away = error
            self._away_until = self._monotonic() + AWAY_PAUSE_S
            raise
        self._why_away = None
        try:
            with self.patience(raw, self._timeout):
                self._prepare(raw)
        except BaseException:
            raw.close()
            raise
        return raw

    def _login(self) -> psycopg.Connection:
        raw = psycopg.connect(
            self._url,
            autocommit=True,
            # A pooler between may not know of prepared statements.
            prepare_threshold=None,
            **self._options(),  # type: ignore[arg-type]
        )
        limit = int(self._timeout * 1000)
        try:
            with self.patience(raw, self._timeout):
                raw.execute(
                    f"SET statement_timeout = {limit}; SET lock_timeout = {limit};"
                    f"SET idle_in_transaction_session_timeout = '{IDLE_TRANSACTION_S}s';"
                    # What is confirmed is removed from the spool: it must outlive the server.
                    "SELECT set_config('synchronous_commit', 'local', false)"
                    " WHERE current_setting('synchronous_commit') = 'off'"
                )
        except BaseException:
            raw.close()
            raise
        return raw

    def _options(self) -> dict[str, object]:
        """Return options of libpq; those in the URL go before, but for the encoding of names."""
        ours: dict[str, object] = {
            "connect_timeout": max(round(self._timeout), MIN_CONNECT_TIMEOUT_S),
            "target_session_attrs": "read-write",
            "application_name": "looptrap",
            "keepalives_idle": 10,
            "keepalives_interval": 5,
            "keepalives_count": 3,
            "tcp_user_timeout": int((self._timeout + GRACE_S) * 1000),
        }
        given = psycopg.conninfo.conninfo_to_dict(self._url)
        return {name: value for name, value in ours.items() if name not in given} | {
            "client_encoding": "UTF8"
        }

    def _release(self, raw: psycopg.Connection, error: BaseException | None = None) -> None:
        is_lost = raw.closed or isinstance(error, LOST)
        is_clean = raw.pgconn.transaction_status == psycopg.pq.TransactionStatus.IDLE
        if is_lost:
            # The others lead to the same server.
            self.epoch += 1
            self._drop_idle()
        if is_lost or not is_clean or not self._is_open:
            raw.close()
            return
        with self._lock:
            self._idle.append(raw)

    def _drop_idle(self) -> None:
        with self._lock:
            dropped, self._idle = self._idle, []
        for raw in dropped:
            raw.close()

    def _watch(self) -> None:
        while self._is_open or self._deadlines:
            sleep(WATCH_INTERVAL_S)
            now = self._monotonic()
            with self._lock:
                for raw in [one for one, until in self._deadlines.items() if until < now]:
                    self._interrupted.add(raw)
                    _interrupt(raw)


def _has_ended(raw: psycopg.Connection) -> bool:
    """Return whether the server has closed an idle connection, or said that it will."""
    if raw.closed:
        return True
    poll = select.poll()
    poll.register(raw.fileno(), select.POLLIN)
    return bool(poll.poll(0))


def _interrupt(raw: psycopg.Connection) -> None:
    """End what another thread waits for on this connection."""
    with (
        suppress(OSError, psycopg.Error),
        socket.socket(fileno=socket.dup(raw.fileno())) as one,
    ):
        one.shutdown(socket.SHUT_RDWR)
