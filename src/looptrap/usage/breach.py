"""Breaches of budgets: which account refused calls, since when, how many, and their cost.

One row for each account and period, which several instances add to.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec.structs import astuple

from looptrap.database.database import MAX_FIGURE, Connection, Database, Page, Row, storable
from looptrap.money.meter import BudgetStatus

MAX_ROWS = 10_000
"""Clients name sessions, and each may have an account: beyond it, the oldest are dropped."""

_SLICE_ROWS = 500


def breach_id(status: BudgetStatus) -> str:
    """Return the id of a breach: the same on all instances."""
    return f"bud_{status.fingerprint}_{status.ends}"


class Breach(msgspec.Struct):
    """Calls that an exceeded account refused in one period, or in shadow mode would have."""

    id: str
    budget: str
    fingerprint: str
    """The account's; a reset names it."""
    by: str
    """Its descriptors and their values, as JSON."""
    unit: str
    mode: str
    project: str
    ends: int
    """When the period ends, in seconds since 1970; 0 where there is none."""
    opened: float
    last: float
    used: int
    """Spent and reserved at the latest call: nano-dollars, or tokens."""
    limit: int
    request_id: str
    refused: int = 1
    estimate: int = 0
    """What the input of refused calls would have cost, in nano-dollars …"""
    estimated: int = 0
    """… and how many of them have a price."""

    @classmethod
    def of(
        cls, status: BudgetStatus, now: float, project: str, request_id: str, estimate: int | None
    ) -> Breach:
        """Return the breach of one refused call."""
        return cls(
            id=breach_id(status),
            budget=status.budget,
            fingerprint=status.fingerprint,
            by=json.dumps(dict(status.by)),
            unit=status.unit,
            mode=status.mode,
            project=project,
            ends=status.ends,
            opened=now,
            last=now,
            used=min(status.used, MAX_FIGURE),
            limit=min(status.limit, MAX_FIGURE),
            request_id=request_id,
            estimate=min(estimate or 0, MAX_FIGURE),
            estimated=estimate is not None,
        )

    def add(self, other: Breach) -> None:
        """Add further refused calls."""
        self.opened = min(self.opened, other.opened)
        if other.last >= self.last:
            for name in ("last", "used", "limit", "request_id"):
                setattr(self, name, getattr(other, name))
        for name in ("refused", "estimate", "estimated"):
            setattr(self, name, min(getattr(self, name) + getattr(other, name), MAX_FIGURE))

    @property
    def descriptors(self) -> dict[str, str]:
        """The descriptors of the account, and their values."""
        found: dict[str, str] = json.loads(self.by)
        return found


# `limit` and `by` are words of SQL.
_COLUMNS = ", ".join(f'"{name}"' for name in Breach.__struct_fields__)
_ADDED = ", ".join(
    f"{name} = least(breach.{name} + excluded.{name}, {MAX_FIGURE})"
    for name in ("refused", "estimate", "estimated")
)
_LATEST = ", ".join(
    f'"{name}" = CASE WHEN excluded.last >= breach.last THEN excluded."{name}"'
    f' ELSE breach."{name}" END'
    for name in ("used", "limit", "request_id", "last")
)
_ADD = (
    "ON CONFLICT (id) DO UPDATE SET opened = least(breach.opened, excluded.opened),"
    f" {_ADDED}, {_LATEST}"
)


def breach_rows(breaches: Mapping[str, Breach]) -> list[Row]:
    """Return the rows to add to those stored, in an order that all writers keep."""
    return sorted(storable(*astuple(one)) for one in breaches.values())


def put_breaches(connection: Connection, rows: Sequence[Row]) -> None:
    """Add breaches to those stored."""
    found: dict[str, Breach] = {}
    for breach in (Breach(*row) for row in rows):
        if known := found.get(breach.id):
            known.add(breach)
        else:
            found[breach.id] = breach
    connection.insert("breach", Breach.__struct_fields__, breach_rows(found), _ADD)


def drop_breaches(connection: Connection, before: float) -> int:
    """Drop a slice of the breaches that are expired or too many; return how many."""
    return connection.drop_oldest("breach", ["id"], before, MAX_ROWS, _SLICE_ROWS)


class BreachQuery:
    """Queries on breaches; they wait for the disk: call them from a thread."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def breaches(
        self, *, budget: str | None = None, limit: int = 50, cursor: str | None = None
    ) -> Page[Breach]:
        """Return a page of breaches, the latest first; raise ValueError for an invalid cursor."""
        values: dict[str, Any] = {"budget": budget, "limit": limit + 1}
        where = "budget = coalesce(:budget, budget)"
        if cursor is not None:
            last, separator, values["id"] = cursor.partition("~")
            if not separator:
                raise ValueError("the cursor is not one that a page returned")
            values["last"] = float(last)
            where += " AND (last, id) < (:last, :id)"
        rows = self._database.query(
            f"SELECT {_COLUMNS} FROM breach WHERE {where} ORDER BY last DESC, id DESC LIMIT :limit",
            values,
        )
        found = [Breach(*row) for row in rows[:limit]]
        return Page(found, f"{found[-1].last!r}~{found[-1].id}" if len(rows) > limit else None)

    def breach(self, id: str) -> Breach | None:
        """Return the breach with this id."""
        rows: list[Row] = self._database.query(f"SELECT {_COLUMNS} FROM breach WHERE id = ?", (id,))
        return Breach(*rows[0]) if rows else None
