"""IncidentHistory: incidents, the outbox, usage, calls and the audit log in one database."""

from __future__ import annotations

import logging
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from secrets import token_hex
from typing import Unpack

from looptrap.database.database import Connection, Page, Row
from looptrap.database.place import database_at
from looptrap.errors import ConfigError, DatabaseError, Problem
from looptrap.incident.history import incident_table, retention
from looptrap.incident.history.audit import AuditLog
from looptrap.incident.history.batch import ANNOTATION_COLUMNS, StorableBatch, WriteBatch
from looptrap.incident.history.batch_spool import BatchSpool, drop_old_spools
from looptrap.incident.history.incident_table import (
    IncidentFilter,
    IncidentGroup,
    IncidentGrouping,
    IncidentOrder,
)
from looptrap.incident.history.outbox import Outbox, OutgoingEvent
from looptrap.incident.history.presence import ALIVE, Presence
from looptrap.incident.model import Annotation, Annotations, Incident, collect_annotations
from looptrap.incident.setting import IncidentSettings
from looptrap.usage.breach import BreachQuery
from looptrap.usage.call_log import CallLogSettings, CallRow
from looptrap.usage.call_table import MAX_ROWS_IN_MEMORY, CallQuery, roll_up_calls
from looptrap.usage.model import UsageBatch
from looptrap.usage.table import UsageQuery, roll_up_usage

NO_CALL_LOG = CallLogSettings(enabled=False)

LISTED_AT_A_TIME = 1_000
"""Incidents of an earlier version that get their row in one transaction."""


log = logging.getLogger("looptrap")


@dataclass(frozen=True, slots=True)
class SpoolSettings:
    """Where batches for a shared database wait, and how long its answers may take."""

    folder: str = "looptrap-spool"
    max_size: int = 256 << 20
    timeout: float = 5.0


