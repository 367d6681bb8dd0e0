"""Moves a history from a SQLite file into PostgreSQL, in batches; an interrupted move goes on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from looptrap.database.database import Connection, Database, Row
from looptrap.database.place import database_at, shown_place
from looptrap.errors import ConfigError, DatabaseError, Problem
from looptrap.incident.history.audit import WRITTEN_ENTRY_COLUMNS
from looptrap.incident.history.batch import ANNOTATION_COLUMNS, StorableBatch
from looptrap.incident.history.incident_table import PART_COLUMNS
from looptrap.usage.breach import Breach
from looptrap.usage.call_log import CallRow
from looptrap.usage.table import SESSION_COLUMNS, SPENDING_COLUMNS

MOVED_AT_A_TIME = 2_000
"""Rows copied in one transaction."""

MOVE_TIMEOUT_S = 60.0
"""Seconds for each statement."""


class MovedTable(NamedTuple):
    """A table, the order in which its rows are copied, and how they are written."""

    name: str
    columns: Sequence[str]
    key: Sequence[str]
    kind: str = ""
    """The rows of a batch as which they are written; without it, each that is not there yet."""
    cost: str = ""
    """The column with amounts, where there is one."""

    def put(self, connection: Connection, rows: Sequence[Row]) -> None:
        """Write rows."""
        if self.kind:
            batch = StorableBatch()
            setattr(batch, self.kind, rows)
            batch.put(connection)
        else:
            connection.insert(self.name, self.columns, rows, "ON CONFLICT DO NOTHING")


_LETTER = (
    "event", "channel", "state", "created", "due", "attempts", "ended", "last_error", "body",
)  # fmt: skip

TABLES = (
    MovedTable("part", PART_COLUMNS, ("change",), "parts"),
    MovedTable("remark", ANNOTATION_COLUMNS, ("id",)),
    MovedTable("letter", _LETTER, ("number",)),
    MovedTable("audit", WRITTEN_ENTRY_COLUMNS, ("number",), "audit"),
    MovedTable("spending", SPENDING_COLUMNS, SPENDING_COLUMNS[:6], "spending", "cost"),
    MovedTable("session", SESSION_COLUMNS, SESSION_COLUMNS[:3], "sessions", "cost"),
    MovedTable("breach", Breach.__struct_fields__, ("id",), "breaches"),
    MovedTable("call_log", CallRow._fields, ("number",), "calls", "cost"),
)


class TableSums(msgspec.Struct):
    """How many rows of a table there are, and what they cost in nano-dollars."""

    rows: int = 0
    cost: int = 0


class MoveState(msgspec.Struct):
    """How far a move has come: stored with each batch, so that none is copied twice."""

    table: str = TABLES[0].name
    after: tuple[str | int | float, ...] = ()
    """The key of the last row copied of that table."""
    sums: dict[str, TableSums] = {}
    is_done: bool = False


def move_history(source: Path, url: str, report: Callable[[str, TableSums], None]) -> None:
    """Copy everything; report each table once its rows and costs are checked.

    Raises ConfigError if that cannot be done, or if what was copied is not what is there.
    """
    if not source.is_file():
        raise _problem(source, "is not a file" if source.exists() else "does not exist")
    here, there = database_at(str(source), ""), database_at(url, "", timeout=MOVE_TIMEOUT_S)
    try:
        here.open()
        there.open()
        _Move(here, there, source, shown_place(url)).run(report)
    except DatabaseError as error:
        message = f"the move stopped, and goes on when it is started again: {error}"
        raise ConfigError([Problem(shown_place(url), message)]) from None
    finally:
        here.close()
        there.close()


class _Move:
    def __init__(self, here: Database, there: Database, source: Path, place: str) -> None:
        self._here = here
        self._there = there
        self._source = source
        self._place = place
        self._name = f"move.{here.id}"

    def run(self, report: Callable[[str, TableSums], None]) -> None:
        """Copy table after table, and check each."""
        state = self._state()
        names = [one.name for one in TABLES]
        with self._here.read() as reading:
            for moved in TABLES:
                if names.index(moved.name) >= names.index(state.table):
                    self._copy(reading, moved, state)
                sums = state.sums.get(moved.name, TableSums())
                if sums != _sums(reading, moved):
                    raise _problem(
                        self._source,
                        f"{moved.name} has changed since the move began: stop the gateway that"
                        " writes it, and move into an empty database",
                    )
                report(moved.name, sums)
        state.is_done = True
        with self._there.write() as writing:
            self._store(writing, state)

    def _state(self) -> MoveState:
        """Return how far an earlier move has come; raise ConfigError where none may begin."""
        rows = self._there.query("SELECT value FROM meta WHERE name = ?", (self._name,))
        if rows:
            state = msgspec.json.decode(rows[0][0], type=MoveState)
            if state.is_done:
                raise ConfigError([Problem(self._place, f"{self._source} was moved here already")])
            return state
        prefix = f"{self._here.id}."
        found = self._there.query(
            "SELECT 1 WHERE EXISTS (SELECT 1 FROM spending WHERE instance = ?)"
            " OR EXISTS (SELECT 1 FROM part WHERE instance >= ? AND instance < ?)",
            (self._here.id, prefix, prefix[:-1] + "/"),
        )
        if found or self._here.id == self._there.id:
            message = f"has rows of {self._source} already, which no move has put there"
            raise ConfigError([Problem(self._place, message)])
        return MoveState()

    def _copy(self, reading: Connection, moved: MovedTable, state: MoveState) -> None:
        if state.table != moved.name:
            state.table, state.after = moved.name, ()
        width = len(moved.columns)
        sums = state.sums.setdefault(moved.name, TableSums())
        while rows := _rows_after(reading, moved, state.after):
            with self._there.write() as writing:
                moved.put(writing, [row[:width] for row in rows])
                state.after = tuple(rows[-1][width:])
                sums.rows += len(rows)
                if moved.cost:
                    place = moved.columns.index(moved.cost)
                    sums.cost += sum(row[place] or 0 for row in rows)
                self._store(writing, state)

    def _store(self, writing: Connection, state: MoveState) -> None:
        writing.execute(
            "INSERT INTO meta (name, value) VALUES (?, ?)"
            " ON CONFLICT (name) DO UPDATE SET value = excluded.value",
            (self._name, msgspec.json.encode(state).decode()),
        )


def _rows_after(reading: Connection, moved: MovedTable, after: Sequence[object]) -> list[Row]:
    """Return the next rows, each with its key behind the columns."""
    key = ", ".join(moved.key)
    columns = ", ".join(f'"{name}"' for name in moved.columns)
    where = f"WHERE ({key}) > ({', '.join('?' * len(moved.key))})" if after else ""
    return reading.execute(
        f"SELECT {columns}, {key} FROM {moved.name} {where} ORDER BY {key} LIMIT ?",
        (*after, MOVED_AT_A_TIME),
    ).fetchall()


def _sums(reading: Connection, moved: MovedTable) -> TableSums:
    cost = f"coalesce(sum({moved.cost}), 0)" if moved.cost else "0"
    [(rows, total)] = reading.execute(f"SELECT count(*), {cost} FROM {moved.name}")
    return TableSums(rows, total)


def _problem(source: Path, message: str) -> ConfigError:
    return ConfigError([Problem(str(source), message)])
