"""Database: the SQLite file, its connections and transactions; rows and pages."""

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
"""Device and inode: they differ when a file is replaced by one of the same name."""


def make_private_file(path: Path, old_wal: FileIdentity | None) -> None:
    """Create a file that only its owner can read; restrict one that others can read.

    `old_wal` is the write-ahead log of a file that was at this path before.
    """
    sidecars = sidecar_path(path, "-wal"), sidecar_path(path, "-shm")
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)  # several processes may create it at once
        is_missing = not path.exists()
        if is_missing or (old_wal is not None and file_identity(sidecars[0]) == old_wal):
            # They belong to a file that was deleted or replaced, and would corrupt another.
            for sidecar in sidecars:
                sidecar.unlink(missing_ok=True)
        if is_missing:
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    finally:
        os.close(folder)
    # Not with a descriptor: closing one would drop SQLite's locks on the file.
    for one in (path, *sidecars):
        with suppress(OSError):  # not ours to change, or not there
            mode = one.stat().st_mode
            if stat.S_ISREG(mode) and mode & 0o077:
                one.chmod(mode & 0o700)  # a read-only file stays read-only


def sidecar_path(path: Path, ending: str) -> Path:
    """Return the path of a file that SQLite keeps beside another: `-wal`, `-shm`."""
    return path.with_name(path.name + ending)


def file_identity(path: Path) -> FileIdentity | None:
    """Return the identity of a file; None if there is none."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


BUSY_TIMEOUT_S = 5.0
"""Seconds that a statement waits for another process's write."""

CACHE_KIB = 8 << 10
"""Page cache of the writing connection, in KiB."""

CHECKPOINT_PAGES = 4_000
"""Pages in the write-ahead log after which SQLite checkpoints it."""

T = TypeVar("T")

Row = tuple[Any, ...]
Values = Row | dict[str, Any]
"""Values of a statement, by position or by name."""


class Page(NamedTuple, Generic[T]):
    """Some items, and the cursor of the next page; None at the end."""

    items: list[T]
    next_cursor: str | None


NEWEST = 1 << 62
"""Above the number of every row."""


class Database:
    """One connection to write and one to read, each used by one thread at a time.

    Without a path both are the same, in memory.
    """

    def __init__(self, path: str, history_id: str) -> None:
        self.id = history_id
        self._path = Path(path).absolute() if path else None
        self._write_lock = RLock()
        self._read_lock = RLock() if path else self._write_lock
        self._writer: Connection | None = None
        self._reader: Connection | None = None
        self._file: FileIdentity | None = None
        self._wal: FileIdentity | None = None

    def open(self) -> None:
        """Create or migrate the file; raise ConfigError if it cannot be used."""
        try:
            with self._write_lock:
                if self._writer is None:
                    self._connect()
        except (ConfigError, OSError, sqlite3.Error) as error:
            where = self._path or "in memory"
            problem = Problem("history", f"{where}: {describe_error(error)}")
            raise ConfigError([problem]) from None

    def close(self) -> None:
        """Close the file; later reads and writes fail."""
        with self._write_lock, self._read_lock:
            for connection in (self._reader, self._writer):
                if connection is not None:
                    connection.close()
            self._writer = self._reader = self._file = self._wal = None

    @contextmanager
    def write(self) -> Iterator[Connection]:
        """Yield the connection for one transaction: committed, or rolled back on an error."""
        with self._write_lock:
            if self._writer is not None and self._is_replaced():
                self._connect()
            connection = _require_open(self._writer)
            with schema.transaction(connection, "BEGIN IMMEDIATE"):
                yield connection

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """Yield the connection for reads of one snapshot."""
        with self._read_lock:
            connection = _require_open(self._reader)
            with schema.transaction(connection, "BEGIN"):
                yield connection

    def query(self, statement: str, values: Values = ()) -> list[Row]:
        """Return the rows of one statement that reads."""
        with self.read() as connection:
            return connection.execute(statement, values).fetchall()

    def page(self, select: str, limit: int, cursor: str | None, **values: Any) -> Page[Row]:
        """Return a page of rows, whose first column is their number, the highest first.

        `select` has a condition `number < :before`. Raises ValueError for an invalid cursor.
        """
        before = NEWEST if cursor is None else min(int(cursor), NEWEST)
        values |= {"before": before, "limit": limit + 1}
        rows = self.query(f"{select} ORDER BY number DESC LIMIT :limit", values)
        return Page(rows[:limit], str(rows[limit - 1][0]) if len(rows) > limit else None)

    def execute(self, statement: str, values: Values = ()) -> int:
        """Run one statement that writes; return the number of rows it changed."""
        with self.write() as connection:
            return connection.execute(statement, values).rowcount

    def shrink(self, pages: int) -> None:
        """Give empty pages back to the file system."""
        with self._write_lock:
            # Each step frees one page, and only `executescript` runs all steps.
            _require_open(self._writer).executescript(f"PRAGMA incremental_vacuum({pages})")
        self.checkpoint()

    def checkpoint(self) -> None:
        """Checkpoint the write-ahead log as far as readers allow."""
        with self._write_lock:
            _require_open(self._writer).execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()

    def _connect(self) -> None:
        """Open the file, then close the previous connections."""
        if self._path is not None:
            make_private_file(self._path, self._wal)
        writer = reader = self._connection()
        try:
            schema.check(writer)
            _retry_while_busy(lambda: _prepare(writer))
            self.id = _retry_while_busy(lambda: schema.migrate(writer, self.id))
            if self._path is not None:
                reader = self._connection()
        except BaseException:
            writer.close()
            raise
        self.close()
        with self._read_lock:
            self._writer, self._reader = writer, reader
            if self._path is not None:
                self._file = file_identity(self._path)
                self._wal = file_identity(sidecar_path(self._path, "-wal"))

    def _connection(self) -> Connection:
        # Transactions are explicit; our own locks serialise threads.
        return sqlite3.connect(
            ":memory:" if self._path is None else self._path,
            timeout=BUSY_TIMEOUT_S,
            isolation_level=None,
            check_same_thread=False,
        )

    def _is_replaced(self) -> bool:
        """Return whether the file was deleted or replaced: writes would be lost silently."""
        return self._path is not None and file_identity(self._path) != self._file


