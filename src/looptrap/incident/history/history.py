"""IncidentHistory: incidents, the outbox, usage, calls and the audit log in one database."""

from __future__ import annotations

import logging
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from math import inf
from secrets import token_hex

from looptrap.database.database import Connection, Database, Row
from looptrap.database.place import database_at
from looptrap.errors import ConfigError, DatabaseError, Problem
from looptrap.incident.history import incident_table, retention
from looptrap.incident.history.audit import AuditLog
from looptrap.incident.history.batch import (
    ANNOTATION_COLUMNS,
    BatchSpool,
    StorableBatch,
    WriteBatch,
)
from looptrap.incident.history.incident_table import IncidentQuery
from looptrap.incident.history.outbox import Outbox, OutgoingEvent
from looptrap.incident.model import Annotation, Annotations, Incident, collect_annotations
from looptrap.incident.setting import IncidentSettings
from looptrap.usage.breach import BreachQuery
from looptrap.usage.call_log import MAX_ROWS_IN_MEMORY, CallLogSettings, CallQuery, CallRow
from looptrap.usage.model import UsageBatch
from looptrap.usage.table import UsageQuery

NO_CALL_LOG = CallLogSettings(enabled=False)

LISTED_AT_A_TIME = 1_000
"""Incidents of an earlier version that get their row in one transaction."""

ALIVE_S = 6.0
"""Seconds after the last sign of life for which a process counts as alive."""

ALIVE = f"SELECT id FROM instance WHERE seen > now() - interval '{ALIVE_S:g} seconds'"
"""The ids of processes that are alive."""

log = logging.getLogger("looptrap")


@dataclass(frozen=True, slots=True)
class SpoolSettings:
    """Where batches for a shared database wait, and how long its answers may take."""

    folder: str = "looptrap-spool"
    max_size: int = 256 << 20
    timeout: float = 5.0


class IncidentHistory(IncidentQuery):
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
        super().__init__(database_at(path, token_hex(8), timeout=spool.timeout))
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
        if self.spool is None:
            self._open_file()
        else:
            try:
                self._database.open()
            except DatabaseError as error:
                message = "the history cannot be reached, what is recorded waits on disk: %s"
                log.error(message, error)
            self.spool.open()
        self.instance = f"{self.id}.{token_hex(4)}"
        with suppress(DatabaseError):
            self.beat()

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

    def open_incidents(self) -> list[Incident]:
        """Return the open parts of all instances, the oldest first."""
        return self._open_parts("TRUE")

    def abandoned_incidents(self) -> list[Incident]:
        """Return the open parts of processes that have ended, the oldest first."""
        return self._open_parts(f"instance NOT IN ({ALIVE})" if self.is_shared else "TRUE")

    def _open_parts(self, condition: str) -> list[Incident]:
        rows = self._database.query(
            f"SELECT body FROM part WHERE closed IS NULL AND {condition} ORDER BY opened"
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

    def annotations(self, incidents: Iterable[str]) -> dict[str, Annotations]:
        """Return annotations by incident id; incidents without any are left out."""
        found: dict[str, list[Annotation]] = defaultdict(list)
        for row in self._database.query(
            f"SELECT {', '.join(ANNOTATION_COLUMNS)} FROM remark WHERE incident = ANY(?)",
            (list(incidents),),
        ):
            one = Annotation(*row)
            found[one.incident].append(one)
        return {incident: collect_annotations(some) for incident, some in found.items()}

    def changes(self, after: int, limit: int = 100) -> tuple[list[Incident], int]:
        """Return the incidents changed after a number, in order, and the number to go on from."""
        settled = self._database.settled("part")
        with self._database.read() as connection:
            rows = connection.execute(
                "SELECT change, id FROM part WHERE change > ? AND change <= ?"
                " ORDER BY change LIMIT ?",
                (after, settled, limit),
            ).fetchall()
            # At the end, skip what other instances changed: it need not be scanned again.
            last = (
                rows[-1][0] if len(rows) == limit else max(after, _last_change(connection, settled))
            )
            # What changed twice is sorted by its last change.
            latest = {incident_id: change for change, incident_id in rows}
            return incident_table.merged(connection, sorted(latest, key=latest.__getitem__)), last

    def last_change(self) -> int:
        """Return the number from which `changes` returns only later changes."""
        settled = self._database.settled("part")
        with self._database.read() as connection:
            return _last_change(connection, settled)

    def sweep(self) -> bool:
        """Drop some of what is expired or too large, roll up some; return whether there is more."""
        return retention.sweep(self._database, self._settings, self._call_log, self._clock())

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


BEAT_INTERVAL_S = 2.0
"""Seconds between two signs of life."""

FORGOTTEN_S = 86_400


class Presence:
    """Signs of life of one process, and what dead ones leave to the others."""

    def __init__(self, database: Database, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._database = database
        self._monotonic = monotonic
        self._since = self._last = -inf

    def beat(self, instance: str, now: float) -> int:
        """Give a sign of life; return how many leases of dead processes have been ended."""
        with self._database.write() as connection:
            connection.execute(
                "INSERT INTO instance (id) VALUES (?)"
                " ON CONFLICT (id) DO UPDATE SET seen = excluded.seen",
                (instance,),
            )
            at = self._monotonic()
            if at > self._last + ALIVE_S:
                self._since = at
            self._last = at
            # After an outage others seem dead until they had time for a sign.
            if at < self._since + ALIVE_S or not connection.try_lock("leases"):
                return 0
            return _end_leases(connection, now)

    def leave(self, instance: str) -> None:
        """Say that the process ends."""
        self._database.execute("DELETE FROM instance WHERE id = ?", (instance,))


def _end_leases(connection: Connection, now: float) -> int:
    """Let others send what dead processes were about to send."""
    connection.execute(
        f"DELETE FROM instance WHERE seen < now() - interval '{FORGOTTEN_S} seconds'"
    )
    return connection.execute(
        "UPDATE letter SET due = ?, owner = '', lease_until = 0"
        " WHERE state = 'pending' AND owner IN (SELECT id FROM instance"
        f" WHERE seen <= now() - interval '{ALIVE_S:g} seconds')",
        (now,),
    ).rowcount
