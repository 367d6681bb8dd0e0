"""The database: one thread at a time writes it, several processes may; rows and pages of it."""

from __future__ import annotations

import fcntl
import os
import sqlite3
import stat
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import chain
from pathlib import Path
from sqlite3 import Connection
from threading import RLock
from typing import Any, Generic, NamedTuple, TypeVar

import msgspec

from looptrap.database import schema
from looptrap.errors import ConfigError, Problem

FileIdentity = tuple[int, int]
"""Device and inode: what tells a file from another of the same name."""


def make_private_file(path: Path, old_log: FileIdentity | None) -> None:
    """Make an empty file that is never open to others; close to them one that is.

    `old_log` is the write-ahead log of a file that was at this path before.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)  # several processes may find it missing
        is_missing = not path.exists()
        if is_missing or (
            old_log is not None and file_identity(sidecar_path(path, "-wal")) == old_log
        ):
            # Of a file that was deleted or replaced: to any other they are poison.
            for left_over in (sidecar_path(path, "-wal"), sidecar_path(path, "-shm")):
                left_over.unlink(missing_ok=True)
        if is_missing:
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    finally:
        os.close(folder)
    # Not by opening them: to close a file drops the locks that SQLite has on it.
    for one in (path, sidecar_path(path, "-wal"), sidecar_path(path, "-shm")):
        with suppress(OSError):  # not ours to change, or not there
            mode = one.stat().st_mode
            if stat.S_ISREG(mode) and mode & 0o077:
                one.chmod(mode & 0o700)  # what is read-only on purpose stays so


def sidecar_path(path: Path, ending: str) -> Path:
    """Return the path of what SQLite keeps beside a file: `-wal`, `-shm`."""
    return path.with_name(path.name + ending)


def file_identity(path: Path) -> FileIdentity | None:
    """Return which file that is; None where there is none."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


BUSY_TIMEOUT_S = 5.0
"""Seconds that a statement waits for another process that is writing."""

CACHE_KIB = 8 << 10
"""KiB of pages that the writing connection keeps at hand."""

CHECKPOINT_PAGES = 4_000
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
        self._file: FileIdentity | None = None
        self._log: FileIdentity | None = None

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
            make_private_file(self._path, self._log)
        writing = reading = self._connection()
        try:
            schema.check(writing)
            _retry_while_busy(lambda: _prepare(writing))
            self.id = _retry_while_busy(lambda: schema.migrate(writing, self.id))
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
                    file_identity(self._path),
                    file_identity(sidecar_path(self._path, "-wal")),
                )

    def _connection(self) -> Connection:
        # Statements begin and end transactions themselves; locks of ours keep threads apart.
        return sqlite3.connect(
            ":memory:" if self._path is None else self._path,
            timeout=BUSY_TIMEOUT_S,
            isolation_level=None,
            check_same_thread=False,
        )

    def _is_gone(self) -> bool:
        """Say whether the file was deleted or replaced: what is written would be lost unseen."""
        return self._path is not None and file_identity(self._path) != self._file

    def _unusable(self, why: str) -> ConfigError:
        where = self._path or "in memory"
        return ConfigError([Problem("history", f"{where}: {why}")])


def _prepare(connection: Connection) -> None:
    """Say how the file is written; the first of these has to come before the first table."""
    connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
    connection.execute("PRAGMA journal_mode = WAL").fetchall()
    connection.execute("PRAGMA synchronous = NORMAL")
    connection.execute(f"PRAGMA cache_size = -{CACHE_KIB}")
    connection.execute(f"PRAGMA wal_autocheckpoint = {CHECKPOINT_PAGES}")
    connection.execute(f"PRAGMA journal_size_limit = {CHECKPOINT_PAGES * 4096}")


def _retry_while_busy(do: Callable[[], T]) -> T:
    """Do something for which SQLite itself does not wait until another process is done."""
    until = time.monotonic() + BUSY_TIMEOUT_S
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


class Page(NamedTuple, Generic[T]):
    """Some items, and the cursor that leads to the next ones; None where there are no more."""

    items: list[T]
    next_cursor: str | None


Row = tuple[Any, ...]

STATEMENT_SIZES = (64, 8, 1)
"""Rows of one statement: few sizes, so that SQLite has met each of them before.

Row by row, every single one would hand the interpreter over and wait to get it back, which costs
both threads more than the row does.
"""


def insert_rows(
    connection: Connection, into: str, rows: Sequence[tuple[Any, ...]], end: str = ""
) -> None:
    """Insert rows, in their order; `into` ends with VALUES."""
    done = 0
    for size in STATEMENT_SIZES:
        while len(rows) - done >= size:
            some = rows[done : done + size]
            places = "(" + ",".join("?" * len(some[0])) + ")"
            statement = into + ",".join([places] * size) + end
            connection.execute(statement, list(chain.from_iterable(some)))
            done += size


def struct_without_surrogates(value: T) -> T:
    """Return the same with a question mark for every half of a character."""
    plain = msgspec.to_builtins(value, builtin_types=(bytes,))
    return msgspec.convert(without_surrogates(plain), type(value))


def without_surrogates(value: Any) -> Any:
    """Return a text, or all texts of a list or table, likewise."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, dict):
        return {without_surrogates(name): without_surrogates(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [without_surrogates(one) for one in value]
    return value
