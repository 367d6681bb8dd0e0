"""Logged calls: rows, retention, and CallQuery."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from math import inf
from typing import Any, Literal, NamedTuple

from looptrap.database.database import NEWEST, Connection, Database, Page, Row, storable
from looptrap.usage.call_log import CallRow
from looptrap.usage.model import UsageTotals
from looptrap.usage.rollup import (
    CALLS,
    STEPS,
    ReportRows,
    RollupSource,
    Span,
    cover,
    forget_before,
    roll_up,
    total,
)

MAX_ROWS_IN_MEMORY = 20_000
"""Rows of a history that is not in a file."""

SLICE_ROWS = 5_000
"""Rows dropped at a time."""

PARTS_KEEP_S = 8 * 86_400
"""Seconds after which parts of an hour are not rolled up: a chart of a week begins at any time."""

_COLUMNS = ", ".join(CallRow._fields)

VerdictFilter = Literal["allow", "warn", "throttle", "nudge", "stop", "block", "refused", "shadow"]
"""An action; or `refused`: not forwarded; or `shadow`: only shadow mode let it pass."""

_IS_ACTED = "verdict <> 'allow'"
_IS_REFUSED = "verdict IN ('stop', 'block') AND provider = ''"

# The second conditions are those of partial indexes.
_CLAUSES = {
    "since": "time >= :since",
    "until": "time < :until",
    "after": "number > :after",
    "session": "session = :session AND session <> ''",
    "min_status": "status >= :min_status",
    "max_status": "status <= :max_status",
    "min_cost": "cost >= :min_cost",
    "min_latency": "latency >= :min_latency",
}
_VERDICTS = {
    "allow": "verdict = 'allow'",
    "refused": f"{_IS_REFUSED} AND {_IS_ACTED}",
    "shadow": "shadow <> ''",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class CallFilter:
    """Which logged calls; None for all."""

    since: float | None = None
    until: float | None = None
    after: int | None = None
    """Only rows with a higher number."""
    caller: str | None = None
    project: str | None = None
    session: str | None = None
    agent: str | None = None
    model: str | None = None
    provider: str | None = None
    rule: str | None = None
    request_id: str | None = None
    verdict: VerdictFilter | None = None
    min_status: int | None = None
    max_status: int | None = None
    min_cost: int | None = None
    """In nano-dollars."""
    min_latency: float | None = None

    def where(self) -> tuple[str, dict[str, Any]]:
        """Return the condition, and the values for it."""
        values = {name: value for name, value in asdict(self).items() if value is not None}
        clauses = [_CLAUSES.get(name, f"{name} = :{name}") for name in values if name != "verdict"]
        if self.verdict is not None:
            clauses.append(_VERDICTS.get(self.verdict, f"verdict = :verdict AND {_IS_ACTED}"))
        return " AND ".join(clauses) or "TRUE", values


class LoggedCall(NamedTuple):
    """A row and its number."""

    number: int
    row: CallRow


ROLLED_UP = RollupSource(
    table="call_log",
    time="time",
    second="CAST(floor(time) AS bigint)",
    figures={
        "calls": "weight",
        "refused": f"CASE WHEN {_IS_REFUSED} THEN weight ELSE 0 END",
        "warned": f"CASE WHEN {_IS_ACTED} AND NOT ({_IS_REFUSED}) THEN weight ELSE 0 END",
        "shadowed": "CASE WHEN shadow <> '' THEN weight ELSE 0 END",
        "input_tokens": "weight * CAST(input_tokens AS numeric)",
        "output_tokens": "weight * CAST(output_tokens AS numeric)",
        "cost": "weight * CAST(coalesce(cost, 0) AS numeric)",
        "unpriced": "CASE WHEN cost IS NULL THEN weight ELSE 0 END",
    },
    total=CALLS,
)
"""Its figures are the first of UsageTotals; each row counts as many times as it weighs."""

_SUMS = ", ".join(map(total, ROLLED_UP.figures))


def call_rows(calls: Sequence[CallRow]) -> list[Row]:
    """Return rows as they are stored."""
    return [storable(*row) for row in calls]


def put_calls(connection: Connection, rows: Sequence[Row]) -> None:
    """Write rows; the rollups of their times are forgotten before."""
    connection.insert("call_log", CallRow._fields, rows)


def roll_up_calls(database: Database, now: float) -> bool:
    """Roll up some logged calls of times that are over; return whether there is more."""
    return roll_up(database, ROLLED_UP, now, now - PARTS_KEEP_S)


def drop_calls(connection: Connection, before: float, max_rows: int) -> int:
    """Drop a slice of the rows before that time, or of the oldest above `max_rows`."""
    ids = "SELECT number FROM call_log WHERE time < ? ORDER BY time LIMIT ?"
    expired = _drop(connection, f"number IN ({ids})", (before, SLICE_ROWS))
    first, last = connection.execute("SELECT min(number), max(number) FROM call_log").fetchone()
    surplus = 0 if first is None else min(last - first + 1 - max_rows, SLICE_ROWS)
    if expired or surplus <= 0:
        return expired
    return _drop(connection, "number < ?", (first + surplus,))


def _drop(connection: Connection, where: str, values: Row) -> int:
    dropped = connection.execute(f"DELETE FROM call_log WHERE {where} RETURNING time", values)
    times = [time for (time,) in dropped]
    if times:
        forget_before(connection, ROLLED_UP, int(max(times)) + 1)
    return len(times)


def drop_oldest_calls(connection: Connection) -> int:
    """Drop a slice of the oldest rows; return how many."""
    return drop_calls(connection, inf, 0)


class CallQuery:
    """Queries on logged calls; they wait for the disk: call them from a thread."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def page(
        self, wanted: CallFilter, limit: int = 50, cursor: str | None = None
    ) -> Page[LoggedCall]:
        """Return a page of calls, the latest first; raise ValueError for an invalid cursor."""
        where, values = wanted.where()
        if wanted.after is not None or self._database.is_shared:
            where += " AND number <= :settled"
            values["settled"] = self._database.settled("call_log")
        if cursor is not None:
            where += " AND (time, number) < (:cursor_time, :cursor_number)"
            time, _, number = cursor.partition("~")
            values |= {"cursor_time": float(time), "cursor_number": int(number)}
        rows = self._database.query(
            f"SELECT number, {_COLUMNS} FROM call_log WHERE {where}"
            " ORDER BY time DESC, number DESC LIMIT :limit",
            {**values, "limit": limit + 1},
        )
        found = [_logged(row) for row in rows[:limit]]
        last = found[-1] if len(rows) > limit else None
        return Page(found, None if last is None else f"{last.row.time!r}~{last.number}")

    def call(self, number: int) -> LoggedCall | None:
        """Return the call with this number."""
        rows = self._database.query(
            f"SELECT number, {_COLUMNS} FROM call_log WHERE number = ?", (number,)
        )
        return _logged(rows[0]) if rows else None

    def series(self, wanted: CallFilter, step: int) -> list[tuple[int, UsageTotals]]:
        """Return figures by step of time, in order; steps without a call are left out."""
        of_any_time = replace(wanted, since=None, until=None)
        condition, values = of_any_time.where()
        since = 0 if wanted.since is None else wanted.since
        until = NEWEST if wanted.until is None else wanted.until
        with self._database.read() as connection:
            spans = [Span(0, since, until)]
            if of_any_time == CallFilter():
                steps = [one for one in STEPS if step % one == 0]
                spans = cover(connection, ROLLED_UP, since, until, steps)
            report = ReportRows(ROLLED_UP, spans, CALLS, condition)
            rows = connection.execute(
                f"SELECT start / :step * :step AS time, {_SUMS} FROM {report.text}"
                " GROUP BY 1 ORDER BY 1",
                {**values, **report.values, "step": step},
            ).fetchall()
        return [(start, UsageTotals(*figures)) for start, *figures in rows]

    def last(self) -> int:
        """Return the number of the latest row."""
        settled = self._database.settled("call_log")
        [(number,)] = self._database.query(
            "SELECT max(number) FROM call_log WHERE number <= ?", (settled,)
        )
        return int(number or 0)


def _logged(row: Row) -> LoggedCall:
    return LoggedCall(row[0], CallRow(*row[1:]))
