"""Stored incidents: the parts that instances write, and one row for each whole incident.

The rows are for lists, groups and bulk changes, which must not decode every part.
"""

from __future__ import annotations

import logging
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from operator import attrgetter
from typing import Any, Literal, NamedTuple, TypedDict, Unpack

import msgspec

from looptrap.database.database import (
    NEWEST,
    Connection,
    Database,
    Page,
    Row,
    encode_struct,
    storable,
)
from looptrap.incident.model import Incident, IncidentStep, Label, add_step, merge_parts
from looptrap.money.price import nano, usd

log = logging.getLogger("looptrap")

_PART_FIELDS = (
    "id", "instance", "opened", "last", "closed", "caller", "project", "session", "rule", "model",
)  # fmt: skip
PART_COLUMNS = (*_PART_FIELDS, "body")
_PART_KEY = ("id", "instance")

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


_PARTS_OF = "FROM part WHERE id = ANY(?)"


def parts_of(connection: Connection, ids: Sequence[str]) -> dict[str, list[Incident]]:
    """Return the parts of incidents by id; unknown ids are left out."""
    by_id: dict[str, list[Incident]] = defaultdict(list)
    rows = connection.execute(f"SELECT body {_PARTS_OF}", (list(ids),))
    for part in read_parts(body for (body,) in rows):
        by_id[part.id].append(part)
    return by_id


def merged(connection: Connection, ids: Sequence[str]) -> list[Incident]:
    """Return merged incidents in the order given; unknown ids are left out."""
    by_id = parts_of(connection, ids)
    return [merge_parts(by_id[one]) for one in ids if one in by_id]


_NAMES = ("id", "caller", "project", "session", "rule", "model")
_COLUMNS = (
    *_NAMES, "rules", "opened", "last", "closed", "hits", "calls", "refused", "cost", "saved",
)  # fmt: skip


def put_parts(connection: Connection, parts: Sequence[tuple[Incident, Row]]) -> None:
    """Write parts, each with its row, and the rows of their incidents; their ids are locked.

    Of two states of a part the later one stays.
    """
    if connection.is_shared:
        parts = _without_outdated(connection, parts)
    _replace_parts(connection, [row for _, row in parts])
    alone = {part.id: [part] for part, _ in parts}
    several = connection.execute(
        f"SELECT id {_PARTS_OF} GROUP BY id HAVING count(*) > 1", (list(alone),)
    )
    found = alone | parts_of(connection, [incident_id for (incident_id,) in several])
    _put_incidents(connection, found.values())


def _without_outdated(
    connection: Connection, parts: Sequence[tuple[Incident, Row]]
) -> list[tuple[Incident, Row]]:
    """Leave out parts that another instance knew at an earlier time than what is stored."""
    ids = sorted({part.id for part, _ in parts})
    rows = connection.execute(f"SELECT id, instance, last {_PARTS_OF}", (ids,))
    stored = {(incident_id, instance): last for incident_id, instance, last in rows}
    return [
        (part, row)
        for part, row in parts
        if stored.get((part.id, part.instance), part.last) <= part.last
    ]


def renumber(connection: Connection, incident_id: str) -> None:
    """Give the parts of an incident new change numbers, so that readers of changes see them."""
    columns = ", ".join(PART_COLUMNS)
    rows = connection.execute(f"SELECT {columns} FROM part WHERE id = ?", (incident_id,))
    _replace_parts(connection, rows.fetchall())


def _replace_parts(connection: Connection, rows: Sequence[Row]) -> None:
    connection.replace("part", PART_COLUMNS, _PART_KEY, rows)


def _put_incidents(connection: Connection, found: Iterable[Sequence[Incident]]) -> None:
    rows = [incident_row(same) for same in found]
    connection.replace("incident", _COLUMNS, ("id",), rows)


