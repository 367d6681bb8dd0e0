"""SqliteDatabase: a file, its connections and transactions."""

from __future__ import annotations

import fcntl
import json
import os
import sqlite3
import stat
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import chain
from pathlib import Path
from threading import RLock
from typing import Any, TypeVar

from looptrap.database import sqlite_schema as schema
from looptrap.database.database import (
    Connection,
    Database,
    Result,
    Row,
    Values,
    each_value,
    sqlite_statement,
)
from looptrap.database.sqlite_schema import pragma
from looptrap.errors import ConfigError, DatabaseError, Problem

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

STATEMENT_SIZES = (64, 8, 1)
"""Rows per statement: few sizes, so that prepared statements are reused.

Row by row, each statement would release and retake the interpreter lock, which costs both threads
more than the row does.
"""

MAX_PAGES_FREED = 250
"""Empty pages given back at a time …"""

MIN_SPARE_PAGES, SPARE_DIVISOR = 64, 20
"""… but for these, or a twentieth of the file: they are soon filled again."""


class SqliteConnection(Connection):
    """A transaction; while one writes, no other does."""

    def __init__(self, raw: sqlite3.Connection) -> None:
        self._raw = raw

    def execute(self, statement: str, values: Values = ()) -> Result:
        return self._raw.execute(sqlite_statement(statement), each_value(_with_json, values))

    def insert(
        self, table: str, columns: Sequence[str], rows: Sequence[Row], on_conflict: str = ""
    ) -> None:
        self._insert("INSERT", table, columns, rows, on_conflict)

    def replace(
        self,
        table: str,
        columns: Sequence[str],
        key: Sequence[str],  # noqa: ARG002 - it knows the unique indexes
        rows: Sequence[Row],
    ) -> None:
        self._insert("INSERT OR REPLACE", table, columns, rows, "")

    def size(self) -> int:
        used = pragma(self._raw, "page_count") - pragma(self._raw, "freelist_count")
        return used * pragma(self._raw, "page_size")

    def _insert(
        self, verb: str, table: str, columns: Sequence[str], rows: Sequence[Row], on_conflict: str
    ) -> None:
        names = ", ".join(f'"{name}"' for name in columns)
        into, suffix = f"{verb} INTO {table} ({names}) VALUES ", sqlite_statement(on_conflict)
        placeholders = "(" + ",".join("?" * len(columns)) + ")"
        done = 0
        for size in STATEMENT_SIZES:
            while len(rows) - done >= size:
                some = rows[done : done + size]
                statement = f"{into}{','.join([placeholders] * size)} {suffix}"
                self._raw.execute(statement, list(chain.from_iterable(some)))
                done += size


def _with_json(value: Any) -> Any:
    """Return a list as JSON, another value as it is."""
    return json.dumps(value) if isinstance(value, list) else value


class SqliteDatabase(Database):
    """One connection to write and one to read, each used by one thread at a time.

    Without a path both are the same, in memory.
    """

    def __init__(self, path: str, history_id: str) -> None:
        self.id = history_id
        self._path = Path(path).absolute() if path else None
        self._write_lock = RLock()
        self._read_lock = RLock() if path else self._write_lock
        self._writer: sqlite3.Connection | None = None
        self._reader: sqlite3.Connection | None = None
        self._file: FileIdentity | None = None
        self._wal: FileIdentity | None = None

    def open(self) -> None:
        try:
            with self._write_lock:
                if self._writer is None:
                    self._connect()
        except (ConfigError, OSError, sqlite3.Error) as error:
            where = self._path or "in memory"
            problem = Problem("history", f"{where}: {describe_error(error)}")
            raise ConfigError([problem]) from None

    def close(self) -> None:
        with self._write_lock, self._read_lock:
            for connection in (self._reader, self._writer):
                if connection is not None:
                    connection.close()
            self._writer = self._reader = self._file = self._wal = None

    @contextmanager
    def write(self) -> Iterator[Connection]:
        """Yield the connection for one transaction: committed, or rolled back on an error."""
        with self._write_lock, database_errors():
            if self._writer is not None and self._is_replaced():
                self._connect()
            connection = _require_open(self._writer)
            with schema.transaction(connection, "BEGIN IMMEDIATE"):
                yield SqliteConnection(connection)

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """Yield the connection for reads of one snapshot."""
        with self._read_lock, database_errors():
            connection = _require_open(self._reader)
            with schema.transaction(connection, "BEGIN"):
                yield SqliteConnection(connection)

    def shrink(self, max_size: int) -> bool:
        """Give empty pages back to the file system; return whether there are more."""
        with self._write_lock:
            surplus = _surplus_pages(_require_open(self._writer), max_size)
            if surplus:
                pages = min(surplus, MAX_PAGES_FREED)
                # Each step frees one page, and only `executescript` runs all steps.
                _require_open(self._writer).executescript(f"PRAGMA incremental_vacuum({pages})")
        if surplus:
            self.checkpoint()
        return surplus > MAX_PAGES_FREED

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

    def _connection(self) -> sqlite3.Connection:
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


def _surplus_pages(connection: sqlite3.Connection, max_size: int) -> int:
    """Return how many empty pages to give back, so that the file shrinks."""
    pages, free = pragma(connection, "page_count"), pragma(connection, "freelist_count")
    is_full = pages * pragma(connection, "page_size") > max_size
    return max(free - (0 if is_full else max(MIN_SPARE_PAGES, pages // SPARE_DIVISOR)), 0)


@contextmanager
def database_errors() -> Iterator[None]:
    """Raise errors of SQLite as DatabaseError."""
    try:
        yield
    except sqlite3.Error as error:
        raise DatabaseError(str(error)) from error


def _prepare(connection: sqlite3.Connection) -> None:
    """Set the pragmas; the first has to come before the first table."""
    for one in (
        "auto_vacuum = INCREMENTAL",
        "journal_mode = WAL",
        "synchronous = NORMAL",
        f"cache_size = -{CACHE_KIB}",
        f"wal_autocheckpoint = {CHECKPOINT_PAGES}",
        f"journal_size_limit = {CHECKPOINT_PAGES * 4096}",
    ):
        connection.execute(f"PRAGMA {one}").fetchall()


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


def _require_open(connection: sqlite3.Connection | None) -> sqlite3.Connection:
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
