"""IncidentHistory: incidents, the outbox, usage and the audit log in one SQLite file."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Sequence
from secrets import token_hex
from typing import TypeVar

from looptrap.database.database import Database, Page, Row, insert_rows
from looptrap.incident.history import incident_rows, outbox, retention
from looptrap.incident.history.audit import AuditLog
from looptrap.incident.history.incident_rows import IncidentState
from looptrap.incident.history.outbox import Outbox, OutgoingEvent
from looptrap.incident.model import Annotation, Annotations, Incident, Label
from looptrap.incident.setting import IncidentSettings
from looptrap.usage import table
from looptrap.usage.model import UsageBatch
from looptrap.usage.table import UsageQuery

ROWS_PER_BURST, BURST_PAUSE_S = 256, 0.002
"""Rows encoded at a time, and the pause after them: encoding holds the interpreter lock."""

log = logging.getLogger("looptrap")

T = TypeVar("T")


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
        self.outbox = Outbox(self._database, clock)
        self.usage = UsageQuery(self._database, clock)
        self.audit = AuditLog(self._database, clock)

    @property
    def id(self) -> str:
        """The unique id of this history, made once with the file."""
        return self._database.id

    def open(self) -> None:
        """Create or migrate the file; raise ConfigError if it cannot be used."""
        self._database.open()

    def close(self) -> None:
        """Close the file; later reads and writes fail."""
        self._database.close()

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
        parts = self._rows(incidents, lambda one: [incident_rows.part_row(one)])
        deliveries = self._rows(events, lambda one: outbox.delivery_rows(one, now))
        if not parts and not deliveries and not spending and not annotations:
            return
        with self._database.write() as connection:
            insert_rows(connection, incident_rows.INSERT_PART, parts)
            insert_rows(connection, outbox.INSERT_DELIVERY, deliveries, outbox.SKIP_EXISTING)
            if spending:
                table.put_usage(connection, self.id, spending)
            incident_rows.put_annotations(connection, annotations)

    def open_incidents(self, instance: str | None = None) -> list[Incident]:
        """Return the open parts of one instance or of all, the oldest first."""
        where, values = ("", ()) if instance is None else (" AND instance = ?", (instance,))
        with self._database.read() as connection:
            rows = connection.execute(
                f"SELECT body FROM part WHERE closed IS NULL{where} ORDER BY opened", values
            )
            return incident_rows.read_parts(body for (body,) in rows)

    def incidents(
        self,
        *,
        state: IncidentState = "all",
        caller: str | None = None,
        project: str | None = None,
        session: str | None = None,
        rule: str | None = None,
        since: float | None = None,
        label: Label | None = None,
        acknowledged: bool | None = None,
        q: str | None = None,
        limit: int = 50,
        cursor: str | None = None,
    ) -> Page[Incident]:
        """Return a page of incidents, the latest opened first; `since` limits their last call.

        `rule` matches the rule of any part; `q` is a substring of the id, caller, session, rule or
        model. Raises ValueError for an invalid cursor.
        """
        filters = {
            "caller": caller, "project": project, "session": session, "rule": rule,
            "label": label, "acknowledged": acknowledged, "q": q,
        }  # fmt: skip
        with self._database.read() as connection:
            return incident_rows.select_incidents(connection, state, filters, since, limit, cursor)

    def incident(self, incident_id: str) -> Incident | None:
        """Return the incident with this id, or the only one whose id begins with it."""
        with self._database.read() as connection:
            return incident_rows.select_incident(connection, incident_id)

    def refused_under(self, fingerprint: str) -> list[str]:
        """Return the ids of open incidents with recent refusals under this fingerprint."""
        with self._database.read() as connection:
            return incident_rows.select_refused_under(connection, fingerprint)

    def annotations(self, incidents: Iterable[str]) -> dict[str, Annotations]:
        """Return annotations by incident id; incidents without any are left out."""
        with self._database.read() as connection:
            return incident_rows.select_annotations(connection, incidents)

    def changes(
        self, after: int, limit: int = 100, *, instance: str | None = None
    ) -> tuple[list[Incident], int]:
        """Return changes after a number, in order, and the number to continue from.

        With an `instance`, its parts; else each changed incident once, merged.
        """
        with self._database.read() as connection:
            return incident_rows.select_changes(connection, after, limit, instance)

    def last_change(self) -> int:
        """Return the number from which `changes` returns only later changes."""
        with self._database.read() as connection:
            return incident_rows.select_last_change(connection)

    def sweep(self) -> bool:
        """Drop a slice of what is expired or too large; return whether there is more."""
        with self._database.write() as connection:
            has_more = retention.drop_expired(connection, self._settings, self._clock())
            surplus = retention.surplus_pages(connection, self._settings.max_size)
        if surplus:
            self._database.shrink(min(surplus, retention.MAX_PAGES_FREED))
        return has_more or surplus > retention.MAX_PAGES_FREED

    def _rows(self, items: Iterable[T], rows_of: Callable[[T], list[Row]]) -> list[Row]:
        """Encode rows, with pauses; what cannot be encoded is skipped and counted."""
        found: list[Row] = []
        for number, item in enumerate(items, 1):
            try:
                found += rows_of(item)
            except (TypeError, ValueError, OverflowError) as error:
                self.unwritable += 1
                log.error("history: an entry cannot be encoded: %s", type(error).__name__)
            if not number % ROWS_PER_BURST:
                time.sleep(BURST_PAUSE_S)
        return found
