"""WriteBatch: what is written in one transaction; StorableBatch: its rows."""

from __future__ import annotations

import logging
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple, TypeVar

import msgspec
from msgspec.structs import astuple

from looptrap.database.database import Connection, Row, storable
from looptrap.incident.history import incident_table, outbox
from looptrap.incident.history.audit import put_entries
from looptrap.incident.history.incident_table import read_parts
from looptrap.incident.history.outbox import OutgoingEvent
from looptrap.incident.model import Annotation, Incident
from looptrap.usage import rollup, table
from looptrap.usage.breach import breach_rows, put_breaches
from looptrap.usage.call_log import CallRow
from looptrap.usage.call_table import call_rows, put_calls
from looptrap.usage.model import UsageBatch

ROWS_PER_BURST, BURST_PAUSE_S = 256, 0.002
"""Rows encoded at a time, and the pause after them: encoding holds the interpreter lock."""

ANNOTATION_COLUMNS = Annotation.__struct_fields__

# Only the latest label counts.
_DROP_LABELS = """
    DELETE FROM remark WHERE incident = :incident AND kind = 'label' AND (time, id) < (
        SELECT time, id FROM remark WHERE incident = :incident AND kind = 'label'
        ORDER BY time DESC, id DESC LIMIT 1
    )"""

_START = table.SPENDING_COLUMNS.index("start")
_TIME = CallRow._fields.index("time")

log = logging.getLogger("looptrap")

T = TypeVar("T")
R = TypeVar("R")


class WriteBatch(NamedTuple):
    """What is written in one transaction."""

    incidents: Sequence[Incident] = ()
    events: Sequence[OutgoingEvent] = ()
    spending: UsageBatch | None = None
    annotations: Sequence[Annotation] = ()
    calls: Sequence[CallRow] = ()


class StorableBatch(msgspec.Struct, array_like=True):
    """The rows of a batch, encoded: nothing in them can fail any more."""

    parts: Sequence[Row] = ()
    deliveries: Sequence[Row] = ()
    spending: Sequence[Row] = ()
    sessions: Sequence[Row] = ()
    breaches: Sequence[Row] = ()
    annotations: Sequence[Row] = ()
    calls: Sequence[Row] = ()
    unwritable: int = 0
    """Incidents and events that could not be encoded."""
    audit: Sequence[Row] = ()

    @classmethod
    def of(cls, batch: WriteBatch, instance: str, now: float) -> StorableBatch:
        """Encode what `instance` writes, with pauses; what cannot be encoded is left out."""
        rows = _RowEncoder()
        usage = batch.spending or UsageBatch()
        return cls(
            parts=_latest(rows.encode(batch.incidents, lambda one: [incident_table.part_row(one)])),
            deliveries=rows.encode(batch.events, lambda one: outbox.delivery_rows(one, now)),
            spending=table.spending_rows(instance, usage),
            sessions=table.session_rows(usage),
            breaches=breach_rows(usage.breaches),
            annotations=[_annotation_row(one) for one in batch.annotations],
            calls=[row for some in in_bursts(batch.calls) for row in call_rows(some)],
            unwritable=rows.unwritable,
        )

    @classmethod
    def joined(cls, batches: Sequence[StorableBatch]) -> StorableBatch:
        """Join batches in their order, to be written as one.

        One after the other, two transactions might lock common rows in different orders, and wait
        for each other.
        """
        joined = cls()
        for name in cls.__struct_fields__:
            if name != "unwritable":
                setattr(joined, name, [row for one in batches for row in getattr(one, name)])
        joined.parts = _latest(joined.parts)
        return joined

    def __len__(self) -> int:
        """Return the number of rows."""
        return sum(map(len, self._rows()))

    def _rows(self) -> tuple[Sequence[Row], ...]:
        return (
            self.parts, self.deliveries, self.spending, self.sessions, self.breaches,
            self.annotations, self.calls, self.audit,
        )  # fmt: skip

    def _times(self) -> Iterator[float]:
        """Yield the times of rows that are rolled up."""
        yield from (row[_START] for row in self.spending)
        yield from (row[_TIME] for row in self.calls)

    def put(self, connection: Connection) -> None:
        """Write the rows: a delivery that exists is left alone, usage is added to what is there."""
        incidents = {row[0] for row in self.parts} | {row[1] for row in self.annotations}
        connection.lock([*incidents, *(row[0] for row in self.deliveries)])
        rollup.forget(connection, self._times())
        if self.parts:
            parts = [(part, row) for row in self.parts for part in read_parts(row[-1:])]
            incident_table.put_parts(connection, parts)
        connection.insert("letter", outbox.WRITTEN_COLUMNS, self.deliveries, outbox.SKIP_EXISTING)
        table.put_usage(connection, self.spending, self.sessions)
        put_breaches(connection, self.breaches)
        _put_annotations(connection, self.annotations)
        put_calls(connection, self.calls)
        put_entries(connection, self.audit)


def _latest(parts: Sequence[Row]) -> list[Row]:
    """Return of several states of a part the latest."""
    return list({(row[0], row[1]): row for row in parts}.values())


def in_bursts(items: Sequence[T], size: int = ROWS_PER_BURST) -> Iterator[Sequence[T]]:
    """Yield slices, with pauses between them."""
    for start in range(0, len(items), size):
        if start:
            time.sleep(BURST_PAUSE_S)
        yield items[start : start + size]


class _RowEncoder:
    def __init__(self) -> None:
        self.unwritable = 0

    def encode(self, items: Iterable[T], rows_of: Callable[[T], list[R]]) -> list[R]:
        """Encode rows, with pauses; what cannot be encoded is skipped and counted."""
        found: list[R] = []
        for number, item in enumerate(items, 1):
            try:
                found += rows_of(item)
            except (TypeError, ValueError, OverflowError) as error:
                self.unwritable += 1
                log.error("history: an entry cannot be encoded: %s", type(error).__name__)
            if not number % ROWS_PER_BURST:
                time.sleep(BURST_PAUSE_S)
        return found


def _annotation_row(one: Annotation) -> Row:
    return storable(*astuple(one))


def _put_annotations(connection: Connection, rows: Iterable[Row]) -> None:
    """Store annotations; the incidents of new ones count as changed."""
    changed: set[str] = set()
    closed: dict[float, list[str]] = defaultdict(list)
    for row in rows:
        one = Annotation(**dict(zip(ANNOTATION_COLUMNS, row, strict=True)))
        if connection.execute(
            f"INSERT INTO remark ({', '.join(ANNOTATION_COLUMNS)}) VALUES (?, ?, ?, ?, ?, ?)"
            " ON CONFLICT (id) DO NOTHING",
            tuple(row),
        ).rowcount:
            changed.add(one.incident)
            if one.kind == "close":
                closed[one.time].append(one.incident)
            if one.kind == "label":
                connection.execute(_DROP_LABELS, {"incident": one.incident})
    for now, ids in closed.items():
        incident_table.close_parts(connection, ids, now)
    for incident in sorted(changed):
        incident_table.renumber(connection, incident)
