"""Remarks as they are kept: what people said of incidents, each thing once."""

from __future__ import annotations

import json
from collections.abc import Iterable
from math import inf
from sqlite3 import Connection

from looptrap.incident.history.part import COLUMNS, whole
from looptrap.incident.history.rows import Row
from looptrap.incident.remark import Remark, Remarks, gathered

MOST_LOST = 10_000
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
    f"INSERT OR REPLACE INTO part ({', '.join(COLUMNS)})"
    f" SELECT {', '.join(COLUMNS)} FROM part WHERE id = ?"
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


def put(connection: Connection, remarks: Iterable[Remark]) -> None:
    """Keep remarks; the incidents of those that are new have changed."""
    renewed: set[str] = set()
    for one in remarks:
        if connection.execute(_PUT, _row(one)).rowcount:
            renewed.add(one.incident)
            if one.kind == "label":
                connection.execute(_DROP_LABELS, {"incident": one.incident})
    for incident in sorted(renewed):
        connection.execute(_RENEW, (incident,))


def of(connection: Connection, incidents: Iterable[str]) -> dict[str, Remarks]:
    """Return what was said, by incident; those of which nothing was are left out."""
    found: dict[str, list[Remark]] = {}
    rows = connection.execute(
        f"SELECT {', '.join(_FIELDS)} FROM remark"
        " WHERE incident IN (SELECT value FROM json_each(?))",
        (json.dumps(list(incidents)),),
    )
    for row in rows:
        one = Remark(**dict(zip(_FIELDS, row, strict=True)))
        found.setdefault(one.incident, []).append(one)
    return {incident: gathered(some) for incident, some in found.items()}


def drop(connection: Connection, before: float, most: int) -> int:
    """Drop remarks on incidents that are gone, once they are as old; return how many went."""
    dropped = connection.execute(_DROP, (before, most)).rowcount
    (lost,) = connection.execute(_LOST).fetchone()
    surplus = min(max(lost - MOST_LOST, 0), most)
    return dropped + connection.execute(_DROP, (inf, surplus)).rowcount


def _row(one: Remark) -> Row:
    return one.id, one.incident, one.time, one.by, one.kind, whole(one.text)
