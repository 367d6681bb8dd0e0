"""WriteBatch: what is written in one transaction; StorableBatch: its rows.

BatchSpool: batches wait on disk for a shared database, which takes each exactly once.
"""

from __future__ import annotations

import logging
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, TypeVar

import msgspec
from msgspec.structs import astuple

from looptrap.database.database import Connection, Database, Row, encode_struct, storable
from looptrap.database.spool import Spool, SpoolFullError
from looptrap.errors import ConfigError, DatabaseError, Problem
from looptrap.incident.history import incident_table, outbox
from looptrap.incident.history.audit import put_entries
from looptrap.incident.history.incident_table import read_parts
from looptrap.incident.history.outbox import OutgoingEvent, delivery_rows
from looptrap.incident.model import Annotation, Incident
from looptrap.usage import rollup, table
from looptrap.usage.breach import breach_rows, put_breaches
from looptrap.usage.call_log import CallRow, call_rows, put_calls
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
        parts, bad_parts = _encoded(batch.incidents, lambda one: [incident_table.part_row(one)])
        deliveries, bad_events = _encoded(batch.events, lambda one: delivery_rows(one, now))
        usage = batch.spending or UsageBatch()
        return cls(
            parts=_latest(parts),
            deliveries=deliveries,
            spending=table.spending_rows(instance, usage),
            sessions=table.session_rows(usage),
            breaches=breach_rows(usage.breaches),
            annotations=[storable(*astuple(one)) for one in batch.annotations],
            calls=[row for some in in_bursts(batch.calls) for row in call_rows(some)],
            unwritable=bad_parts + bad_events,
        )

    @classmethod
    def joined(cls, batches: Sequence[StorableBatch]) -> StorableBatch:
        """Join batches in their order, to be written as one.

        One after the other, two transactions might lock common rows in different orders, and wait
        for each other.
        """
        joined = cls()
        for name in _KINDS_OF_ROWS:
            setattr(joined, name, [row for one in batches for row in getattr(one, name)])
        joined.parts = _latest(joined.parts)
        return joined

    def __len__(self) -> int:
        """Return the number of rows."""
        return sum(len(getattr(self, name)) for name in _KINDS_OF_ROWS)

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


_KINDS_OF_ROWS = [name for name in StorableBatch.__struct_fields__ if name != "unwritable"]


def _latest(parts: Sequence[Row]) -> list[Row]:
    """Return of several states of a part the latest."""
    return list({(row[0], row[1]): row for row in parts}.values())


def in_bursts(items: Sequence[T], size: int = ROWS_PER_BURST) -> Iterator[Sequence[T]]:
    """Yield slices, with pauses between them."""
    for start in range(0, len(items), size):
        if start:
            time.sleep(BURST_PAUSE_S)
        yield items[start : start + size]


def _encoded(items: Iterable[T], rows_of: Callable[[T], list[R]]) -> tuple[list[R], int]:
    """Encode rows, with pauses; return also the number of items that cannot be encoded."""
    found: list[R] = []
    unwritable = 0
    for number, item in enumerate(items, 1):
        try:
            found += rows_of(item)
        except (TypeError, ValueError, OverflowError) as error:
            unwritable += 1
            log.error("history: an entry cannot be encoded: %s", type(error).__name__)
        if not number % ROWS_PER_BURST:
            time.sleep(BURST_PAUSE_S)
    return found, unwritable


def _put_annotations(connection: Connection, rows: Iterable[Row]) -> None:
    """Store annotations; the incidents of new ones count as changed."""
    changed: set[str] = set()
    closed: dict[float, list[str]] = defaultdict(list)
    for row in rows:
        one = Annotation(*row)
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


MAX_RECORDS, MAX_BYTES = 64, 2 << 20
"""Batches written in one transaction."""

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(StorableBatch).decode


