"""Incidents as rows: what each instance saw, what people said, and both together."""

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
    """Return the values of COLUMNS."""
    try:
        body = _encode(part)
    except UnicodeEncodeError:  # a client may name its session with half a character
        part = struct_without_surrogates(part)
        body = _encode(part)
    return (
        part.id, part.instance, part.opened, part.last, part.closed,
        part.caller, part.project, part.session, part.rule, part.model, body,
    )  # fmt: skip


def read_parts(bodies: Iterable[bytes]) -> list[Incident]:
    """Read parts; one that cannot be read is left out, and a line says so."""
    found = []
    for body in bodies:
        try:
            found.append(_decode(body))
        except (msgspec.MsgspecError, UnicodeDecodeError):
            log.warning("the history has an incident that cannot be read")
    return found


IncidentState = Literal["open", "closed", "all"]

_SEARCHED = ("id", "caller", "session", "rule", "model")

# The caller, project and session of an incident are the same for all who see it, the rule is not.
_FITS = {
    "rule": "EXISTS (SELECT 1 FROM part f WHERE f.id = p.id AND f.rule = :rule)",
    "label": "(SELECT text FROM remark r WHERE r.incident = p.id AND r.kind = 'label'"
    " ORDER BY r.time DESC, r.id DESC LIMIT 1) = :label",
    "acknowledged": "EXISTS (SELECT 1 FROM remark r WHERE r.incident = p.id"
    " AND r.kind = 'acknowledge') = :acknowledged",
    # Without an index: to find a piece of a text, all of them have to be looked at.
    "q": "EXISTS (SELECT 1 FROM part f WHERE f.id = p.id"
    f" AND ({' OR '.join(f'instr(lower(f.{one}), lower(:q))' for one in _SEARCHED)}))",
}

# An incident stands where the first of its parts was opened.
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
"""So many can be sorted sooner than a long history is looked through."""


def select_incidents(
    connection: Connection,
    state: IncidentState,
    fitting: Mapping[str, str | bool | None],
    since: float | None,
    limit: int,
    cursor: str | None,
) -> Page[Incident]:
    """Return a page of incidents, the latest opened first."""
    where = []
    values: dict[str, object] = {"since": since, "limit": limit + 1}
    for column, value in fitting.items():
        if value is not None:
            where.append(_FITS.get(column, f"p.{column} = :{column}"))
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
    """Return where to look: among all by time, or where only few can fit, among these."""
    few = ""
    if state == "open":
        few = f"SELECT DISTINCT id FROM ({_OPEN})"
    elif since is not None:
        counted = f"SELECT count(*) FROM ({_CLOSED_SINCE} LIMIT {MAX_SORTED_CANDIDATES})"
        if connection.execute(counted, {"since": since}).fetchone()[0] < MAX_SORTED_CANDIDATES:
            few = f"{_CLOSED_SINCE} UNION {_OPEN}"
    return f"({few}) few CROSS JOIN part p ON p.id = few.id" if few else "part p"


def select_incident(connection: Connection, incident_id: str) -> Incident | None:
    """Return the incident of that id, or the only one whose id begins so."""
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
    """Return the open incidents that were refused lately under that fingerprint."""
    rows = connection.execute(
        "SELECT DISTINCT id FROM part WHERE closed IS NULL AND instr(body, CAST(? AS BLOB))",
        (fingerprint,),
    ).fetchall()
    found = select_merged(connection, [incident_id for (incident_id,) in rows])
    return [one.id for one in found if fingerprint in one.fingerprints]


def select_changes(
    connection: Connection, after: int, limit: int, instance: str | None
) -> tuple[list[Incident], int]:
    """Return what changed after that change, in the order of changes, and the last of them."""
    whose = "" if instance is None else " AND instance = ?"
    rows = connection.execute(
        f"SELECT change, id, body FROM part WHERE change > ?{whose} ORDER BY change LIMIT ?",
        (after, *(() if instance is None else (instance,)), limit),
    ).fetchall()
    # Where there is no more, what others changed meanwhile is not to be looked through again.
    last = rows[-1][0] if len(rows) == limit else max(after, select_last_change(connection))
    if instance is not None:
        return read_parts(body for _, _, body in rows), last
    # What changed twice stands where it changed last.
    latest = {incident_id: change for change, incident_id, _ in rows}
    return select_merged(connection, sorted(latest, key=latest.__getitem__)), last


