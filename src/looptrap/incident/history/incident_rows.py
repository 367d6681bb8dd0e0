"""Incidents and annotations as rows, and the queries on them."""

from __future__ import annotations

import json
import logging
from collections import defaultdict
from collections.abc import Iterable, Mapping
from math import inf
from sqlite3 import Connection
from typing import Literal, TypeVar

import msgspec

from looptrap.database.database import Page, Row, struct_without_surrogates, without_surrogates
from looptrap.incident.model import (
    Annotation,
    Annotations,
    Incident,
    collect_annotations,
    merge_parts,
)

PART_COLUMNS = (
    "id", "instance", "opened", "last", "closed", "caller", "project", "session", "rule", "model",
    "body",
)  # fmt: skip

INSERT_PART = f"INSERT OR REPLACE INTO part ({', '.join(PART_COLUMNS)}) VALUES "

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Incident).decode

log = logging.getLogger("looptrap")

T = TypeVar("T")


def part_row(part: Incident) -> Row:
    """Return the values of PART_COLUMNS."""
    try:
        body = _encode(part)
    except UnicodeEncodeError:  # a session name may hold half of a surrogate pair
        part = struct_without_surrogates(part)
        body = _encode(part)
    return (
        part.id, part.instance, part.opened, part.last, part.closed,
        part.caller, part.project, part.session, part.rule, part.model, body,
    )  # fmt: skip


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
    "rule": "EXISTS (SELECT 1 FROM part f WHERE f.id = p.id AND f.rule = :rule)",
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


def select_incidents(
    connection: Connection,
    state: IncidentState,
    filters: Mapping[str, str | bool | None],
    since: float | None,
    limit: int,
    cursor: str | None,
) -> Page[Incident]:
    """Return a page of incidents, the latest opened first."""
    where = []
    values: dict[str, object] = {"since": since, "limit": limit + 1}
    for column, value in filters.items():
        if value is not None:
            where.append(_FILTERS.get(column, f"p.{column} = :{column}"))
            values[column] = value
    if since is not None:
        where.append("EXISTS (SELECT 1 FROM part f WHERE f.id = p.id AND f.last >= :since)")
    if state == "closed":
        where.append(_IS_CLOSED)
    if cursor is not None:
        where.append("(p.opened, p.id) < (:opened, :id)")
        values["opened"], values["id"] = _parse_cursor(cursor)
    rows = connection.execute(
        f"SELECT p.opened, p.id FROM {_source(connection, state, since)}"
        f" WHERE {' AND '.join([*where, _IS_FIRST])}"
        " ORDER BY p.opened DESC, p.id DESC LIMIT :limit",
        values,
    ).fetchall()
    found = select_merged(connection, [incident_id for _, incident_id in rows[:limit]])
    if len(rows) <= limit:
        return Page(found, None)
    opened, incident_id = rows[limit - 1]
    return Page(found, f"{opened!r}~{incident_id}")


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


def select_incident(connection: Connection, incident_id: str) -> Incident | None:
    """Return the incident with this id, or the only one whose id begins with it."""
    found = select_merged(connection, [incident_id])
    if found or not incident_id:
        return found[0] if found else None
    rows = connection.execute(
        "SELECT DISTINCT id FROM part WHERE id >= ? AND id < ? LIMIT 2",
        (incident_id, incident_id + "\U0010ffff"),
    ).fetchall()
    found = select_merged(connection, [rows[0][0]]) if len(rows) == 1 else []
    return found[0] if found else None


def select_refused_under(connection: Connection, fingerprint: str) -> list[str]:
    """Return the ids of open incidents with recent refusals under this fingerprint."""
    rows = connection.execute(
        "SELECT DISTINCT id FROM part WHERE closed IS NULL AND instr(body, CAST(? AS BLOB))",
        (fingerprint,),
    ).fetchall()
    found = select_merged(connection, [incident_id for (incident_id,) in rows])
    return [one.id for one in found if fingerprint in one.fingerprints]


def select_changes(
    connection: Connection, after: int, limit: int, instance: str | None
) -> tuple[list[Incident], int]:
    """Return the changes after a number, in order, and the number of the last."""
    where = "" if instance is None else " AND instance = ?"
    rows = connection.execute(
        f"SELECT change, id, body FROM part WHERE change > ?{where} ORDER BY change LIMIT ?",
        (after, *(() if instance is None else (instance,)), limit),
    ).fetchall()
    # At the end, skip what other instances changed: it need not be scanned again.
    last = rows[-1][0] if len(rows) == limit else max(after, select_last_change(connection))
    if instance is not None:
        return read_parts(body for _, _, body in rows), last
    # What changed twice is sorted by its last change.
    latest = {incident_id: change for change, incident_id, _ in rows}
    return select_merged(connection, sorted(latest, key=latest.__getitem__)), last


