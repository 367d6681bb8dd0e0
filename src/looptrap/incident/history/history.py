"""The history: incidents, the outbox and what was spent, and where they are kept."""

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
"""Rows made in one go, and seconds of rest after them: the gateway cannot run meanwhile."""

log = logging.getLogger("looptrap")

T = TypeVar("T")


class IncidentHistory:
    """What is kept of incidents, in a file that other processes may have open too.

    Everything but `id` waits for the disk: call it from a thread. Without a `path` it is kept in
    memory, for this process only.
    """

    def __init__(
        self, path: str, settings: IncidentSettings, *, clock: Callable[[], float] = time.time
    ) -> None:
        self.unwritable = 0
        """Incidents and events that no row could be made of."""
        self._settings = settings
        self._clock = clock
        self._database = Database(path, token_hex(8))
        self.outbox = Outbox(self._database, clock)
        self.books = UsageQuery(self._database, clock)
        self.audit = AuditLog(self._database, clock)

    @property
    def id(self) -> str:
        """What tells this history from all others: made once, with the file."""
        return self._database.id

    def open(self) -> None:
        """Make or migrate the file; raise ConfigError where it cannot be used."""
        self._database.open()

    def close(self) -> None:
        """Close the file; nothing can be asked or put any more."""
        self._database.close()

    def put(
        self,
        incidents: Iterable[Incident] = (),
        events: Iterable[OutgoingEvent] = (),
        spending: UsageBatch | None = None,
        remarks: Sequence[Annotation] = (),
    ) -> None:
        """Keep incidents as they are now, events, what was spent and said: all or nothing.

        An event that is there for a channel is not put there again, while what was spent is added
        to what is there. Raises sqlite3.Error.
        """
        now = self._clock()
        parts = self._rows(incidents, lambda one: [incident_rows.part_row(one)])
        letters = self._rows(events, lambda one: outbox.delivery_rows(one, now))
        if not parts and not letters and not spending and not remarks:
            return
        with self._database.write() as connection:
            insert_rows(connection, incident_rows.INSERT_PART, parts)
            insert_rows(connection, outbox.INSERT_DELIVERY, letters, outbox.SKIP_EXISTING)
            if spending:
                table.put_usage(connection, self.id, spending)
            incident_rows.put_annotations(connection, remarks)

    def open_incidents(self, instance: str | None = None) -> list[Incident]:
        """Return what that instance has open, or all have, the oldest first: to go on with it."""
        whose, values = ("", ()) if instance is None else (" AND instance = ?", (instance,))
        with self._database.read() as connection:
            rows = connection.execute(
                f"SELECT body FROM part WHERE closed IS NULL{whose} ORDER BY opened", values
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
        """Return a page of incidents, the latest opened first; `since` is about their last call.

        An incident has a rule when some instance describes it by that; `q` is a piece of its id,
        caller, session, rule or model. Raises ValueError for a cursor that is none.
        """
        fitting = {
            "caller": caller, "project": project, "session": session, "rule": rule,
            "label": label, "acknowledged": acknowledged, "q": q,
        }  # fmt: skip
        with self._database.read() as connection:
            return incident_rows.select_incidents(connection, state, fitting, since, limit, cursor)

    def incident(self, incident_id: str) -> Incident | None:
        """Return the incident of that id, or the only one whose id begins so."""
        with self._database.read() as connection:
            return incident_rows.select_incident(connection, incident_id)

    def refused_under(self, fingerprint: str) -> list[str]:
        """Return the ids of open incidents that were refused lately under that fingerprint."""
        with self._database.read() as connection:
            return incident_rows.select_refused_under(connection, fingerprint)

    def remarks(self, incidents: Iterable[str]) -> dict[str, Annotations]:
        """Return what people said, by the ids of incidents; of the others nothing was."""
        with self._database.read() as connection:
            return incident_rows.select_annotations(connection, incidents)

    def changes(
        self, after: int, limit: int = 100, *, instance: str | None = None
    ) -> tuple[list[Incident], int]:
        """Return what has changed since, in the order of changes, and where to go on after it.

        With an `instance`, what that one saw; else what all saw, each incident once.
        """
        with self._database.read() as connection:
            return incident_rows.select_changes(connection, after, limit, instance)

    def last_change(self) -> int:
        """Return where `changes` goes on from for what changes from now on."""
        with self._database.read() as connection:
            return incident_rows.select_last_change(connection)

    def sweep(self) -> bool:
        """Drop a slice of what is too old or too much; say whether there is more of it."""
        with self._database.write() as connection:
            is_more = retention.drop_expired(connection, self._settings, self._clock())
            surplus = retention.surplus_pages(connection, self._settings.max_size)
        if surplus:
            self._database.shrink(min(surplus, retention.MAX_PAGES_FREED))
        return is_more or surplus > retention.MAX_PAGES_FREED

    def _rows(self, items: Iterable[T], rows_of: Callable[[T], list[Row]]) -> list[Row]:
        """Make rows, with a rest now and then; what none can be made of is left out."""
        found: list[Row] = []
        for number, item in enumerate(items, 1):
            try:
                found += rows_of(item)
            except (TypeError, ValueError, OverflowError) as error:
                self.unwritable += 1
                log.error("cannot be kept in the history: %s", type(error).__name__)
            if not number % ROWS_PER_BURST:
                time.sleep(BURST_PAUSE_S)
        return found