def select_last_change(connection: Connection) -> int:
    """Return the number of the last change."""
    return int(connection.execute("SELECT max(change) FROM part").fetchone()[0] or 0)


def select_merged(connection: Connection, ids: Iterable[str]) -> list[Incident]:
    """Return incidents in the order of their ids; those that are not there are left out."""
    wanted = list(ids)
    by_id: dict[str, list[Incident]] = defaultdict(list)
    rows = connection.execute(
        "SELECT body FROM part WHERE id IN (SELECT value FROM json_each(?))",
        (json.dumps(wanted),),
    )
    for part in read_parts(body for (body,) in rows):
        by_id[part.id].append(part)
    return [merge_parts(by_id[one]) for one in wanted if one in by_id]


def _parse_cursor(cursor: str) -> tuple[float, str]:
    """Read a cursor; raise ValueError where it is none."""
    opened, separator, incident_id = cursor.partition("~")
    if not separator:
        raise ValueError("a cursor is what the page before gave out")
    return float(opened), incident_id


MAX_ORPHANS = 10_000
"""Remarks on incidents that are not here: no more of them are waited for."""

_FIELDS = ("id", "incident", "time", "by", "kind", "text")

_PUT = f"INSERT OR IGNORE INTO remark ({', '.join(_FIELDS)}) VALUES (?, ?, ?, ?, ?, ?)"

# Only the latest label counts.
_DROP_LABELS = """
    DELETE FROM remark WHERE incident = :incident AND kind = 'label' AND (time, id) < (
        SELECT time, id FROM remark WHERE incident = :incident AND kind = 'label'
        ORDER BY time DESC, id DESC LIMIT 1
    )"""

# To put a part there again gives it another number: so those who follow changes hear of it.
_RENEW = (
    f"INSERT OR REPLACE INTO part ({', '.join(PART_COLUMNS)})"
    f" SELECT {', '.join(PART_COLUMNS)} FROM part WHERE id = ?"
)

# They may come before what they are about; and they go after it.
_DROP = """
    DELETE FROM remark WHERE id IN (
        SELECT id FROM remark WHERE time < ?
        AND NOT EXISTS (SELECT 1 FROM part WHERE part.id = remark.incident) LIMIT ?
    )"""

_LOST = (
    "SELECT count(*) FROM remark"
    " WHERE NOT EXISTS (SELECT 1 FROM part WHERE part.id = remark.incident)"
)


def put_annotations(connection: Connection, remarks: Iterable[Annotation]) -> None:
    """Keep remarks; the incidents of those that are new have changed."""
    renewed: set[str] = set()
    for one in remarks:
        if connection.execute(_PUT, _row(one)).rowcount:
            renewed.add(one.incident)
            if one.kind == "label":
                connection.execute(_DROP_LABELS, {"incident": one.incident})
    for incident in sorted(renewed):
        connection.execute(_RENEW, (incident,))


def select_annotations(connection: Connection, incidents: Iterable[str]) -> dict[str, Annotations]:
    """Return what was said, by incident; those of which nothing was are left out."""
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


def drop_annotations(connection: Connection, before: float, most: int) -> int:
    """Drop remarks on incidents that are gone, once they are as old; return how many went."""
    dropped = connection.execute(_DROP, (before, most)).rowcount
    (lost,) = connection.execute(_LOST).fetchone()
    surplus = min(max(lost - MAX_ORPHANS, 0), most)
    return dropped + connection.execute(_DROP, (inf, surplus)).rowcount


def _row(one: Annotation) -> Row:
    return one.id, one.incident, one.time, one.by, one.kind, without_surrogates(one.text)
