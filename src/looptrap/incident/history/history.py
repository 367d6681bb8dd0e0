"""IncidentHistory: incidents, the outbox, usage and the audit log in one SQLite file."""

from __future__ import annotations

import json
import logging
import sqlite3
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from secrets import token_hex
from sqlite3 import Connection
from typing import TypeVar, Unpack

from looptrap.database.database import (
    Database,
    Page,
    describe_error,
    insert_rows,
    without_surrogates,
)
from looptrap.errors import ConfigError, Problem
from looptrap.incident.history import incident_table, outbox, retention
from looptrap.incident.history.audit import AuditLog
from looptrap.incident.history.incident_table import (
    IncidentFilter,
    IncidentGroup,
    IncidentGrouping,
    IncidentOrder,
)
from looptrap.incident.history.outbox import Outbox, OutgoingEvent
from looptrap.incident.model import Annotation, Annotations, Incident, collect_annotations
from looptrap.incident.setting import IncidentSettings
from looptrap.usage import table
from looptrap.usage.breach import BreachQuery
from looptrap.usage.model import UsageBatch
from looptrap.usage.table import UsageQuery

log = logging.getLogger("looptrap")

T = TypeVar("T")
R = TypeVar("R")

_ANNOTATION_COLUMNS = ("id", "incident", "time", "by", "kind", "text")

_PUT_ANNOTATION = (
    f"INSERT OR IGNORE INTO remark ({', '.join(_ANNOTATION_COLUMNS)}) VALUES (?, ?, ?, ?, ?, ?)"
)

# Only the latest label counts.
_DROP_LABELS = """
    DELETE FROM remark WHERE incident = :incident AND kind = 'label' AND (time, id) < (
        SELECT time, id FROM remark WHERE incident = :incident AND kind = 'label'
        ORDER BY time DESC, id DESC LIMIT 1
    )"""

ROWS_PER_BURST, BURST_PAUSE_S = 256, 0.002
"""Rows encoded at a time, and the pause after them: encoding holds the interpreter lock."""


LISTED_AT_A_TIME = 1_000
"""Incidents of an earlier version that get their row in one transaction."""


