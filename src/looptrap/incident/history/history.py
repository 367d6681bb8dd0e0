"""IncidentHistory: incidents, the outbox, usage, calls and the audit log in one SQLite file."""

from __future__ import annotations

import json
import logging
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from operator import attrgetter
from secrets import token_hex
from sqlite3 import Connection
from typing import Literal, TypeVar

import msgspec

from looptrap.database.database import (
    Database,
    Page,
    Row,
    encode_struct,
    insert_rows,
    without_surrogates,
)
from looptrap.incident.history import outbox, retention
from looptrap.incident.history.audit import AuditLog
from looptrap.incident.history.outbox import Outbox, OutgoingEvent
from looptrap.incident.model import (
    Annotation,
    Annotations,
    Incident,
    Label,
    collect_annotations,
    merge_parts,
)
from looptrap.incident.setting import IncidentSettings
from looptrap.usage import table
from looptrap.usage.call_log import CallLogSettings, CallRow
from looptrap.usage.call_table import MAX_ROWS_IN_MEMORY, CallQuery, put_calls
from looptrap.usage.model import UsageBatch
from looptrap.usage.table import UsageQuery

log = logging.getLogger("looptrap")

T = TypeVar("T")

_PART_FIELDS = (
    "id", "instance", "opened", "last", "closed", "caller", "project", "session", "rule", "model",
)  # fmt: skip
PART_COLUMNS = (*_PART_FIELDS, "body")
_INTO_PART = f"INSERT OR REPLACE INTO part ({', '.join(PART_COLUMNS)}) "

_part_values = attrgetter(*_PART_FIELDS)
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Incident).decode


def part_row(part: Incident) -> Row:
    """Return the values of PART_COLUMNS."""
    part, body = encode_struct(_encode, part)
    return (*_part_values(part), body)


def read_parts(bodies: Iterable[bytes]) -> list[Incident]:
    """Decode parts; one that cannot be decoded is skipped and logged."""
    found = []
    for body in bodies:
        try:
            found.append(_decode(body))
        except (msgspec.MsgspecError, UnicodeDecodeError):
            log.warning("history: an incident cannot be read")
    return found


IncidentState = Literal["open", "closed", "all"]

_SEARCHED = ("id", "caller", "session", "rule", "model")

# Caller, project and session are the same in all parts of an incident, the rule is not.
_FILTERS = {
    "caller": "p.caller = :caller",
    "project": "p.project = :project",
    "session": "p.session = :session",
    "rule": "EXISTS (SELECT 1 FROM part f WHERE f.id = p.id AND f.rule = :rule)",
    "since": "EXISTS (SELECT 1 FROM part f WHERE f.id = p.id AND f.last >= :since)",
    "label": "(SELECT text FROM remark r WHERE r.incident = p.id AND r.kind = 'label'"
    " ORDER BY r.time DESC, r.id DESC LIMIT 1) = :label",
    "acknowledged": "EXISTS (SELECT 1 FROM remark r WHERE r.incident = p.id"
    " AND r.kind = 'acknowledge') = :acknowledged",
    # Without an index: a substring search has to read all rows.
    "q": "EXISTS (SELECT 1 FROM part f WHERE f.id = p.id"
    f" AND ({' OR '.join(f'instr(lower(f.{one}), lower(:q))' for one in _SEARCHED)}))",
}

# An incident is sorted by the part that was opened first.
_IS_FIRST = (
    "NOT EXISTS (SELECT 1 FROM part q WHERE q.id = p.id"
    " AND (q.opened, q.instance) < (p.opened, p.instance))"
)

_IS_CLOSED = "NOT EXISTS (SELECT 1 FROM part o WHERE o.id = p.id AND o.closed IS NULL)"

_OPEN = "SELECT id FROM part INDEXED BY part_open WHERE closed IS NULL"
_CLOSED_SINCE = (
    "SELECT id FROM part INDEXED BY part_closed WHERE closed IS NOT NULL AND last >= :since"
)

