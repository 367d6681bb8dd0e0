"""Backups: a consistent copy of a history, made while gateways write to it."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from secrets import token_hex
from typing import NamedTuple

from looptrap.database import sqlite_schema as schema
from looptrap.database.sqlite import (
    BUSY_TIMEOUT_S,
    describe_error,
    is_busy,
    os_reason,
    sidecar_path,
)
from looptrap.errors import ConfigError, Problem

WRITE_ERRORS = (
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_IOERR_WRITE,
    sqlite3.SQLITE_IOERR_FSYNC,
    sqlite3.SQLITE_IOERR_TRUNCATE,
)
"""SQLite errors of a full or failing disk: they concern the copy, not the history."""

LOCKED = f"has been locked by another process for {BUSY_TIMEOUT_S:g} seconds"


class Backup(NamedTuple):
    """The contents of a backup."""

    incidents: int
    alerts: int
    size: int
    """In bytes."""


def back_up(source: Path, target: Path, *, replace: bool = False) -> Backup:
    """Copy the history at `source` to one file at `target`, and check the copy.

    The copy holds everything that was committed when it began. It appears at `target` only when it
    is complete, and only its owner can read it. Raises ConfigError, which names the file.
    """
    _check_paths(source, target, replace)
    partial = target.with_name(f".{target.name}.{token_hex(4)}.partial")
    try:
        os.close(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        _copy(source, partial, target)
        found = _verify(partial, target)
        partial.replace(target)
        _sync(target.parent)
    except OSError as error:
        raise _problem(target, f"cannot be written: {os_reason(error)}") from None
    finally:
        for one in (partial, sidecar_path(partial, "-journal")):
            with suppress(OSError):
                one.unlink()
    return found


def _check_paths(source: Path, target: Path, replace: bool) -> None:
    try:
        if not source.is_file():
            raise _problem(source, "is not a file" if source.exists() else "does not exist")
        if target.exists() and target.samefile(source):
            raise _problem(target, "is the history itself")
        if target.exists() and not target.is_file():
            raise _problem(target, "is not a file")
        if target.exists() and not replace:
            raise _problem(target, "exists already; --force replaces it")
        if sidecar_path(target, "-wal").exists():
            # SQLite would apply that log to the copy.
            raise _problem(target, f"is a database in use: {target.name}-wal is beside it")
    except OSError as error:
        raise _problem(target, os_reason(error)) from None


def _copy(source: Path, partial: Path, target: Path) -> None:
    try:
        with (
            closing(_connection(source, "ro")) as reading,
            closing(_connection(partial, "rw")) as writing,
        ):
            schema.check(reading)
            # One snapshot for all pages: a copy in steps starts again at every write.
            reading.execute("BEGIN")
            if not reading.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
                raise ConfigError("is empty: it holds no history")
            reading.backup(writing, progress=_lock_timeout())
            # One file without a log beside it, so that a plain copy of it is complete.
            writing.execute("PRAGMA journal_mode = DELETE").fetchall()
    except (ConfigError, sqlite3.Error) as error:
        if getattr(error, "sqlite_errorcode", 0) in WRITE_ERRORS:
            raise _problem(target, f"cannot be written: {error}") from None
        is_locked = isinstance(error, sqlite3.Error) and is_busy(error)
        raise _problem(source, LOCKED if is_locked else describe_error(error)) from None


def _verify(partial: Path, target: Path) -> Backup:
    """Check the whole copy; raise ConfigError if it is damaged."""
    try:
        with closing(_connection(partial, "ro")) as copy:
            [(result,)] = copy.execute("PRAGMA integrity_check(1)").fetchall()
            if result != "ok":
                raise _problem(target, f"the copy is damaged: {result}")
            [(incidents,)] = copy.execute("SELECT count(DISTINCT id) FROM part").fetchall()
            [(alerts,)] = copy.execute("SELECT count(*) FROM letter").fetchall()
    except sqlite3.Error as error:
        raise _problem(target, f"the copy is damaged: {error}") from None
    _sync(partial)
    return Backup(incidents, alerts, partial.stat().st_size)


def _connection(path: Path, mode: str) -> sqlite3.Connection:
    address = f"{path.absolute().as_uri()}?mode={mode}"
    return sqlite3.connect(address, uri=True, timeout=BUSY_TIMEOUT_S, isolation_level=None)


def _lock_timeout() -> Callable[[int, int, int], object]:
    """Return a callback that ends a copy waiting for a lock: SQLite would wait for ever."""
    until = time.monotonic() + BUSY_TIMEOUT_S

    def check(status: int, _remaining: int, _total: int) -> None:
        is_locked = status in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
        if is_locked and time.monotonic() > until:
            raise ConfigError(LOCKED)

    return check


def _sync(path: Path) -> None:
    opened = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def _problem(path: Path, message: str) -> ConfigError:
    return ConfigError([Problem(str(path), message)])