class IncidentHistory:
    """Stores incidents in a file that other processes may have open too.

    Everything but `id` waits for the disk: call it from a thread. Without a `path` it is kept in
    memory, for this process only.
    """

    def __init__(
        self, path: str, settings: IncidentSettings, *, clock: Callable[[], float] = time.time
    ) -> None:
        self.unwritable = 0
        """Incidents and events that could not be encoded."""
        self._settings = settings
        self._clock = clock
        self._database = Database(path, token_hex(8))
        self.close = self._database.close
        self.outbox = Outbox(self._database, clock)
        self.usage = UsageQuery(self._database, clock)
        self.breaches = BreachQuery(self._database)
        self.audit = AuditLog(self._database, clock)

    @property
    def id(self) -> str:
        """The unique id of this history, made once with the file."""
        return self._database.id

    def open(self) -> None:
        """Create or migrate the file; raise ConfigError if it cannot be used."""
        self._database.open()
        try:
            has_more = True
            while has_more:
                with self._database.write() as connection:
                    has_more = incident_table.list_unlisted(connection, LISTED_AT_A_TIME)
        except sqlite3.Error as error:
            raise ConfigError([Problem("history", describe_error(error))]) from None

    def put(
        self,
        incidents: Iterable[Incident] = (),
        events: Iterable[OutgoingEvent] = (),
        spending: UsageBatch | None = None,
        annotations: Sequence[Annotation] = (),
    ) -> None:
        """Write incidents, events, usage and annotations: all or nothing.

        A delivery that exists is left alone; usage is added to what is there. Raises sqlite3.Error.
        """
        now = self._clock()
        parts = self._rows(incidents, lambda one: [(one, incident_table.part_row(one))])
        deliveries = self._rows(events, lambda one: outbox.delivery_rows(one, now))
        if not parts and not deliveries and not spending and not annotations:
            return
        with self._database.write() as connection:
            incident_table.put_parts(connection, parts)
            insert_rows(connection, outbox.INSERT_DELIVERY, deliveries, outbox.SKIP_EXISTING)
            if spending:
                table.put_usage(connection, self.id, spending)
            _put_annotations(connection, annotations)

    def open_incidents(self, instance: str | None = None) -> list[Incident]:
        """Return the open parts of one instance or of all, the oldest first."""
        rows = self._database.query(
            "SELECT body FROM part WHERE closed IS NULL AND instance = coalesce(?, instance)"
            " ORDER BY opened",
            (instance,),
        )
        return incident_table.read_parts(body for (body,) in rows)

    def incidents(
        self,
        *,
        order: IncidentOrder = "newest",
        limit: int = 50,
        cursor: str | None = None,
        **wanted: Unpack[IncidentFilter],
    ) -> Page[Incident]:
        """Return a page of incidents, the latest opened or the highest first.

        Raises ValueError for an invalid cursor.
        """
        with self._database.read() as connection:
            page = incident_table.find_ids(connection, wanted, order, limit, cursor)
            return Page(incident_table.merged(connection, page.items), page.next_cursor)

    def incident_ids(
        self, limit: int, order: IncidentOrder = "newest", **wanted: Unpack[IncidentFilter]
    ) -> list[str]:
        """Return the ids of incidents, in the order of `incidents`."""
        with self._database.read() as connection:
            return incident_table.find_ids(connection, wanted, order, limit).items

    def incidents_of(self, ids: Sequence[str]) -> list[Incident]:
        """Return incidents in the order of their ids; unknown ids are left out."""
        with self._database.read() as connection:
            return incident_table.merged(connection, ids)

    def incident_groups(
        self,
        by: IncidentGrouping,
        *,
        order: IncidentOrder = "newest",
        limit: int = 50,
        cursor: str | None = None,
        **wanted: Unpack[IncidentFilter],
    ) -> Page[IncidentGroup]:
        """Return a page of groups of incidents; raise ValueError for an invalid cursor."""
        with self._database.read() as connection:
            return incident_table.find_groups(connection, by, wanted, order, limit, cursor)

    def incident(self, incident_id: str) -> Incident | None:
        """Return the incident with this id, or the only one whose id begins with it."""
        with self._database.read() as connection:
            found = incident_table.merged(connection, [incident_id])
            if not found and incident_id:
                rows = connection.execute(
                    "SELECT DISTINCT id FROM part WHERE id >= ? AND id < ? LIMIT 2",
                    (incident_id, incident_id + "\U0010ffff"),
                ).fetchall()
                found = incident_table.merged(connection, rows[0]) if len(rows) == 1 else []
        return found[0] if found else None

    def refused_under(self, fingerprint: str) -> list[str]:
        """Return the ids of open incidents with recent refusals under this fingerprint."""
        with self._database.read() as connection:
            rows = connection.execute(
                "SELECT DISTINCT id FROM part WHERE closed IS NULL"
                " AND instr(body, CAST(? AS BLOB))",
                (fingerprint,),
            )
            found = incident_table.merged(connection, [incident_id for (incident_id,) in rows])
        return [one.id for one in found if fingerprint in one.fingerprints]

    def annotations(self, incidents: Iterable[str]) -> dict[str, Annotations]:
        """Return annotations by incident id; incidents without any are left out."""
        found: dict[str, list[Annotation]] = defaultdict(list)
        for row in self._database.query(
            f"SELECT {', '.join(_ANNOTATION_COLUMNS)} FROM remark"
            " WHERE incident IN (SELECT value FROM json_each(?))",
            (json.dumps(list(incidents)),),
        ):
            one = Annotation(**dict(zip(_ANNOTATION_COLUMNS, row, strict=True)))
            found[one.incident].append(one)
        return {incident: collect_annotations(some) for incident, some in found.items()}

    def changes(
        self, after: int, limit: int = 100, *, instance: str | None = None
    ) -> tuple[list[Incident], int]:
        """Return changes after a number, in order, and the number to continue from.

        With an `instance`, its parts; else each changed incident once, merged.
        """
        with self._database.read() as connection:
            rows = connection.execute(
                "SELECT change, id, body FROM part WHERE change > ?"
                " AND instance = coalesce(?, instance) ORDER BY change LIMIT ?",
                (after, instance, limit),
            ).fetchall()
            # At the end, skip what other instances changed: it need not be scanned again.
            last = rows[-1][0] if len(rows) == limit else max(after, _last_change(connection))
            if instance is not None:
                return incident_table.read_parts(body for _, _, body in rows), last
            # What changed twice is sorted by its last change.
            latest = {incident_id: change for change, incident_id, _ in rows}
            return incident_table.merged(connection, sorted(latest, key=latest.__getitem__)), last

    def last_change(self) -> int:
        """Return the number from which `changes` returns only later changes."""
        with self._database.read() as connection:
            return _last_change(connection)

    def sweep(self) -> bool:
        """Drop a slice of what is expired or too large; return whether there is more."""
        with self._database.write() as connection:
            has_more = retention.drop_expired(connection, self._settings, self._clock())
            surplus = retention.surplus_pages(connection, self._settings.max_size)
        if surplus:
            self._database.shrink(min(surplus, retention.MAX_PAGES_FREED))
        return has_more or surplus > retention.MAX_PAGES_FREED

    def _rows(self, items: Iterable[T], rows_of: Callable[[T], list[R]]) -> list[R]:
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


def _last_change(connection: Connection) -> int:
    return int(connection.execute("SELECT max(change) FROM part").fetchone()[0] or 0)


def _put_annotations(connection: Connection, annotations: Iterable[Annotation]) -> None:
    """Store annotations; the incidents of new ones count as changed."""
    changed: set[str] = set()
    closed: dict[float, list[str]] = defaultdict(list)
    for one in annotations:
        row = (one.id, one.incident, one.time, one.by, one.kind, without_surrogates(one.text))
        if connection.execute(_PUT_ANNOTATION, row).rowcount:
            changed.add(one.incident)
            if one.kind == "close":
                closed[one.time].append(one.incident)
            if one.kind == "label":
                connection.execute(_DROP_LABELS, {"incident": one.incident})
    for now, ids in closed.items():
        incident_table.close_parts(connection, ids, now)
    for incident in sorted(changed):
        connection.execute(incident_table.RENUMBER, (incident,))