def incident_row(parts: Sequence[Incident]) -> Row:
    whole = merge_parts(parts)
    # Any instance may describe it by another rule: with line breaks, each is found as a whole.
    rules = "\n".join(("", *sorted({part.rule for part in parts}), ""))
    names = [getattr(whole, name) for name in _NAMES]
    amounts = [None if one is None else nano(one) for one in (whole.spent_usd, whole.saved_usd)]
    times = whole.opened, whole.last, whole.closed
    return storable(*names, rules, *times, whole.hits, whole.calls, whole.refused, *amounts)


_UNLISTED = (
    "SELECT DISTINCT id FROM part"
    " WHERE NOT EXISTS (SELECT 1 FROM incident i WHERE i.id = part.id) LIMIT ?"
)


def list_unlisted(connection: Connection, limit: int) -> bool:
    """Make rows for incidents of an earlier version; return whether there may be more."""
    ids = [incident_id for (incident_id,) in connection.execute(_UNLISTED, (limit,))]
    found = parts_of(connection, ids)
    _put_incidents(connection, found.values())
    return len(ids) == limit and bool(found)


def close_parts(connection: Connection, ids: Sequence[str], now: float) -> None:
    """Close all open parts of these incidents."""
    found = parts_of(connection, ids)
    closing = [part for parts in found.values() for part in parts if part.closed is None]
    for part in closing:
        part.closed = now
        add_step(part, IncidentStep(now, "closed"))
    put_parts(connection, [(part, part_row(part)) for part in closing])


def drop_closed(connection: Connection, before: float, limit: int) -> int:
    """Drop the oldest closed incidents, with all their parts; return how many rows."""
    ids = [
        incident_id
        for (incident_id,) in connection.execute(
            "SELECT id FROM incident WHERE closed IS NOT NULL AND last < ? ORDER BY last LIMIT ?",
            (before, limit),
        )
    ]
    connection.execute("DELETE FROM incident WHERE id = ANY(?)", (ids,))
    return connection.execute(f"DELETE {_PARTS_OF}", (ids,)).rowcount


IncidentState = Literal["open", "closed", "all"]
IncidentOrder = Literal["newest", "cost", "count", "saved"]
IncidentGrouping = Literal["all", "caller", "project", "rule", "model", "caller,rule,model"]


class IncidentFilter(TypedDict, total=False):
    """Which incidents; None, or nothing, for any.

    `since` and `until` bound the time of their calls; `rule` matches the rule of any part, `q` a
    piece of the id, caller, session, rule or model.
    """

    state: IncidentState
    ids: Sequence[str] | None
    caller: str | None
    project: str | None
    session: str | None
    rule: str | None
    model: str | None
    since: float | None
    until: float | None
    label: Label | None
    acknowledged: bool | None
    q: str | None


_SEARCHED = " || '\n' || ".join(f"p.{one}" for one in ("id", "caller", "session", "rules", "model"))

_FILTERS = {
    "ids": "p.id = ANY(:ids)",
    **{name: f"p.{name} = :{name}" for name in ("caller", "project", "session", "model")},
    "rule": "instr(p.rules, :rule) > 0",
    "since": "p.last >= :since",
    "until": "p.opened < :until",
    "label": "(SELECT text FROM remark r WHERE r.incident = p.id AND r.kind = 'label'"
    " ORDER BY r.time DESC, r.id DESC LIMIT 1) = :label",
    "acknowledged": "EXISTS (SELECT 1 FROM remark r WHERE r.incident = p.id"
    " AND r.kind = 'acknowledge') = :acknowledged",
    "q": f"instr(lower({_SEARCHED}), lower(:q)) > 0",
}
_STATES: dict[IncidentState, list[str]] = {
    "open": ["p.closed IS NULL"], "closed": ["p.closed IS NOT NULL"], "all": [],
}  # fmt: skip

# What has no price comes last.
_ORDERS: dict[IncidentOrder, str] = {
    "newest": "p.opened",
    "cost": "coalesce(p.cost, -1)",
    "count": "p.hits",
    "saved": "coalesce(p.saved, -1)",
}
_GROUP_ORDERS: dict[IncidentOrder, str] = {
    "newest": "max(last)",
    "cost": "coalesce(sum(cost), -1)",
    "count": "sum(incidents)",
    "saved": "coalesce(sum(saved), -1)",
}

