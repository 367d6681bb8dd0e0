"""AuditLog: who changed what while the gateway ran, with the values before and after."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from looptrap.database.database import Connection, Database, Page, Row, without_surrogates
from looptrap.errors import DatabaseError

MAX_ENTRIES = 100_000

MAX_VALUE_BYTES = 20_000
"""Encoded size of a value; of a larger one only the size is stored."""


class AuditEntry(msgspec.Struct, frozen=True):
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


_COLUMNS = ", ".join(AuditEntry.__struct_fields__)
WRITTEN_ENTRY_COLUMNS = AuditEntry.__struct_fields__[1:]


class AuditLog:
    """Stores changes; it waits for the disk: call it from a thread."""

    def __init__(
        self,
        database: Database,
        clock: Callable[[], float],
        postpone: Callable[[Row], bool] = lambda _row: False,
    ) -> None:
        """`postpone` keeps a change that cannot be stored now, and says whether it does."""
        self._database = database
        self._postpone = postpone
        self._clock = clock

    def add(
        self, what: str, target: str, *, by: str, source: str, before: Any = None, after: Any = None
    ) -> None:
        """Store a change."""
        change = (self._clock(), by, source, what, without_surrogates(target))
        row = (*change, _encode_value(before), _encode_value(after))
        try:
            with self._database.write() as connection:
                put_entries(connection, [row])
        except DatabaseError:
            if not self._postpone(row):
                raise

    def entries(self, limit: int = 50, cursor: str | None = None) -> Page[AuditEntry]:
        """Return a page of changes, the latest first; raise ValueError for an invalid cursor."""
        select = f"SELECT {_COLUMNS} FROM audit WHERE number < :before"
        page = self._database.page(select, limit, cursor)
        return Page([_entry(*row) for row in page.items], page.next_cursor)

    def since(self, number: int, limit: int = 100) -> list[AuditEntry]:
        """Return the changes after a number, in order."""
        settled = self._database.settled("audit")
        rows = self._database.query(
            f"SELECT {_COLUMNS} FROM audit WHERE number > ? AND number <= ?"
            " ORDER BY number LIMIT ?",
            (number, settled, limit),
        )
        return [_entry(*row) for row in rows]

    def last(self) -> int:
        """Return the number of the latest change."""
        settled = self._database.settled("audit")
        [(number,)] = self._database.query(
            "SELECT max(number) FROM audit WHERE number <= ?", (settled,)
        )
        return int(number or 0)


def put_entries(connection: Connection, rows: Sequence[Row]) -> None:
    """Write rows."""
    connection.insert("audit", WRITTEN_ENTRY_COLUMNS, rows)


def drop_entries(connection: Connection, before: float, limit: int) -> int:
    """Drop expired entries and the surplus above MAX_ENTRIES; return how many."""
    (first, last) = connection.execute("SELECT min(number), max(number) FROM audit").fetchone()
    if first is None:
        return 0
    surplus = min(max(last - first + 1 - MAX_ENTRIES, 0), limit)
    return connection.execute(
        "DELETE FROM audit WHERE number IN (SELECT number FROM"
        " (SELECT number, time FROM audit ORDER BY number LIMIT ?) oldest"
        " WHERE time < ? OR number < ?)",
        (limit, before, first + surplus),
    ).rowcount


def _entry(*row: Any) -> AuditEntry:
    return AuditEntry(*row[:-2], *map(_decode_value, row[-2:]))


def _encode_value(value: Any) -> bytes | None:
    if value is None:
        return None
    text = msgspec.json.encode(without_surrogates(value))
    is_small = len(text) <= MAX_VALUE_BYTES
    return text if is_small else msgspec.json.encode({"left_out_bytes": len(text)})


def _decode_value(text: bytes | None) -> Any:
    return None if text is None else msgspec.json.decode(text)
