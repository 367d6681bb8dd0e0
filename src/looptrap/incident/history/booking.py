"""Booking: what was spent, as rows that add up, whoever writes them; minutes become hours."""

from __future__ import annotations

from math import inf
from sqlite3 import Connection

import msgspec

from looptrap.incident.history.part import writable
from looptrap.incident.history.rows import Row, insert
from looptrap.incident.spent import Batch, Run, Session, Spender, Spent

HOUR = 3_600
DAY = 86_400

MINUTES_KEPT = 2 * DAY
"""Seconds after which the minutes of an hour are one row."""

SESSIONS_KEPT = 7 * DAY
"""Seconds without a call after which a session is forgotten."""

MOST_SESSIONS = 100_000

MOST = 1 << 53
"""To which a figure of a row grows, whatever providers report: it fits where numbers are kept."""

SLICE = 5_000
"""So many sessions go at once."""

FIGURES = Spent.__struct_fields__


def total(figure: str) -> str:
    """Return the SQL for the sum of a figure; `sum` would fail on one that is too large."""
    return f"CAST(min(total({figure}), 9e18) AS INTEGER)"


_NAMES = ("instance", *Spender._fields)
_KEY = ("start", *_NAMES)
_ADDED = ", ".join(f"{name} = min({name} + excluded.{name}, {MOST})" for name in FIGURES)
_ADD = f" ON CONFLICT ({', '.join(_KEY)}) DO UPDATE SET {_ADDED}"

_PUT = f"INSERT INTO spending ({', '.join((*_KEY, *FIGURES))}) VALUES "

# The first names of SET are what is there, those of `excluded` what is new: all of them at once.
_PUT_SESSION = (
    f"INSERT INTO session ({', '.join((*Session._fields, *Run.__struct_fields__))}) VALUES "
)
_ADD_SESSION = f"""
    ON CONFLICT (caller, project, session) DO UPDATE SET
        first = min(first, excluded.first),
        last = max(last, excluded.last),
        model = CASE WHEN excluded.last >= last THEN excluded.model ELSE model END,
        calls = calls + excluded.calls,
        refused = refused + excluded.refused,
        tokens = min(tokens + excluded.tokens, {MOST}),
        cost = min(cost + excluded.cost, {MOST}),
        unpriced = unpriced + excluded.unpriced,
        used = CASE
            WHEN excluded.minute > minute THEN excluded.used
            WHEN excluded.minute = minute THEN min(used + excluded.used, {MOST})
            ELSE used
        END,
        minute = max(minute, excluded.minute)"""

_ROLL_UP = (
    f"INSERT INTO spending SELECT :hour, {', '.join(_NAMES)},"
    f" {', '.join(map(total, FIGURES))} FROM spending"
    f" WHERE start > :hour AND start < :next GROUP BY {', '.join(_NAMES)}"
)


def put(connection: Connection, instance: str, batch: Batch) -> None:
    """Add what was spent to what is there."""
    spending = [
        (minute, instance, *_whole(spender), *_bounded(msgspec.structs.astuple(spent)))
        for (minute, spender), spent in batch.spending.items()
    ]
    sessions = [
        _whole((*session, *_bounded(msgspec.structs.astuple(run))))
        for session, run in batch.sessions.items()
    ]
    insert(connection, _PUT, spending, _ADD)
    insert(connection, _PUT_SESSION, sessions, _ADD_SESSION)


def roll_up(connection: Connection, now: float) -> bool:
    """Make one row of the minutes of an hour that is long over; say whether there was one."""
    (oldest,) = connection.execute(
        "SELECT min(start) FROM spending WHERE start % 3600 <> 0"
    ).fetchone()
    if oldest is None or oldest // HOUR * HOUR > now - MINUTES_KEPT - HOUR:
        return False
    span = {"hour": oldest // HOUR * HOUR, "next": oldest // HOUR * HOUR + HOUR}
    connection.execute(_ROLL_UP + _ADD, span)
    connection.execute("DELETE FROM spending WHERE start > :hour AND start < :next", span)
    return True


def oldest(connection: Connection) -> int | None:
    """Return when the oldest spending that is kept began."""
    (start,) = connection.execute("SELECT min(start) FROM spending").fetchone()
    return None if start is None else int(start)


def drop(connection: Connection, before: float) -> int:
    """Drop the oldest hour of spending, if it is older than that; return how many rows went."""
    start = oldest(connection)
    if start is None or start >= before:
        return 0
    until = min(start // HOUR * HOUR + HOUR, before)
    return connection.execute("DELETE FROM spending WHERE start < ?", (until,)).rowcount


def drop_sessions(connection: Connection, before: float) -> int:
    """Drop sessions that were quiet since then, and of very many the longest quiet."""
    (number,) = connection.execute("SELECT count(*) FROM session").fetchone()
    surplus = min(max(number - MOST_SESSIONS, 0), SLICE)
    return _drop_sessions(connection, before, SLICE) or _drop_sessions(connection, inf, surplus)


def _drop_sessions(connection: Connection, before: float, most: int) -> int:
    return connection.execute(
        "DELETE FROM session WHERE (caller, project, session) IN (SELECT caller, project, session"
        " FROM session WHERE last < ? ORDER BY last LIMIT ?)",
        (before, most),
    ).rowcount


def _whole(row: Row) -> Row:
    """Return a row that can be written: a question mark for every half of a character."""
    return tuple(
        writable(one) if isinstance(one, str) and not one.isascii() else one for one in row
    )


def _bounded(figures: Row) -> Row:
    """Return figures that can be written, whatever providers have said."""
    return tuple(min(one, MOST) if isinstance(one, int) else one for one in figures)
