"""AuditLog: who changed what while the gateway ran, with the values before and after."""

from __future__ import annotations

from collections.abc import Callable
from sqlite3 import Connection
from typing import Any

import msgspec

from looptrap.database.database import Database, Page, without_surrogates

MAX_ENTRIES = 100_000

MAX_VALUE_BYTES = 20_000
"""Encoded size of a value; of a larger one only the size is stored."""

NEWEST_ENTRY = 1 << 62
"""Above the number of every entry."""

_COLUMNS = "number, time, by, source, what, target, before, after"


class AuditEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One change by an operator."""

    number: int
    time: float
    by: str
    source: str
    """The address it came from."""
    what: str
    """`project.put`, `release`, …"""
    target: str
    before: Any = None
    after: Any = None


class AuditLog:
    """Stores changes; it waits for the disk: call it from a thread."""

    def __init__(self, database: Database, clock: Callable[[], float]) -> None:
        self._database = database
        self._clock = clock

    def add(
        self, what: str, target: str, *, by: str, source: str, before: Any = None, after: Any = None
    ) -> None:
        """Store a change."""
        row = (
            self._clock(),
            by,
            source,
            what,
            without_surrogates(target),
            _encode_value(before),
            _encode_value(after),
        )
        with self._database.write() as connection:
            connection.execute(
                "INSERT INTO audit (time, by, source, what, target, before, after)"
                " VALUES (?, ?, ?, ?, ?, ?, ?)",
                row,
            )

    def entries(self, limit: int = 50, cursor: str | None = None) -> Page[AuditEntry]:
        """Return a page of changes, the latest first; raise ValueError for an invalid cursor."""
        before = min(int(cursor), NEWEST_ENTRY) if cursor is not None else NEWEST_ENTRY
        with self._database.read() as connection:
            rows = connection.execute(
                f"SELECT {_COLUMNS} FROM audit WHERE number < ? ORDER BY number DESC LIMIT ?",
                (before, limit + 1),
            ).fetchall()
        found = [_entry(*row) for row in rows[:limit]]
        return Page(found, str(rows[limit - 1][0]) if len(rows) > limit else None)

    def since(self, number: int, limit: int = 100) -> list[AuditEntry]:
        """Return the changes after a number, in order."""
        with self._database.read() as connection:
            rows = connection.execute(
                f"SELECT {_COLUMNS} FROM audit WHERE number > ? ORDER BY number LIMIT ?",
                (number, limit),
            ).fetchall()
        return [_entry(*row) for row in rows]

    def last(self) -> int:
        """Return the number of the latest change."""
        with self._database.read() as connection:
            (number,) = connection.execute("SELECT max(number) FROM audit").fetchone()
        return int(number or 0)


def drop_entries(connection: Connection, before: float, limit: int) -> int:
    """Drop expired entries and the surplus above MAX_ENTRIES; return how many."""
    (first, last) = connection.execute("SELECT min(number), max(number) FROM audit").fetchone()
    if first is None:
        return 0
    surplus = min(max(last - first + 1 - MAX_ENTRIES, 0), limit)
    return connection.execute(
        "DELETE FROM audit WHERE number IN (SELECT number FROM"
        " (SELECT number, time FROM audit ORDER BY number LIMIT ?) WHERE time < ? OR number < ?)",
        (limit, before, first + surplus),
    ).rowcount


def _entry(
    number: int, time: float, by: str, source: str, what: str, target: str, before: Any, after: Any
) -> AuditEntry:
    return AuditEntry(
        number=number, time=time, by=by, source=source, what=what, target=target,
        before=_decode_value(before), after=_decode_value(after),
    )  # fmt: skip


def _encode_value(value: Any) -> bytes | None:
    if value is None:
        return None
    text = msgspec.json.encode(without_surrogates(value))
    return (
        text if len(text) <= MAX_VALUE_BYTES else msgspec.json.encode({"left_out_bytes": len(text)})
    )


def _decode_value(text: bytes | None) -> Any:
    return None if text is None else msgspec.json.decode(text)
