"""The books: what was spent, asked by time, and by caller, project, session, model or provider.

Times are met to the minute; what is more than two days old, to the hour.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from sqlite3 import Connection
from typing import Any, Literal, NamedTuple

from looptrap.incident.history.booking import FIGURES, total
from looptrap.incident.history.database import Database
from looptrap.incident.spent import MINUTE, OTHER, Run, Session, Spent

By = Literal["caller", "project", "model", "provider"]
Order = Literal["cost", "refused", "calls", "tokens", "burn"]

MOST_LINES = 10
"""Names that a series tells apart; the rest of them is one."""

_SUMS = ", ".join(f"{total(name)} AS {name}" for name in FIGURES)
_WITHIN = "start >= :since AND start < :until"
_TOKENS = "input_tokens + output_tokens"
# The minute that is open is not over, and the one before may have been quieter.
_BURN = (
    f"max({total(f'CASE WHEN start = :minute THEN {_TOKENS} ELSE 0 END')},"
    f" {total(f'CASE WHEN start = :minute - {MINUTE} THEN {_TOKENS} ELSE 0 END')})"
)
_ORDERS: dict[Order, str] = {
    "cost": total("cost"), "refused": total("refused"), "calls": total("calls"),
    "tokens": total(_TOKENS), "burn": _BURN,
}  # fmt: skip
_SESSION_ORDERS: dict[Order, str] = {
    "cost": "cost", "refused": "refused", "calls": "calls", "tokens": "tokens",
    "burn": f"CASE WHEN minute >= :minute - {MINUTE} THEN used ELSE 0 END",
}  # fmt: skip
_BY = {name: name for name in ("caller", "project", "model", "provider")}


class Share(NamedTuple):
    """What one caller, project, model or provider came to."""

    name: str
    spent: Spent
    burn: int
    """Tokens a minute at present."""
    first: int
    last: int
    """Minutes with a call, of what is long ago hours: when the first and the latest began."""


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

    def __init__(self, database: Database, clock: Callable[[], float]) -> None:
        self._database = database
        self._clock = clock

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
                known = _top(connection, by, "cost", {**values, "minute": self._minute()}, most)
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
            values = {**_span(since, until), "minute": self._minute()}
            return _top(connection, by, order, values, limit)

    def sessions(
        self, since: float, *, order: Order = "cost", limit: int = 50
    ) -> list[SessionShare]:
        """Return the sessions with a call since then that came to the most, in all their time."""
        names = ", ".join((*Session._fields, *Run.__struct_fields__))
        with self._database.read() as connection:
            rows = connection.execute(
                f"SELECT {names} FROM session WHERE last >= :since"
                f" ORDER BY {_known(order, _SESSION_ORDERS)} DESC, last DESC LIMIT :limit",
                {"since": since, "limit": limit, "minute": self._minute()},
            ).fetchall()
        return [SessionShare(Session(*row[:3]), Run(*row[3:])) for row in rows]

    def _minute(self) -> int:
        return int(self._clock()) // MINUTE * MINUTE


def _top(
    connection: Connection, by: By, order: Order, values: dict[str, Any], limit: int
) -> list[Share]:
    rows = connection.execute(
        f"SELECT {_known(by, _BY)}, {_BURN}, min(start), max(start), {_SUMS} FROM spending"
        f" WHERE {_WITHIN} GROUP BY {by} ORDER BY {_known(order, _ORDERS)} DESC, {by} LIMIT :limit",
        {**values, "limit": limit},
    ).fetchall()
    return [Share(row[0], Spent(*row[4:]), *row[1:4]) for row in rows]


def _known(name: str, expressions: Mapping[Any, str]) -> str:
    """Return what stands for a name in a statement."""
    if name not in expressions:
        raise ValueError(f"{name!r} is nothing that spending is told by")
    return expressions[name]


def _span(since: float, until: float) -> dict[str, Any]:
    # A minute that has begun is told as a whole.
    return {"since": since // MINUTE * MINUTE, "until": until}