MAX_SORTED_CANDIDATES = 5_000
"""Up to this many candidates, sorting them is faster than scanning a long history."""

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

# Replacing a part gives it a new change number, so that readers of changes see it.
_RENUMBER = f"{_INTO_PART} SELECT {', '.join(PART_COLUMNS)} FROM part WHERE id = ?"

NO_CALL_LOG = CallLogSettings(enabled=False)

ROWS_PER_BURST, BURST_PAUSE_S = 256, 0.002
"""Rows encoded at a time, and the pause after them: encoding holds the interpreter lock."""


class IncidentHistory:
    """Stores incidents in a file that other processes may have open too.

    Everything but `id` waits for the disk: call it from a thread. Without a `path` it is kept in
    memory, for this process only.
    """

    def __init__(
        self,
        path: str,
        settings: IncidentSettings,
        call_log: CallLogSettings = NO_CALL_LOG,
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.unwritable = 0
        """Incidents and events that could not be encoded."""
        self._settings = settings
        self._call_log = call_log
        if not path:
            max_rows = min(call_log.max_rows, MAX_ROWS_IN_MEMORY)
            self._call_log = replace(call_log, max_rows=max_rows)
        self._clock = clock
        self._database = Database(path, token_hex(8))
        self.open = self._database.open
        self.close = self._database.close
        self.outbox = Outbox(self._database, clock)
        self.usage = UsageQuery(self._database, clock)
        self.calls = CallQuery(self._database)
        self.audit = AuditLog(self._database, clock)

    @property
    def id(self) -> str:
        """The unique id of this history, made once with the file."""
        return self._database.id

    def put(
        self,
        incidents: Iterable[Incident] = (),
        events: Iterable[OutgoingEvent] = (),
        spending: UsageBatch | None = None,
        annotations: Sequence[Annotation] = (),
        calls: Sequence[CallRow] = (),
    ) -> None:
        """Write incidents, events, usage, annotations and calls: all or nothing.

        A delivery that exists is left alone; usage is added to what is there. Raises sqlite3.Error.
        """
        now = self._clock()
        parts = self._rows(incidents, lambda one: [part_row(one)])
        deliveries = self._rows(events, lambda one: outbox.delivery_rows(one, now))
        if not (parts or deliveries or spending or annotations or calls):
            return
        with self._database.write() as connection:
            insert_rows(connection, f"{_INTO_PART} VALUES ", parts)
            insert_rows(connection, outbox.INSERT_DELIVERY, deliveries, outbox.SKIP_EXISTING)
            if spending:
                table.put_usage(connection, self.id, spending)
            _put_annotations(connection, annotations)
            put_calls(connection, calls)

    def open_incidents(self, instance: str | None = None) -> list[Incident]:
        """Return the open parts of one instance or of all, the oldest first."""
        rows = self._database.query(
            "SELECT body FROM part WHERE closed IS NULL AND instance = coalesce(?, instance)"
            " ORDER BY opened",
            (instance,),
        )
        return read_parts(body for (body,) in rows)

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
        values = {
            "caller": caller, "project": project, "session": session, "rule": rule, "since": since,
            "label": label, "acknowledged": acknowledged, "q": q, "limit": limit + 1,
        }  # fmt: skip
        where = [clause for name, clause in _FILTERS.items() if values[name] is not None]
        if state == "closed":
            where.append(_IS_CLOSED)
        if cursor is not None:
            where.append("(p.opened, p.id) < (:opened, :id)")
            values["opened"], values["id"] = _parse_cursor(cursor)
        with self._database.read() as connection:
            rows = connection.execute(
                f"SELECT p.opened, p.id FROM {_source(connection, state, since)}"
                f" WHERE {' AND '.join([*where, _IS_FIRST])}"
                " ORDER BY p.opened DESC, p.id DESC LIMIT :limit",
                values,
            ).fetchall()
            found = _merged(connection, [incident_id for _, incident_id in rows[:limit]])
        if len(rows) <= limit:
            return Page(found, None)
        opened, incident_id = rows[limit - 1]
        return Page(found, f"{opened!r}~{incident_id}")

    def incident(self, incident_id: str) -> Incident | None:
        """Return the incident with this id, or the only one whose id begins with it."""
        with self._database.read() as connection:
            found = _merged(connection, [incident_id])
            if not found and incident_id:
                rows = connection.execute(
                    "SELECT DISTINCT id FROM part WHERE id >= ? AND id < ? LIMIT 2",
                    (incident_id, incident_id + "\U0010ffff"),
                ).fetchall()
                found = _merged(connection, rows[0]) if len(rows) == 1 else []
        return found[0] if found else None

    def refused_under(self, fingerprint: str) -> list[str]:
        """Return the ids of open incidents with recent refusals under this fingerprint."""
        with self._database.read() as connection:
            rows = connection.execute(
                "SELECT DISTINCT id FROM part WHERE closed IS NULL"
                " AND instr(body, CAST(? AS BLOB))",
                (fingerprint,),
            )
            found = _merged(connection, [incident_id for (incident_id,) in rows])
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
                return read_parts(body for _, _, body in rows), last
            # What changed twice is sorted by its last change.
            latest = {incident_id: change for change, incident_id, _ in rows}
            return _merged(connection, sorted(latest, key=latest.__getitem__)), last

    def last_change(self) -> int:
        """Return the number from which `changes` returns only later changes."""
        with self._database.read() as connection:
            return _last_change(connection)

    def sweep(self) -> bool:
        """Drop a slice of what is expired or too large; return whether there is more."""
        with self._database.write() as connection:
            has_more = retention.drop_expired(
                connection, self._settings, self._call_log, self._clock()
            )
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


def _source(connection: Connection, state: IncidentState, since: float | None) -> str:
    """Return the FROM clause: all parts by time, or the candidates where these are few."""
    candidates = ""
    if state == "open":
        candidates = f"SELECT DISTINCT id FROM ({_OPEN})"
    elif since is not None:
        counted = f"SELECT count(*) FROM ({_CLOSED_SINCE} LIMIT {MAX_SORTED_CANDIDATES})"
        if connection.execute(counted, {"since": since}).fetchone()[0] < MAX_SORTED_CANDIDATES:
            candidates = f"{_CLOSED_SINCE} UNION {_OPEN}"
    return f"({candidates}) few CROSS JOIN part p ON p.id = few.id" if candidates else "part p"


def _merged(connection: Connection, ids: Sequence[str]) -> list[Incident]:
    """Return merged incidents in the order given; unknown ids are left out."""
    by_id: dict[str, list[Incident]] = defaultdict(list)
    rows = connection.execute(
        "SELECT body FROM part WHERE id IN (SELECT value FROM json_each(?))", (json.dumps(ids),)
    )
    for part in read_parts(body for (body,) in rows):
        by_id[part.id].append(part)
    return [merge_parts(by_id[one]) for one in ids if one in by_id]


def _last_change(connection: Connection) -> int:
    return int(connection.execute("SELECT max(change) FROM part").fetchone()[0] or 0)


def _parse_cursor(cursor: str) -> tuple[float, str]:
    opened, separator, incident_id = cursor.partition("~")
    if not separator:
        raise ValueError("the cursor is not one that a page returned")
    return float(opened), incident_id


def _put_annotations(connection: Connection, annotations: Iterable[Annotation]) -> None:
    """Store annotations; the incidents of new ones count as changed."""
    changed: set[str] = set()
    for one in annotations:
        row = (one.id, one.incident, one.time, one.by, one.kind, without_surrogates(one.text))
        if connection.execute(_PUT_ANNOTATION, row).rowcount:
            changed.add(one.incident)
            if one.kind == "label":
                connection.execute(_DROP_LABELS, {"incident": one.incident})
    for incident in sorted(changed):
        connection.execute(_RENUMBER, (incident,))
