"""Stored usage: rows that several instances add to, and UsageQuery.

Times are exact to the minute; after two days, to the hour.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import ceil, inf
from typing import Any, Literal, NamedTuple

from msgspec.structs import astuple

from looptrap.database.database import (
    MAX_FIGURE,
    NEWEST,
    Connection,
    Database,
    Row,
    storable,
    without_nul,
)
from looptrap.usage.model import (
    MINUTE_S,
    OTHER_NAME,
    SessionKey,
    SessionUsage,
    UsageBatch,
    UsageKey,
    UsageTotals,
)
from looptrap.usage.rollup import (
    HOUR_S,
    PARTS_OF_HOUR,
    STEPS,
    USAGE,
    ReportRows,
    RollupSource,
    Span,
    cover,
    forget_before,
    roll_up,
    total,
)

DAY_S = 86_400

MINUTE_ROWS_KEEP_S = 2 * DAY_S
"""Seconds after which the minutes of an hour become one row."""

SESSION_ROWS_KEEP_S = 7 * DAY_S
"""Seconds without a call after which a session is dropped."""

MAX_SESSION_ROWS = 100_000

SESSION_SLICE_ROWS = 5_000
"""Sessions dropped at a time."""

TOTAL_FIELDS = UsageTotals.__struct_fields__


_NAMES = ("instance", *UsageKey._fields)
_KEY = ("start", *_NAMES)
_ADDED = ", ".join(
    f"{name} = least(spending.{name} + excluded.{name}, {MAX_FIGURE})" for name in TOTAL_FIELDS
)
_ADD = f"ON CONFLICT ({', '.join(_KEY)}) DO UPDATE SET {_ADDED}"

SPENDING_COLUMNS = (*_KEY, *TOTAL_FIELDS)

# Names of the table are the stored values, `excluded` the new ones.
SESSION_COLUMNS = (*SessionKey._fields, *SessionUsage.__struct_fields__)
_ADD_SESSION = f"""
    ON CONFLICT (caller, project, session) DO UPDATE SET
        first = least(session.first, excluded.first),
        last = greatest(session.last, excluded.last),
        model = CASE WHEN excluded.last >= session.last THEN excluded.model ELSE session.model END,
        calls = session.calls + excluded.calls,
        refused = session.refused + excluded.refused,
        tokens = least(session.tokens + excluded.tokens, {MAX_FIGURE}),
        cost = least(session.cost + excluded.cost, {MAX_FIGURE}),
        unpriced = session.unpriced + excluded.unpriced,
        used = CASE
            WHEN excluded.minute > session.minute THEN excluded.used
            WHEN excluded.minute = session.minute
                THEN least(session.used + excluded.used, {MAX_FIGURE})
            ELSE session.used
        END,
        minute = greatest(session.minute, excluded.minute)"""

_SPENDER = ", ".join(UsageKey._fields)
# An hour has one row for all instances; the first minute of it begins with it.
_MINUTES = "start >= :hour AND start < :next AND (start > :hour OR instance <> '')"
_MERGE = (
    f"INSERT INTO spending ({', '.join(SPENDING_COLUMNS)}) SELECT :hour, '', {_SPENDER},"
    f" {', '.join(map(total, TOTAL_FIELDS))} FROM spending"
    f" WHERE {_MINUTES} GROUP BY {_SPENDER} "
)

ROLLED_UP = RollupSource(
    table="spending",
    time="start",
    second="start",
    figures={name: name for name in TOTAL_FIELDS},
    total=USAGE,
    names=("caller", "project", "provider", "model"),
)


def spending_rows(instance: str, batch: UsageBatch) -> list[Row]:
    """Return the rows of an instance, to be added to those stored."""
    return [
        storable(minute, instance, *spender, *astuple(spent))
        for (minute, spender), spent in batch.spending.items()
    ]


def session_rows(batch: UsageBatch) -> list[Row]:
    """Return the rows to add to those stored, in an order that all writers keep."""
    return sorted(storable(*session, *astuple(run)) for session, run in batch.sessions.items())


def put_usage(connection: Connection, spending: Sequence[Row], sessions: Sequence[Row]) -> None:
    """Add rows to those stored; the rollups of their times are forgotten before."""
    if connection.is_shared:
        # Names that differ only in what PostgreSQL cannot store are one name there.
        spending = _merged(spending, len(_KEY), UsageTotals)
        sessions = sorted(_merged(sessions, len(SessionKey._fields), SessionUsage))
    connection.insert("spending", SPENDING_COLUMNS, spending, _ADD)
    connection.insert("session", SESSION_COLUMNS, sessions, _ADD_SESSION)


def _merged(
    rows: Sequence[Row], width: int, kind: type[UsageTotals] | type[SessionUsage]
) -> list[Row]:
    """Return rows of which no two have the same key: the first `width` values, as stored."""
    merged: dict[Row, Any] = {}
    for row in rows:
        key, usage = tuple(map(without_nul, row[:width])), kind(*row[width:])
        if (known := merged.setdefault(key, usage)) is not usage:
            known.add(usage)
    return [storable(*key, *astuple(usage)) for key, usage in merged.items()]


def merge_minutes(connection: Connection, now: float) -> bool:
    """Merge the minutes of the oldest hour if it is due; return whether it was."""
    minutes = "SELECT min(start) FROM spending WHERE start % 3600 <> 0"
    (oldest,) = connection.execute(minutes).fetchone()
    hour = (oldest or 0) // HOUR_S * HOUR_S
    if oldest is None or hour > now - MINUTE_ROWS_KEEP_S - HOUR_S:
        return False
    span = {"hour": hour, "next": hour + HOUR_S}
    connection.execute(_MERGE + _ADD, span)
    connection.execute(f"DELETE FROM spending WHERE {_MINUTES}", span)
    forget_before(connection, ROLLED_UP, hour + HOUR_S, PARTS_OF_HOUR, since=hour)
    return True


def roll_up_usage(database: Database, now: float) -> bool:
    """Roll up some usage that is over; return whether there is more."""
    minutes_since = ceil((now - MINUTE_ROWS_KEEP_S) / HOUR_S) * HOUR_S
    return roll_up(database, ROLLED_UP, now, minutes_since)


def oldest_usage(connection: Connection) -> int | None:
    """Return the start of the oldest stored usage."""
    (start,) = connection.execute("SELECT min(start) FROM spending").fetchone()
    return None if start is None else int(start)


def drop_oldest_hour(connection: Connection, before: float) -> int:
    """Drop the oldest hour of usage if it is before that time; return the number of rows."""
    start = oldest_usage(connection)
    if start is None or start >= before:
        return 0
    until = min(start // HOUR_S * HOUR_S + HOUR_S, _whole(before))
    dropped = connection.execute("DELETE FROM spending WHERE start < ?", (until,)).rowcount
    forget_before(connection, ROLLED_UP, until)
    return dropped


def drop_quiet_sessions(connection: Connection, before: float) -> int:
    """Drop sessions quiet since then, and the surplus above MAX_SESSION_ROWS."""
    key = SessionKey._fields
    return connection.drop_oldest("session", key, before, MAX_SESSION_ROWS, SESSION_SLICE_ROWS)


UsageDimension = Literal["caller", "project", "model", "provider"]
UsageOrder = Literal["cost", "refused", "calls", "tokens", "burn"]

UsageFilter = Mapping[str, str]
"""Values by column: only rows with all of them."""

NO_FILTER: UsageFilter = {}

MAX_SERIES = 10
"""Names in a series; the rest is summed up as one."""

_SUMS = ", ".join(f"{total(name)} AS {name}" for name in TOTAL_FIELDS)
_TOKENS = "input_tokens + output_tokens"
# The larger of the open minute, which is not complete, and the one before.
_BURN = (
    f"greatest({total(f'CASE WHEN start = :minute THEN {_TOKENS} ELSE 0 END')},"
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

    def totals(self, since: float, until: float, only: UsageFilter = NO_FILTER) -> UsageTotals:
        """Return the totals of a time span."""
        with self._database.read() as connection:
            source = _source(connection, since, until, None, only)
            [row] = connection.execute(
                f"SELECT {_SUMS} FROM {source.text}", {**only, **source.values}
            )
        return UsageTotals(*row)

    def series(
        self,
        since: float,
        until: float,
        step: int,
        by: UsageDimension | None = None,
        limit: int = MAX_SERIES,
        utc_offset: int = 0,
        only: UsageFilter = NO_FILTER,
        top: Sequence[UsageShare] | None = None,
    ) -> list[UsagePoint]:
        """Return usage by step of time, in order; steps without a call are left out.

        Steps of a day begin at midnight of the zone with that offset, in seconds. With `by`, the
        `limit` costliest names each, and the others under one name; `top` begins with them, if
        they are known.
        """
        names: list[str] = []
        if by is not None:
            if top is None:
                top = self.top(by, since, until, limit=limit, only=only)
            names = [one.name for one in top[:limit]]
        # Those of which a step consists of several.
        steps = [one for one in STEPS if step % one == utc_offset % one == 0]
        values = {**only, "step": step, "offset": utc_offset, "names": names}

        def points(by: UsageDimension | None) -> dict[tuple[int, str], UsageTotals]:
            report = _source(connection, since, until, by, only, steps, is_named=by is not None)
            name = "''" if by is None else "name"
            rows = connection.execute(
                f"SELECT start - (start + :offset) % :step AS time, {name} AS name, {_SUMS}"
                f" FROM {report.text} GROUP BY 1, 2",
                {**values, **report.values},
            )
            return {(time, name): UsageTotals(*figures) for time, name, *figures in rows}

        with self._database.read() as connection:
            totals = points(None)
            found = totals if by is None else _with_others(points(by), totals)
        used = sorted(key for key, spent in found.items() if spent != UsageTotals())
        return [UsagePoint(*key, found[key]) for key in used]

    def top(
        self,
        by: UsageDimension,
        since: float,
        until: float,
        *,
        order: UsageOrder = "cost",
        limit: int = 50,
        only: UsageFilter = NO_FILTER,
    ) -> list[UsageShare]:
        """Return the top names in an order, descending."""
        if by not in ROLLED_UP.names:
            raise ValueError(f"{by!r} is unknown, must be one of {', '.join(ROLLED_UP.names)}")
        with self._database.read() as connection:
            source = _source(connection, since, until, by, only)
            rows = connection.execute(
                f"SELECT name, {_BURN}, min(first), max(last), {_SUMS} FROM {source.text}"
                f" GROUP BY name ORDER BY {_expression(order, _ORDERS)} DESC, name LIMIT :limit",
                {**only, **source.values, "minute": self._minute(), "limit": limit},
            ).fetchall()
        return [UsageShare(row[0], UsageTotals(*row[4:]), *row[1:4]) for row in rows]

    def sessions(
        self,
        since: float,
        *,
        order: UsageOrder = "cost",
        limit: int = 50,
        only: UsageFilter = NO_FILTER,
    ) -> list[SessionShare]:
        """Return the top sessions with a call since then, by their whole usage, descending."""
        where = "".join(f" AND {name} = :{name}" for name in only)
        rows = self._database.query(
            f"SELECT {', '.join(SESSION_COLUMNS)} FROM session WHERE last >= :since{where}"
            f" ORDER BY {_expression(order, _SESSION_ORDERS)} DESC, last DESC LIMIT :limit",
            {**only, "since": since, "minute": self._minute(), "limit": limit},
        )
        return [SessionShare(SessionKey(*row[:3]), SessionUsage(*row[3:])) for row in rows]

    def _minute(self) -> int:
        return int(self._clock()) // MINUTE_S * MINUTE_S


def _with_others(
    named: dict[tuple[int, str], UsageTotals], totals: dict[tuple[int, str], UsageTotals]
) -> dict[tuple[int, str], UsageTotals]:
    """Return usage by time and name, and under one name what is missing in the totals."""
    others = {time: spent for (time, _), spent in totals.items()}
    for (time, _), spent in named.items():
        others[time].subtract(spent)
    for time, spent in others.items():
        named.setdefault((time, OTHER_NAME), UsageTotals()).add(spent)
    return named


def _source(
    connection: Connection,
    since: float,
    until: float,
    by: str | None,
    only: UsageFilter,
    steps: Sequence[int] = STEPS,
    *,
    is_named: bool = False,
) -> ReportRows:
    """Return the rows of a time span, rollups where these know what is asked for.

    With `is_named`, only those with one of the names in the value `names`.
    """
    # A minute counts as a whole.
    span = Span(0, int(since // MINUTE_S) * MINUTE_S, _whole(until))
    if not only or (len(only) == 1 and by in (None, *only)):
        dimension = by or next(iter(only), USAGE)
        conditions = [f"{{name}} = :{name}" for name in only]
        spans = cover(connection, ROLLED_UP, *span[1:], steps)
    else:
        dimension, spans = by or USAGE, [span]
        conditions = [f"{name} = :{name}" for name in only]
    if is_named:
        conditions.append("{name} = ANY(:names)")
    return ReportRows(ROLLED_UP, spans, dimension, " AND ".join(conditions))


def _whole(time: float) -> int:
    """Return the first whole second from a time on: numbers of one kind are compared faster."""
    return min(ceil(time), NEWEST) if time < inf else NEWEST


def _expression(name: str, expressions: Mapping[Any, str]) -> str:
    if name not in expressions:
        raise ValueError(f"{name!r} is unknown, must be one of {', '.join(expressions)}")
    return expressions[name]
