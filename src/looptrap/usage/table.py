"""Usage in SQLite: rows that several instances add to, and UsageQuery.

Times are exact to the minute; after two days, to the hour.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import inf
from sqlite3 import Connection
from typing import Any, Literal, NamedTuple, get_args

from msgspec.structs import astuple

from looptrap.database.database import Database, Row, insert_rows, without_surrogates
from looptrap.usage.breach import put_breaches
from looptrap.usage.model import (
    MINUTE_S,
    OTHER_NAME,
    SessionKey,
    SessionUsage,
    UsageBatch,
    UsageKey,
    UsageTotals,
)

HOUR_S = 3_600
DAY_S = 86_400

MINUTE_ROWS_KEEP_S = 2 * DAY_S
"""Seconds after which the minutes of an hour become one row."""

SESSION_ROWS_KEEP_S = 7 * DAY_S
"""Seconds without a call after which a session is dropped."""

MAX_SESSION_ROWS = 100_000

MAX_FIGURE = 1 << 53
"""The largest figure of a row, whatever providers report: exact in JSON numbers too."""

SESSION_SLICE_ROWS = 5_000
"""Sessions dropped at a time."""

TOTAL_FIELDS = UsageTotals.__struct_fields__


def total(figure: str) -> str:
    """Return the SQL for the sum of a figure; `sum` fails on overflow."""
    return f"CAST(min(total({figure}), 9e18) AS INTEGER)"


_NAMES = ("instance", *UsageKey._fields)
_KEY = ("start", *_NAMES)
_ADDED = ", ".join(f"{name} = min({name} + excluded.{name}, {MAX_FIGURE})" for name in TOTAL_FIELDS)
_ADD = f" ON CONFLICT ({', '.join(_KEY)}) DO UPDATE SET {_ADDED}"

_PUT = f"INSERT INTO spending ({', '.join((*_KEY, *TOTAL_FIELDS))}) VALUES "

# Plain names are the stored values, `excluded` the new ones.
_SESSION_COLUMNS = (*SessionKey._fields, *SessionUsage.__struct_fields__)
_PUT_SESSION = f"INSERT INTO session ({', '.join(_SESSION_COLUMNS)}) VALUES "
_ADD_SESSION = f"""
    ON CONFLICT (caller, project, session) DO UPDATE SET
        first = min(first, excluded.first),
        last = max(last, excluded.last),
        model = CASE WHEN excluded.last >= last THEN excluded.model ELSE model END,
        calls = calls + excluded.calls,
        refused = refused + excluded.refused,
        tokens = min(tokens + excluded.tokens, {MAX_FIGURE}),
        cost = min(cost + excluded.cost, {MAX_FIGURE}),
        unpriced = unpriced + excluded.unpriced,
        used = CASE
            WHEN excluded.minute > minute THEN excluded.used
            WHEN excluded.minute = minute THEN min(used + excluded.used, {MAX_FIGURE})
            ELSE used
        END,
        minute = max(minute, excluded.minute)"""

_DROP_SESSIONS = """
    DELETE FROM session WHERE (caller, project, session) IN (
        SELECT caller, project, session FROM session WHERE last < ? ORDER BY last LIMIT ?
    )"""

_ROLL_UP = (
    f"INSERT INTO spending SELECT :hour, {', '.join(_NAMES)},"
    f" {', '.join(map(total, TOTAL_FIELDS))} FROM spending"
    f" WHERE start > :hour AND start < :next GROUP BY {', '.join(_NAMES)}"
)


def put_usage(connection: Connection, instance: str, batch: UsageBatch) -> None:
    """Add a batch to the stored usage."""
    spending = [
        _row(minute, instance, *spender, *astuple(spent))
        for (minute, spender), spent in batch.spending.items()
    ]
    sessions = [_row(*session, *astuple(run)) for session, run in batch.sessions.items()]
    insert_rows(connection, _PUT, spending, _ADD)
    insert_rows(connection, _PUT_SESSION, sessions, _ADD_SESSION)
    put_breaches(connection, batch.breaches)


def roll_up_hour(connection: Connection, now: float) -> bool:
    """Roll up the minutes of the oldest hour if it is due; return whether it was."""
    minutes = "SELECT min(start) FROM spending WHERE start % 3600 <> 0"
    (oldest,) = connection.execute(minutes).fetchone()
    hour = (oldest or 0) // HOUR_S * HOUR_S
    if oldest is None or hour > now - MINUTE_ROWS_KEEP_S - HOUR_S:
        return False
    span = {"hour": hour, "next": hour + HOUR_S}
    connection.execute(_ROLL_UP + _ADD, span)
    connection.execute("DELETE FROM spending WHERE start > :hour AND start < :next", span)
    return True


def oldest_usage(connection: Connection) -> int | None:
    """Return the start of the oldest stored usage."""
    (start,) = connection.execute("SELECT min(start) FROM spending").fetchone()
    return None if start is None else int(start)


def drop_oldest_hour(connection: Connection, before: float) -> int:
    """Drop the oldest hour of usage if it is before that time; return the number of rows."""
    start = oldest_usage(connection)
    if start is None or start >= before:
        return 0
    until = min(start // HOUR_S * HOUR_S + HOUR_S, before)
    return connection.execute("DELETE FROM spending WHERE start < ?", (until,)).rowcount


def drop_quiet_sessions(connection: Connection, before: float) -> int:
    """Drop sessions quiet since then, and the surplus above MAX_SESSION_ROWS."""
    (number,) = connection.execute("SELECT count(*) FROM session").fetchone()
    surplus = min(max(number - MAX_SESSION_ROWS, 0), SESSION_SLICE_ROWS)
    dropped = connection.execute(_DROP_SESSIONS, (before, SESSION_SLICE_ROWS)).rowcount
    return dropped or connection.execute(_DROP_SESSIONS, (inf, surplus)).rowcount


def _row(*values: Any) -> Row:
    """Return a row that SQLite can write: no lone surrogates, figures up to MAX_FIGURE."""
    return tuple(
        min(one, MAX_FIGURE) if isinstance(one, int) else without_surrogates(one) for one in values
    )


UsageDimension = Literal["caller", "project", "model", "provider"]
UsageOrder = Literal["cost", "refused", "calls", "tokens", "burn"]

MAX_SERIES = 10
"""Names in a series; the rest is summed up as one."""

_SUMS = ", ".join(f"{total(name)} AS {name}" for name in TOTAL_FIELDS)
_WITHIN = "start >= :since AND start < :until"
_TOKENS = "input_tokens + output_tokens"
# The larger of the open minute, which is not complete, and the one before.
_BURN = (
    f"max({total(f'CASE WHEN start = :minute THEN {_TOKENS} ELSE 0 END')},"
    f" {total(f'CASE WHEN start = :minute - {MINUTE_S} THEN {_TOKENS} ELSE 0 END')})"
)
_ORDERS: dict[UsageOrder, str] = {
    "cost": total("cost"), "refused": total("refused"), "calls": total("calls"),
    "tokens": total(_TOKENS), "burn": _BURN,
}  # fmt: skip
_SESSION_ORDERS: dict[UsageOrder, str] = {
    "cost": "cost", "refused": "refused", "calls": "calls", "tokens": "tokens",
    "burn": f"CASE WHEN minute >= :minute - {MINUTE_S} THEN used ELSE 0 END",
}  # fmt: skip
_BY = {name: name for name in get_args(UsageDimension)}


class UsageShare(NamedTuple):
    """Usage of one caller, project, model or provider."""

    name: str
    spent: UsageTotals
    burn: int
    """Current tokens a minute."""
    first: int
    last: int
    """Start of the first and the latest minute with a call; of old usage, of the hour."""


class UsagePoint(NamedTuple):
    """Usage of one step of time, in total or of one name."""

    time: int
    name: str
    spent: UsageTotals


class SessionShare(NamedTuple):
    """Usage of one session from its first call to its last."""

    session: SessionKey
    run: SessionUsage


class UsageQuery:
    """Queries on usage; they wait for the disk: call them from a thread."""

    def __init__(self, database: Database, clock: Callable[[], float]) -> None:
        self._database = database
        self._clock = clock

    def totals(self, since: float, until: float) -> UsageTotals:
        """Return the totals of a time span."""
        statement = f"SELECT {_SUMS} FROM spending WHERE {_WITHIN}"
        return UsageTotals(*self._database.query(statement, _span(since, until))[0])

    def series(
        self,
        since: float,
        until: float,
        step: int,
        by: UsageDimension | None = None,
        limit: int = MAX_SERIES,
        utc_offset: int = 0,
    ) -> list[UsagePoint]:
        """Return usage by step of time, in order; steps without a call are left out.

        Steps of a day begin at midnight of the zone with that offset, in seconds. With `by`, the
        `limit` costliest names each, and the others under one name.
        """
        values, name = {**_span(since, until), "step": step, "offset": utc_offset}, "''"
        if by is not None:
            top = self.top(by, since, until, limit=limit)
            values |= {f"name{i}": one.name for i, one in enumerate(top)}
            placeholders = ", ".join(f":name{i}" for i in range(len(top)))
            name = f"CASE WHEN {by} IN ({placeholders}) THEN {by} ELSE '{OTHER_NAME}' END"
        rows = self._database.query(
            f"SELECT start - (start + :offset) % :step AS time, {name} AS name, {_SUMS}"
            f" FROM spending WHERE {_WITHIN} GROUP BY 1, 2 ORDER BY 1, 2",
            values,
        )
        return [UsagePoint(time, named, UsageTotals(*figures)) for time, named, *figures in rows]

    def top(
        self,
        by: UsageDimension,
        since: float,
        until: float,
        *,
        order: UsageOrder = "cost",
        limit: int = 50,
    ) -> list[UsageShare]:
        """Return the top names in an order, descending."""
        rows = self._database.query(
            f"SELECT {_expression(by, _BY)}, {_BURN}, min(start), max(start), {_SUMS}"
            f" FROM spending WHERE {_WITHIN} GROUP BY {by}"
            f" ORDER BY {_expression(order, _ORDERS)} DESC, {by} LIMIT :limit",
            {**_span(since, until), "minute": self._minute(), "limit": limit},
        )
        return [UsageShare(row[0], UsageTotals(*row[4:]), *row[1:4]) for row in rows]

    def sessions(
        self, since: float, *, order: UsageOrder = "cost", limit: int = 50
    ) -> list[SessionShare]:
        """Return the top sessions with a call since then, by their whole usage, descending."""
        rows = self._database.query(
            f"SELECT {', '.join(_SESSION_COLUMNS)} FROM session WHERE last >= :since"
            f" ORDER BY {_expression(order, _SESSION_ORDERS)} DESC, last DESC LIMIT :limit",
            {"since": since, "minute": self._minute(), "limit": limit},
        )
        return [SessionShare(SessionKey(*row[:3]), SessionUsage(*row[3:])) for row in rows]

    def _minute(self) -> int:
        return int(self._clock()) // MINUTE_S * MINUTE_S


def _span(since: float, until: float) -> dict[str, Any]:
    # A minute counts as a whole.
    return {"since": since // MINUTE_S * MINUTE_S, "until": until}


def _expression(name: str, expressions: Mapping[Any, str]) -> str:
    if name not in expressions:
        raise ValueError(f"{name!r} is unknown, must be one of {', '.join(expressions)}")
    return expressions[name]