class BatchSpool:
    """The spool of this process, and those that killed processes left in the same folder.

    Batches are numbered. The transaction that writes some also stores the number of the last, and
    leaves out what is written already: a connection that breaks in a commit, or a process that is
    killed, makes no batch count twice.
    """

    def __init__(self, database: Database, folder: str, max_size: int) -> None:
        self.lost = 0
        """Batches that could not be read, or that the database refused."""
        self.is_full = False
        """Whether the latest batch had no room."""
        self._database = database
        self._folder = Path(folder)
        self._max_size = max_size
        self._own: Spool | None = None
        self._adopted: list[Spool] = []
        self._unreadable: set[str] = set()

    @property
    def id(self) -> str:
        """Unique to this process."""
        return self._opened().id

    @property
    def waiting(self) -> int:
        """Batches that wait."""
        return sum(spool.waiting for spool in self._spools())

    @property
    def size(self) -> int:
        """Bytes on disk."""
        return sum(spool.size for spool in self._spools())

    def open(self) -> None:
        """Make the spool of this process; raise ConfigError if that cannot be done."""
        try:
            self._own = Spool.create(self._folder, self._max_size)
        except OSError as error:
            message = f"{self._folder}: cannot write there: {error.strerror}"
            raise ConfigError([Problem("history_spool", message)]) from None
        self.adopt()

    def adopt(self) -> None:
        """Take over what killed processes left behind."""
        for spool in Spool.abandoned(self._folder, self._report):
            self.lost += spool.damaged
            if spool.waiting:
                log.info("history: %d batches of an earlier process wait", spool.waiting)
            if spool.damaged:
                log.warning("history: %d damaged batches of an earlier process", spool.damaged)
            self._adopted.append(spool)

    def _report(self, error: OSError) -> None:
        """Log, once for each file, that it cannot be taken over."""
        if error.filename not in self._unreadable:
            self._unreadable.add(error.filename)
            log.warning("history: a spool of an earlier process is left as it is: %s", error)

    def close(self) -> None:
        """Leave what waits to the next process."""
        for spool in self._spools():
            spool.close()
        self._own, self._adopted = None, []

    def append(self, batch: StorableBatch) -> None:
        """Put a batch behind those that wait; raise OSError if that cannot be done."""
        record = encode_struct(_encode, batch)[1]
        try:
            self._opened().append(record)
        except SpoolFullError:
            self.is_full = True
            raise
        self.is_full = False

    def drain(self) -> int:
        """Write what waits, the oldest first; return how many batches that were."""
        number = 0
        for spool in self._spools():
            damaged = spool.damaged
            while records := spool.first(MAX_RECORDS, MAX_BYTES):
                number += self._write(spool, records)
            if spool.damaged > damaged:
                self.lost += spool.damaged - damaged
                log.error("history: %d batches are lost, their file was changed", self.lost)
        for spool in self._adopted:
            spool.close()
        self._adopted = []
        return number

    def _write(self, spool: Spool, records: list[tuple[int, bytes]]) -> int:
        try:
            with self._database.write() as connection:
                _put(connection, spool.id, records)
        except DatabaseError as error:
            if not error.is_refusal:
                raise
            if len(records) > 1:  # find the one
                return self._write(spool, records[:1])
            self.lost += 1
            log.error("history: a batch is lost, the database refused it: %s", error)
            with self._database.write() as connection:
                _put(connection, spool.id, [(records[0][0], _encode(StorableBatch()))])
        spool.drop(records[-1][0])
        return len(records)

    def _spools(self) -> list[Spool]:
        return [*self._adopted, *([self._own] if self._own is not None else [])]

    def _opened(self) -> Spool:
        if self._own is None:
            raise DatabaseError("the history is closed")
        return self._own


def _put(connection: Connection, spool_id: str, records: list[tuple[int, bytes]]) -> None:
    """Write records that are not written yet, and up to which number they are."""
    connection.execute(
        "INSERT INTO spool (id, last) VALUES (?, 0) ON CONFLICT DO NOTHING", (spool_id,)
    )
    # Locked: a transaction of a killed process may still be on its way.
    [(last,)] = connection.execute("SELECT last FROM spool WHERE id = ? FOR UPDATE", (spool_id,))
    waiting = [record for number, record in records if number > last]
    batches = [_decoded(record) for [record] in in_bursts(waiting, 1)]
    try:
        StorableBatch.joined(batches).put(connection)
    except (TypeError, ValueError, OverflowError) as error:
        # Rows of wrong types: a file that somebody changed.
        raise DatabaseError(f"cannot be written: {error}", is_refusal=True) from None
    connection.execute(
        "UPDATE spool SET last = greatest(last, ?), seen = now() WHERE id = ?",
        (records[-1][0], spool_id),
    )


def _decoded(record: bytes) -> StorableBatch:
    try:
        return _decode(record)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise DatabaseError(f"cannot be read: {error}", is_refusal=True) from None