MAX_SORTED_CANDIDATES = 5_000
"""Up to this many candidates, sorting them is faster than scanning a long history."""


class IncidentGroup(NamedTuple):
    """Sums of incidents with the same caller, project, rule or model."""

    by: dict[str, str]
    incidents: int
    open: int
    callers: int
    opened: float
    """When the first of them opened …"""
    last: float
    """… and their latest call."""
    hits: int
    refused: int
    cost: int | None
    """In nano-dollars; None if none of them has a price."""
    saved: int | None

    @property
    def spent_usd(self) -> float | None:
        """What their allowed calls cost."""
        return None if self.cost is None else usd(self.cost)

    @property
    def saved_usd(self) -> float | None:
        """What their refused calls would have cost."""
        return None if self.saved is None else usd(self.saved)


class IncidentQuery:
    """Queries on incidents; they wait for the disk: call them from a thread."""

    def __init__(self, database: Database) -> None:
        self._database = database

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
            page = _find_ids(connection, wanted, order, limit, cursor)
            return Page(merged(connection, page.items), page.next_cursor)

    def incident_ids(
        self, limit: int, order: IncidentOrder = "newest", **wanted: Unpack[IncidentFilter]
    ) -> list[str]:
        """Return the ids of incidents, in the order of `incidents`."""
        with self._database.read() as connection:
            return _find_ids(connection, wanted, order, limit).items

    def incidents_of(self, ids: Sequence[str]) -> list[Incident]:
        """Return incidents in the order of their ids; unknown ids are left out."""
        with self._database.read() as connection:
            return merged(connection, ids)

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
        names = [] if by == "all" else by.split(",")
        skipped = 0 if cursor is None else int(cursor)
        if not 0 <= skipped <= NEWEST:
            raise ValueError("the cursor is not one that a page returned")
        columns = "".join(f"{name}, " for name in names)
        # By caller first: to count distinct callers, PostgreSQL would sort all incidents.
        of_callers = ", ".join(dict.fromkeys([*names, "caller"]))
        with self._database.read() as connection:
            where, values = _conditions(connection, wanted)
            by_caller = (
                f"SELECT {of_callers}, count(*) AS incidents,"
                " count(*) FILTER (WHERE closed IS NULL) AS open, min(opened) AS opened,"
                " max(last) AS last, sum(hits) AS hits, sum(refused) AS refused,"
                " sum(cost) AS cost, sum(saved) AS saved"
                f" FROM incident p WHERE {' AND '.join(where)} GROUP BY {of_callers}"
            )
            rows = connection.execute(
                f"SELECT {columns}{_sums('incidents', 'open')}, count(DISTINCT caller),"
                f" min(opened), max(last), {_sums('hits', 'refused', 'cost', 'saved')}"
                f" FROM ({by_caller}) AS of_callers"
                f" {f'GROUP BY {columns[:-2]}' if names else ''} HAVING count(*) > 0"
                f" ORDER BY {', '.join([f'{_GROUP_ORDERS[order]} DESC', *names])}"
                " LIMIT :limit OFFSET :skipped",
                {**values, "limit": limit + 1, "skipped": skipped},
            ).fetchall()
        width = len(names)
        found = [
            IncidentGroup(dict(zip(names, row[:width], strict=True)), *row[width:])
            for row in rows[:limit]
        ]
        return Page(found, str(skipped + limit) if len(rows) > limit else None)

    def incident(self, incident_id: str) -> Incident | None:
        """Return the incident with this id, or the only one whose id begins with it."""
        with self._database.read() as connection:
            found = merged(connection, [incident_id])
            if not found and incident_id:
                rows = connection.execute(
                    "SELECT DISTINCT id FROM part WHERE id >= ? AND id < ? LIMIT 2",
                    (incident_id, incident_id + "\U0010ffff"),
                ).fetchall()
                found = merged(connection, rows[0]) if len(rows) == 1 else []
        return found[0] if found else None

    def refused_under(self, fingerprint: str) -> list[str]:
        """Return the ids of open incidents with recent refusals under this fingerprint."""
        with self._database.read() as connection:
            rows = connection.execute(
                "SELECT DISTINCT id FROM part WHERE closed IS NULL AND instr(body, ?) > 0",
                (fingerprint.encode(errors="replace"),),
            )
            found = merged(connection, [incident_id for (incident_id,) in rows])
        return [one.id for one in found if fingerprint in one.fingerprints]


