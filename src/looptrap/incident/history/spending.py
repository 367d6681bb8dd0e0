"""The books: what was spent, asked by time, and by caller, project, session, model or provider.

Times are met to the minute; what is more than two days old, to the hour.
"""

from __future__ import annotations

from collections.abc import Container
from sqlite3 import Connection
from typing import Any, Literal, NamedTuple

from looptrap.incident.history.booking import FIGURES
from looptrap.incident.history.database import Database
from looptrap.incident.spent import MINUTE, OTHER, Run, Session, Spent

By = Literal["caller", "project", "model", "provider"]
Order = Literal["cost", "refused", "calls", "tokens"]

MOST_LINES = 10
"""Names that a series tells apart; the rest of them is one."""

_SUMS = ", ".join(f"coalesce(sum({name}), 0) AS {name}" for name in FIGURES)
_WITHIN = "start >= :since AND start < :until"
_ORDERS: dict[Order, str] = {
    "cost": "cost", "refused": "refused", "calls": "calls", "tokens": "input_tokens + output_tokens"
}  # fmt: skip
_BY = ("caller", "project", "model", "provider")


class Share(NamedTuple):
    """What one caller, project, model or provider came to."""

    name: str
    spent: Spent


class Point(NamedTuple):
    """What came to pass from a time on, for as long as a step; of all, or of one name."""

    time: int
    name: str
    spent: Spent


class SessionShare(NamedTuple):
    """What one session came to, from its first call to its last."""

    session: Session
    run: Run


class Books:
    """Answers what was spent. Waits for the disk: ask it from a thread."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def totals(self, since: float, until: float) -> Spent:
        """Return what all came to."""
        with self._database.read() as connection:
            statement = f"SELECT {_SUMS} FROM spending WHERE {_WITHIN}"
            return Spent(*connection.execute(statement, _span(since, until)).fetchone())

    def series(
        self, since: float, until: float, step: int, by: By | None = None, most: int = MOST_LINES
    ) -> list[Point]:
        """Return what each step of time came to, in their order; steps without a call are left out.

        With `by`, each of the `most` costliest names apart, and the others under one name.
        """
        values: dict[str, Any] = {**_span(since, until), "step": step}
        name = "''"
        with self._database.read() as connection:
            if by is not None:
                known = _top(connection, by, "cost", values, most)
                values |= {f"name{i}": one.name for i, one in enumerate(known)}
                among = ", ".join(f":name{i}" for i in range(len(known)))
                name = f"CASE WHEN {by} IN ({among}) THEN {by} ELSE '{OTHER}' END"
            rows = connection.execute(
                f"SELECT start - start % :step AS time, {name} AS name, {_SUMS} FROM spending"
                f" WHERE {_WITHIN} GROUP BY 1, 2 ORDER BY 1, 2",
                values,
            ).fetchall()
        return [Point(time, named, Spent(*figures)) for time, named, *figures in rows]

    def top(
        self, by: By, since: float, until: float, *, order: Order = "cost", limit: int = 50
    ) -> list[Share]:
        """Return who or what came to the most, the first first."""
        with self._database.read() as connection:
            return _top(connection, by, order, _span(since, until), limit)

    def sessions(
        self, since: float, *, order: Order = "cost", limit: int = 50
    ) -> list[SessionShare]:
        """Return the sessions with a call since then that came to the most, in all their time."""
        names = ", ".join((*Session._fields, *Run.__struct_fields__))
        with self._database.read() as connection:
            rows = connection.execute(
                f"SELECT {names} FROM session WHERE last >= ?"
                f" ORDER BY {_checked(order, _ORDERS)} DESC, last DESC LIMIT ?",
                (since, limit),
            ).fetchall()
        return [SessionShare(Session(*row[:3]), Run(*row[3:])) for row in rows]


def _top(
    connection: Connection, by: By, order: Order, values: dict[str, Any], limit: int
) -> list[Share]:
    rows = connection.execute(
        f"SELECT {_checked(by, _BY)}, {_SUMS} FROM spending WHERE {_WITHIN} GROUP BY {by}"
        f" ORDER BY sum({_ORDERS[order]}) DESC, {by} LIMIT :limit",
        {**values, "limit": limit},
    ).fetchall()
    return [Share(name, Spent(*figures)) for name, *figures in rows]


def _checked(column: str, allowed: Container[str]) -> str:
    """Return a column that may stand in a statement."""
    if column not in allowed:
        raise ValueError(f"{column!r} is nothing that spending is told by")
    return column


def _span(since: float, until: float) -> dict[str, Any]:
    # A minute that has begun is told as a whole.
    return {"since": since // MINUTE * MINUTE, "until": until}