def select_last_change(connection: Connection) -> int:
    """Return the number of the last change."""
    return int(connection.execute("SELECT max(change) FROM part").fetchone()[0] or 0)


def select_merged(connection: Connection, ids: Iterable[str]) -> list[Incident]:
    """Return merged incidents in the order given; unknown ids are left out."""
    wanted = list(ids)
    by_id: dict[str, list[Incident]] = defaultdict(list)
    rows = connection.execute(
        "SELECT body FROM part WHERE id IN (SELECT value FROM json_each(?))", (json.dumps(wanted),)
    )
    for part in read_parts(body for (body,) in rows):
        by_id[part.id].append(part)
    return [merge_parts(by_id[one]) for one in wanted if one in by_id]


def _parse_cursor(cursor: str) -> tuple[float, str]:
    """Parse a cursor; raise ValueError if it is invalid."""
    opened, separator, incident_id = cursor.partition("~")
    if not separator:
        raise ValueError("the cursor is not one that a page returned")
    return float(opened), incident_id


MAX_ORPHANS = 10_000
"""Annotations whose incident is not here yet; of more, the surplus is dropped."""

_FIELDS = ("id", "incident", "time", "by", "kind", "text")

_PUT = f"INSERT OR IGNORE INTO remark ({', '.join(_FIELDS)}) VALUES (?, ?, ?, ?, ?, ?)"

# Only the latest label counts.
_DROP_LABELS = """
    DELETE FROM remark WHERE incident = :incident AND kind = 'label' AND (time, id) < (
        SELECT time, id FROM remark WHERE incident = :incident AND kind = 'label'
        ORDER BY time DESC, id DESC LIMIT 1
    )"""

# Replacing a part gives it a new change number, so that readers of changes see it.
_RENUMBER = (
    f"INSERT OR REPLACE INTO part ({', '.join(PART_COLUMNS)})"
    f" SELECT {', '.join(PART_COLUMNS)} FROM part WHERE id = ?"
)

# An annotation may arrive before its incident, and is dropped after it.
_DROP = """
    DELETE FROM remark WHERE id IN (
        SELECT id FROM remark WHERE time < ?
        AND NOT EXISTS (SELECT 1 FROM part WHERE part.id = remark.incident) LIMIT ?
    )"""

_COUNT_ORPHANS = (
    "SELECT count(*) FROM remark"
    " WHERE NOT EXISTS (SELECT 1 FROM part WHERE part.id = remark.incident)"
)


def put_annotations(connection: Connection, annotations: Iterable[Annotation]) -> None:
    """Store annotations; the incidents of new ones count as changed."""
    changed: set[str] = set()
    for one in annotations:
        if connection.execute(_PUT, _row(one)).rowcount:
            changed.add(one.incident)
            if one.kind == "label":
                connection.execute(_DROP_LABELS, {"incident": one.incident})
    for incident in sorted(changed):
        connection.execute(_RENUMBER, (incident,))


def select_annotations(connection: Connection, incidents: Iterable[str]) -> dict[str, Annotations]:
    """Return annotations by incident id; incidents without any are left out."""
    found: dict[str, list[Annotation]] = {}
    rows = connection.execute(
        f"SELECT {', '.join(_FIELDS)} FROM remark"
        " WHERE incident IN (SELECT value FROM json_each(?))",
        (json.dumps(list(incidents)),),
    )
    for row in rows:
        one = Annotation(**dict(zip(_FIELDS, row, strict=True)))
        found.setdefault(one.incident, []).append(one)
    return {incident: collect_annotations(some) for incident, some in found.items()}


def drop_annotations(connection: Connection, before: float, limit: int) -> int:
    """Drop old annotations of incidents that are gone; return how many."""
    dropped = connection.execute(_DROP, (before, limit)).rowcount
    (orphans,) = connection.execute(_COUNT_ORPHANS).fetchone()
    surplus = min(max(orphans - MAX_ORPHANS, 0), limit)
    return dropped + connection.execute(_DROP, (inf, surplus)).rowcount


def _row(one: Annotation) -> Row:
    return one.id, one.incident, one.time, one.by, one.kind, without_surrogates(one.text)