def _prepare(connection: Connection) -> None:
    """Set the pragmas; the first has to come before the first table."""
    for pragma in (
        "auto_vacuum = INCREMENTAL",
        "journal_mode = WAL",
        "synchronous = NORMAL",
        f"cache_size = -{CACHE_KIB}",
        f"wal_autocheckpoint = {CHECKPOINT_PAGES}",
        f"journal_size_limit = {CHECKPOINT_PAGES * 4096}",
    ):
        connection.execute(f"PRAGMA {pragma}").fetchall()


def _retry_while_busy(do: Callable[[], T]) -> T:
    """Retry what SQLite itself does not retry while another process writes."""
    until = time.monotonic() + BUSY_TIMEOUT_S
    while True:
        try:
            return do()
        except sqlite3.OperationalError as error:
            if not is_busy(error) or time.monotonic() > until:
                raise
            time.sleep(0.01)


def is_busy(error: sqlite3.Error) -> bool:
    """Return whether another process has locked the file."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    return code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


def _require_open(connection: Connection | None) -> Connection:
    if connection is None:
        raise sqlite3.ProgrammingError("the history is closed")
    return connection


def describe_error(error: ConfigError | OSError | sqlite3.Error) -> str:
    """Describe why a file cannot be used."""
    if isinstance(error, ConfigError):
        return str(error)
    if isinstance(error, OSError):
        return f"cannot be used: {os_reason(error)}"
    match getattr(error, "sqlite_errorcode", 0) & 0xFF:
        case sqlite3.SQLITE_NOTADB:
            return "is not a SQLite database"
        case sqlite3.SQLITE_CORRUPT:
            return "is damaged: move it away, and a new one is made"
        case sqlite3.SQLITE_READONLY:
            return "cannot be written: permission denied"
        case _:
            return f"cannot be used: {error}"


def os_reason(error: OSError) -> str:
    """Return the reason that the system gives, for the middle of a sentence."""
    return (error.strerror or str(error)).lower()


STATEMENT_SIZES = (64, 8, 1)
"""Rows per statement: few sizes, so that prepared statements are reused.

Row by row, each statement would release and retake the interpreter lock, which costs both threads
more than the row does.
"""


def insert_rows(
    connection: Connection, into: str, rows: Sequence[tuple[Any, ...]], suffix: str = ""
) -> None:
    """Insert rows, in their order; `into` ends with VALUES."""
    done = 0
    for size in STATEMENT_SIZES:
        while len(rows) - done >= size:
            some = rows[done : done + size]
            placeholders = "(" + ",".join("?" * len(some[0])) + ")"
            statement = into + ",".join([placeholders] * size) + suffix
            connection.execute(statement, list(chain.from_iterable(some)))
            done += size


def encode_struct(encode: Callable[[T], bytes], value: T) -> tuple[T, bytes]:
    """Encode a struct; return it as it was encoded, without lone surrogates."""
    try:
        return value, encode(value)
    except UnicodeEncodeError:  # a client may send half of a surrogate pair
        value = struct_without_surrogates(value)
        return value, encode(value)


def struct_without_surrogates(value: T) -> T:
    """Return a copy with a question mark for each lone surrogate."""
    builtins = msgspec.to_builtins(value, builtin_types=(bytes,))
    return msgspec.convert(without_surrogates(builtins), type(value))


def without_surrogates(value: Any) -> Any:
    """Return text with a question mark for each lone surrogate; also inside lists and dicts."""
    if isinstance(value, str):
        return value if value.isascii() else value.encode("utf-8", "replace").decode()
    if isinstance(value, dict):
        return {without_surrogates(name): without_surrogates(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [without_surrogates(one) for one in value]
    return value
