"""The database of a history: one thread at a time writes it, and several processes may."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from sqlite3 import Connection
from threading import RLock
from typing import TypeVar

from looptrap.errors import ConfigError, Problem
from looptrap.incident.history import schema
from looptrap.incident.history.file import Identity, beside, identity, make

PATIENCE = 5.0
"""Seconds that a statement waits for another process that is writing."""

CACHE = 8 << 10
"""KiB of pages that the writing connection keeps at hand."""

CHECKPOINT = 4_000
"""Pages in the write-ahead log after which it is worked into the file."""

T = TypeVar("T")


class Database:
    """One connection to write and one to read, each used by one thread at a time.

    Without a path both are the same, and what is kept ends with the process.
    """

    def __init__(self, path: str, history_id: str) -> None:
        self.id = history_id
        self._path = Path(path).absolute() if path else None
        self._write_lock = RLock()
        self._read_lock = RLock() if path else self._write_lock
        self._writing: Connection | None = None
        self._reading: Connection | None = None
        self._file: Identity | None = None
        self._log: Identity | None = None

    def open(self) -> None:
        """Make or migrate the file; raise ConfigError where it cannot be used."""
        try:
            with self._write_lock:
                if self._writing is None:
                    self._connect()
        except ConfigError as error:
            raise self._unusable(str(error)) from None
        except OSError as error:
            raise self._unusable(
                f"cannot be used: {(error.strerror or str(error)).lower()}"
            ) from None
        except sqlite3.Error as error:
            raise self._unusable(why(error)) from None

    def close(self) -> None:
        """Close the file; what is asked of it from now on is refused."""
        with self._write_lock, self._read_lock:
            for connection in (self._reading, self._writing):
                if connection is not None:
                    connection.close()
            self._writing = self._reading = self._file = self._log = None

    @contextmanager
    def write(self) -> Iterator[Connection]:
        """Give the connection for one transaction: committed at the end, taken back on an error."""
        with self._write_lock:
            if self._writing is not None and self._is_gone():
                self._connect()
            connection = _opened(self._writing)
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
                connection.execute("COMMIT")
            except BaseException:
                # After some errors, such as a full disk, SQLite has done so itself.
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """Give the connection for reads of one and the same state."""
        with self._read_lock:
            connection = _opened(self._reading)
            connection.execute("BEGIN")
            try:
                yield connection
            finally:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")

    def shrink(self, pages: int) -> None:
        """Give empty pages back to the file system."""
        with self._write_lock:
            # Each step frees one page, and only a script is stepped to its end.
            _opened(self._writing).executescript(f"PRAGMA incremental_vacuum({pages})")
        self.checkpoint()

    def checkpoint(self) -> None:
        """Work the write-ahead log into the file, as far as nobody is in the way."""
        with self._write_lock:
            _opened(self._writing).execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()

    def _connect(self) -> None:
        """Open the file; only then is what was open before closed."""
        if self._path is not None:
            make(self._path, self._log)
        writing = reading = self._connection()
        try:
            schema.check(writing)
            _patiently(lambda: _prepare(writing))
            self.id = _patiently(lambda: schema.migrate(writing, self.id))
            if self._path is not None:
                reading = self._connection()
        except BaseException:
            writing.close()
            raise
        self.close()
        with self._read_lock:
            self._writing, self._reading = writing, reading
            if self._path is not None:
                self._file, self._log = (
                    identity(self._path),
                    identity(beside(self._path, "-wal")),
                )

    def _connection(self) -> Connection:
        # Statements begin and end transactions themselves; locks of ours keep threads apart.
        return sqlite3.connect(
            ":memory:" if self._path is None else self._path,
            timeout=PATIENCE,
            isolation_level=None,
            check_same_thread=False,
        )

    def _is_gone(self) -> bool:
        """Say whether the file was deleted or replaced: what is written would be lost unseen."""
        return self._path is not None and identity(self._path) != self._file

    def _unusable(self, why: str) -> ConfigError:
        where = self._path or "in memory"
        return ConfigError([Problem("history", f"{where}: {why}")])


def _prepare(connection: Connection) -> None:
    """Say how the file is written; the first of these has to come before the first table."""
    connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
    connection.execute("PRAGMA journal_mode = WAL").fetchall()
    connection.execute("PRAGMA synchronous = NORMAL")
    connection.execute(f"PRAGMA cache_size = -{CACHE}")
    connection.execute(f"PRAGMA wal_autocheckpoint = {CHECKPOINT}")
    connection.execute(f"PRAGMA journal_size_limit = {CHECKPOINT * 4096}")


def _patiently(do: Callable[[], T]) -> T:
    """Do something for which SQLite itself does not wait until another process is done."""
    until = time.monotonic() + PATIENCE
    while True:
        try:
            return do()
        except sqlite3.OperationalError as error:
            is_busy = error.sqlite_errorcode & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
            if not is_busy or time.monotonic() > until:
                raise
            time.sleep(0.01)


def _opened(connection: Connection | None) -> Connection:
    if connection is None:
        raise sqlite3.ProgrammingError("the history is closed")
    return connection


def why(error: sqlite3.Error) -> str:
    """Say why SQLite cannot use a file."""
    match getattr(error, "sqlite_errorcode", 0) & 0xFF:
        case sqlite3.SQLITE_NOTADB:
            return "is no SQLite database"
        case sqlite3.SQLITE_CORRUPT:
            return "is damaged: move it away, and a new one is made"
        case sqlite3.SQLITE_READONLY:
            return "cannot be written: permission denied"
        case _:
            return f"cannot be used: {error}"
