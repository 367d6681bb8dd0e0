"""Incidents to be shown and followed: what all instances saw of each, added up."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping
from sqlite3 import Connection
from typing import Literal

from looptrap.incident.history.page import Page
from looptrap.incident.history.part import parts_of
from looptrap.incident.merge import merged
from looptrap.incident.model import Incident

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

FEW = 5_000
"""So many can be sorted sooner than a long history is looked through."""


def incidents(
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
        values["opened"], values["id"] = _place(cursor)
    rows = connection.execute(
        f"SELECT p.opened, p.id FROM {_source(connection, state, since)}"
        f" WHERE {' AND '.join([*where, _IS_FIRST])}"
        " ORDER BY p.opened DESC, p.id DESC LIMIT :limit",
        values,
    ).fetchall()
    found = added_up(connection, [incident_id for _, incident_id in rows[:limit]])
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
        counted = f"SELECT count(*) FROM ({_CLOSED_SINCE} LIMIT {FEW})"
        if connection.execute(counted, {"since": since}).fetchone()[0] < FEW:
            few = f"{_CLOSED_SINCE} UNION {_OPEN}"
    return f"({few}) few CROSS JOIN part p ON p.id = few.id" if few else "part p"


def incident(connection: Connection, incident_id: str) -> Incident | None:
    """Return the incident of that id, or the only one whose id begins so."""
    found = added_up(connection, [incident_id])
    if found or not incident_id:
        return found[0] if found else None
    rows = connection.execute(
        "SELECT DISTINCT id FROM part WHERE id >= ? AND id < ? LIMIT 2",
        (incident_id, incident_id + "\U0010ffff"),
    ).fetchall()
    found = added_up(connection, [rows[0][0]]) if len(rows) == 1 else []
    return found[0] if found else None


def refused_under(connection: Connection, fingerprint: str) -> list[str]:
    """Return the open incidents that were refused lately under that fingerprint."""
    rows = connection.execute(
        "SELECT DISTINCT id FROM part WHERE closed IS NULL AND instr(body, CAST(? AS BLOB))",
        (fingerprint,),
    ).fetchall()
    found = added_up(connection, [incident_id for (incident_id,) in rows])
    return [one.id for one in found if fingerprint in one.fingerprints]


def changes(
    connection: Connection, after: int, limit: int, instance: str | None
) -> tuple[list[Incident], int]:
    """Return what changed after that change, in the order of changes, and the last of them."""
    whose = "" if instance is None else " AND instance = ?"
    rows = connection.execute(
        f"SELECT change, id, body FROM part WHERE change > ?{whose} ORDER BY change LIMIT ?",
        (after, *(() if instance is None else (instance,)), limit),
    ).fetchall()
    # Where there is no more, what others changed meanwhile is not to be looked through again.
    last = rows[-1][0] if len(rows) == limit else max(after, last_change(connection))
    if instance is not None:
        return parts_of(body for _, _, body in rows), last
    # What changed twice stands where it changed last.
    latest = {incident_id: change for change, incident_id, _ in rows}
    return added_up(connection, sorted(latest, key=latest.__getitem__)), last


def last_change(connection: Connection) -> int:
    """Return the number of the last change."""
    return int(connection.execute("SELECT max(change) FROM part").fetchone()[0] or 0)


def added_up(connection: Connection, ids: Iterable[str]) -> list[Incident]:
    """Return incidents in the order of their ids; those that are not there are left out."""
    wanted = list(ids)
    by_id: dict[str, list[Incident]] = defaultdict(list)
    rows = connection.execute(
        "SELECT body FROM part WHERE id IN (SELECT value FROM json_each(?))",
        (json.dumps(wanted),),
    )
    for part in parts_of(body for (body,) in rows):
        by_id[part.id].append(part)
    return [merged(by_id[one]) for one in wanted if one in by_id]


def _place(cursor: str) -> tuple[float, str]:
    """Read a cursor; raise ValueError where it is none."""
    opened, separator, incident_id = cursor.partition("~")
    if not separator:
        raise ValueError("a cursor is what the page before gave out")
    return float(opened), incident_id