class IncidentHistory:
    """Stores incidents in a file, or in PostgreSQL, that other processes may have open too.

    Everything but `id` waits for the disk: call it from a thread. Without a `path` it is kept in
    memory, for this process only. With a shared database, what the writer writes waits in a spool.
    """

    def __init__(
        self,
        path: str,
        settings: IncidentSettings,
        call_log: CallLogSettings = NO_CALL_LOG,
        *,
        spool: SpoolSettings = SpoolSettings(),
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.instance = ""
        """The unique id of this process as a writer of the history."""
        self.unwritable = 0
        """Incidents and events that could not be encoded."""
        self._settings = settings
        self._call_log = call_log
        if not path:
            max_rows = min(call_log.max_rows, MAX_ROWS_IN_MEMORY)
            self._call_log = replace(call_log, max_rows=max_rows)
        self._clock = clock
        self._database = database_at(path, token_hex(8), timeout=spool.timeout)
        self.is_shared = self._database.is_shared
        """Whether instances on other machines may use it too."""
        self.spool: BatchSpool | None = None
        if self.is_shared:
            self.spool = BatchSpool(self._database, spool.folder, spool.max_size)
        self._presence = Presence(self._database)
        self.outbox = Outbox(self._database, clock)
        self.usage = UsageQuery(self._database, clock)
        self.breaches = BreachQuery(self._database)
        self.calls = CallQuery(self._database)
        self.audit = AuditLog(self._database, clock, self._postpone_audit)

    @property
    def id(self) -> str:
        """The unique id of this history, made once with the file."""
        return self._database.id

    def open(self) -> None:
        """Create or migrate it; raise ConfigError if it cannot be used.

        A shared database that is away for now is no reason not to start: it is opened later.
        """
        if self.spool is not None:
            self._open_shared()
        else:
            self._open_file()
        self.instance = f"{self.id}.{token_hex(4)}"
        with suppress(DatabaseError):
            self.beat()

    def _open_shared(self) -> None:
        try:
            self._database.open()
        except DatabaseError as error:
            log.error("the history cannot be reached, what is recorded waits on disk: %s", error)
        if self.spool is not None:
            self.spool.open()

    def _open_file(self) -> None:
        self._database.open()
        try:
            has_more = True
            while has_more:
                with self._database.write() as connection:
                    has_more = incident_table.list_unlisted(connection, LISTED_AT_A_TIME)
        except DatabaseError as error:
            raise ConfigError([Problem("history", f"cannot be used: {error}")]) from None

    def close(self) -> None:
        """Close it; later reads and writes fail."""
        if self.spool is not None:
            with suppress(DatabaseError):
                self._presence.leave(self.instance)
            self.spool.close()
        self._database.close()

    def write(self, batch: WriteBatch) -> None:
        """Write a batch, into the spool where there is one; raise DatabaseError or OSError."""
        if self.spool is None:
            self.put(*batch)
            return
        if rows := self._storable(batch, self.spool.id):
            try:
                self.spool.append(rows)
            except OSError:
                if self.spool.waiting:
                    raise
                # The disk is broken, or full of other things: the database may be there.
                with self._database.write() as connection:
                    rows.put(connection)

    def put(
        self,
        incidents: Iterable[Incident] = (),
        events: Iterable[OutgoingEvent] = (),
        spending: UsageBatch | None = None,
        annotations: Sequence[Annotation] = (),
        calls: Sequence[CallRow] = (),
    ) -> None:
        """Write incidents, events, usage, annotations and calls: all or nothing.

        A delivery that exists is left alone; usage is added to what is there. Raises
        DatabaseError.
        """
        given = WriteBatch(list(incidents), list(events), spending, annotations, calls)
        batch = self._storable(given, self.id)
        if batch:
            with self._database.write() as connection:
                batch.put(connection)

    def open_incidents(self, instance: str | None = None) -> list[Incident]:
        """Return the open parts of one instance or of all, the oldest first."""
        rows = self._database.query(
            "SELECT body FROM part WHERE closed IS NULL AND instance = coalesce(?, instance)"
            " ORDER BY opened",
            (instance,),
        )
        return incident_table.read_parts(body for (body,) in rows)

    def abandoned_incidents(self) -> list[Incident]:
        """Return the open parts of processes that have ended, the oldest first."""
        if not self.is_shared:
            return self.open_incidents()
        rows = self._database.query(
            f"SELECT body FROM part WHERE closed IS NULL AND instance NOT IN ({ALIVE})"
            " ORDER BY opened"
        )
        return incident_table.read_parts(body for (body,) in rows)

    def closed_since(self, time: float) -> list[str]:
        """Return the ids of incidents that operators have closed since then."""
        rows = self._database.query(
            "SELECT incident FROM remark WHERE kind = 'close' AND time > ?", (time,)
        )
        return [incident for (incident,) in rows]

    def beat(self) -> int:
        """Say that this process is alive; return how many alerts of dead ones are free to send."""
        return self._presence.beat(self.instance, self._clock()) if self.is_shared else 0

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
                "SELECT DISTINCT id FROM part WHERE closed IS NULL AND instr(body, ?) > 0",
                (fingerprint.encode(errors="replace"),),
            )
            found = incident_table.merged(connection, [incident_id for (incident_id,) in rows])
        return [one.id for one in found if fingerprint in one.fingerprints]

    def annotations(self, incidents: Iterable[str]) -> dict[str, Annotations]:
        """Return annotations by incident id; incidents without any are left out."""
        found: dict[str, list[Annotation]] = defaultdict(list)
        for row in self._database.query(
            f"SELECT {', '.join(ANNOTATION_COLUMNS)} FROM remark WHERE incident = ANY(?)",
            (list(incidents),),
        ):
            one = Annotation(**dict(zip(ANNOTATION_COLUMNS, row, strict=True)))
            found[one.incident].append(one)
        return {incident: collect_annotations(some) for incident, some in found.items()}

    def changes(
        self, after: int, limit: int = 100, *, instance: str | None = None
    ) -> tuple[list[Incident], int]:
        """Return changes after a number, in order, and the number to continue from.

        With an `instance`, its parts; else each changed incident once, merged.
        """
        settled = self._database.settled("part")
        with self._database.read() as connection:
            rows = connection.execute(
                "SELECT change, id, body FROM part WHERE change > ? AND change <= ?"
                " AND instance = coalesce(?, instance) ORDER BY change LIMIT ?",
                (after, settled, instance, limit),
            ).fetchall()
            # At the end, skip what other instances changed: it need not be scanned again.
            last = (
                rows[-1][0] if len(rows) == limit else max(after, _last_change(connection, settled))
            )
            if instance is not None:
                return incident_table.read_parts(body for _, _, body in rows), last
            # What changed twice is sorted by its last change.
            latest = {incident_id: change for change, incident_id, _ in rows}
            return incident_table.merged(connection, sorted(latest, key=latest.__getitem__)), last

    def last_change(self) -> int:
        """Return the number from which `changes` returns only later changes."""
        settled = self._database.settled("part")
        with self._database.read() as connection:
            return _last_change(connection, settled)

    def sweep(self) -> bool:
        """Drop some of what is expired or too large, roll up some; return whether there is more."""
        with self._database.write() as connection:
            if not connection.try_lock("sweep"):
                return False  # another instance does
            has_more = retention.drop_expired(
                connection, self._settings, self._call_log, self._clock()
            )
            if self.is_shared:
                drop_old_spools(connection)
        has_more |= roll_up_usage(self._database, self._clock())
        has_more |= roll_up_calls(self._database, self._clock())
        return self._database.shrink(self._settings.max_size) or has_more

    def _postpone_audit(self, row: Row) -> bool:
        if self.spool is None:
            return False
        try:
            self.spool.append(StorableBatch(audit=[row]))
        except OSError:
            return False
        return True

    def _storable(self, batch: WriteBatch, spender: str) -> StorableBatch:
        found = StorableBatch.of(batch, spender, self._clock())
        self.unwritable += found.unwritable
        return found


def _last_change(connection: Connection, settled: int) -> int:
    rows = connection.execute("SELECT max(change) FROM part WHERE change <= ?", (settled,))
    return int(rows.fetchone()[0] or 0)