def _find_ids(
    connection: Connection,
    wanted: IncidentFilter,
    order: IncidentOrder,
    limit: int,
    cursor: str | None = None,
) -> Page[str]:
    """Return a page of ids, the highest first; raise ValueError for an invalid cursor."""
    where, values = _conditions(connection, wanted)
    value = _ORDERS[order]
    if cursor is not None:
        where += [f"({value}, p.id) < (:after, :after_id)"]
        values["after"], values["after_id"] = _parse_cursor(cursor, order)
    rows = connection.execute(
        f"SELECT {value}, p.id FROM incident p {_index(connection, wanted, order)}"
        f" WHERE {' AND '.join(where)} ORDER BY {value} DESC, p.id DESC LIMIT :limit",
        {**values, "limit": limit + 1},
    ).fetchall()
    ids = [incident_id for _, incident_id in rows[:limit]]
    return Page(ids, cursor_of(*rows[limit - 1]) if len(rows) > limit else None)


def _sums(*names: str) -> str:
    return ", ".join(f"CAST(sum({name}) AS bigint)" for name in names)


def cursor_of(value: float, incident_id: str) -> str:
    """Return the cursor of the page after an incident with that value in the order."""
    return f"{value!r}~{incident_id}"


def _conditions(connection: Connection, wanted: IncidentFilter) -> tuple[list[str], dict[str, Any]]:
    values: dict[str, Any] = {name: one for name, one in wanted.items() if one is not None}
    where = ["TRUE", *_STATES[values.pop("state", "all")], *(_FILTERS[name] for name in values)]
    if "ids" in values:
        values["ids"] = list(values["ids"])
    if "rule" in values:
        values["rule"] = f"\n{values['rule']}\n"
    if "q" in values and connection.is_shared:
        # PostgreSQL has an index for it, where it has the extension pg_trgm.
        where[where.index(_FILTERS["q"])] = f"lower({_SEARCHED}) LIKE :q ESCAPE '!'"
        values["q"] = f"%{_pattern(values['q'])}%"
    return where, values


def _pattern(piece: str) -> str:
    """Return the pattern of LIKE for a piece; letters beyond ASCII stay as they are."""
    lower = piece.encode(errors="replace").lower().decode()
    return re.sub("[%_!]", r"!\g<0>", lower)


def _index(connection: Connection, wanted: Mapping[str, Any], order: IncidentOrder) -> str:
    """Return the index to scan: by time of opening, or of the last call where these are few."""
    since = wanted.get("since")
    if order != "newest" or wanted.get("ids") is not None:
        return ""
    if wanted.get("state") == "open":
        return "INDEXED BY incident_open"
    if since is not None:
        few = f"SELECT 1 FROM incident WHERE last >= ? LIMIT {MAX_SORTED_CANDIDATES}"
        (number,) = connection.execute(f"SELECT count(*) FROM ({few}) few", (since,)).fetchone()
        if number < MAX_SORTED_CANDIDATES:
            return "INDEXED BY incident_last"
    return "INDEXED BY incident_opened"


def _parse_cursor(cursor: str, order: IncidentOrder) -> tuple[float, str]:
    value, separator, incident_id = cursor.partition("~")
    number = float(value) if order == "newest" else int(value)
    if not separator or not abs(number) <= NEWEST:
        raise ValueError("the cursor is not one that a page returned")
    return number, incident_id
