"""Rollups: sums by five minutes, hour, day and week, so that a report adds up few rows.

There are rollups of usage and of the log of calls. One is made from the stored rows once its time
is over, and forgotten by whoever adds rows to it or drops some, in the same transaction. Reports
read rollups where there are any, and rows elsewhere, so that both always agree.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Any, NamedTuple

from looptrap.database.database import NEWEST, Connection, Database
from looptrap.usage.model import UsageTotals

STEPS = (604_800, 86_400, 3_600, 300)
"""The lengths of time that are rolled up, in seconds; each divides the one before."""

HOUR_S = 3_600

PARTS_OF_HOUR = [step for step in STEPS if step < HOUR_S]

SETTLED_S = 180
"""Seconds after its end from which a time is rolled up: mostly nothing is added then."""

ROLLUPS_AT_A_TIME = 32
"""Rollups made in one go, each in a transaction of its own."""

_FIGURES = UsageTotals.__struct_fields__
_COLUMNS = ", ".join(("step", "dimension", "name", "start", "first", "last", *_FIGURES))

_FORGET = "DELETE FROM rollup WHERE step = ANY(?) AND dimension = ANY(?)"

USAGE, CALLS = "usage", "calls"
"""The dimensions of the sums of all: of usage, and of logged calls.

There is a row of it for each time that is rolled up, also where there was nothing.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class RollupSource:
    """A table whose rows are rolled up."""

    table: str
    time: str
    """The column with the time of a row …"""
    second: str
    """… and the second of it, as SQL."""
    figures: Mapping[str, str]
    """The figures of a row, as SQL; the others are 0."""
    total: str
    """The dimension of the sum of all."""
    names: tuple[str, ...] = ()
    """Columns whose values have sums of their own; each is a dimension."""

    @property
    def dimensions(self) -> tuple[str, ...]:
        """The dimensions of its rollups."""
        return (self.total, *self.names)

    def rows(self, condition: str, name: str) -> str:
        """Return the SQL for rows, in the form of rollups."""
        figures = ", ".join(f"{self.figures.get(one, 0)} AS {one}" for one in _FIGURES)
        return (
            f"SELECT {self.second} AS start, {self.second} AS first, {self.second} AS last,"
            f" {name} AS name, {figures} FROM {self.table} WHERE {condition}"
        )


class Span(NamedTuple):
    """A time of which there are rollups of one step; of step 0 there are rows only."""

    step: int
    since: float
    until: float


def total(figure: str) -> str:
    """Return the SQL for the sum of a figure; `sum` fails on overflow."""
    return f"CAST(least(coalesce(total({figure}), 0), 9e18) AS bigint)"


def cover(
    connection: Connection,
    source: RollupSource,
    since: float,
    until: float,
    steps: Sequence[int] = STEPS,
) -> list[Span]:
    """Return spans from `since` to `until`, with the largest steps that there are."""
    rows = connection.execute(
        "SELECT step, start FROM rollup WHERE dimension = ? AND step = ANY(?)"
        " AND start >= ? AND start < ?",
        (source.total, list(steps), ceil(since), ceil(until)),
    )
    made = {(step, start) for step, start in rows}
    spans: list[Span] = []
    for span in _spans(made, since, until, sorted(steps, reverse=True)):
        if spans and spans[-1].step == span.step:
            spans[-1] = spans[-1]._replace(until=span.until)
        else:
            spans.append(span)
    return spans


def _spans(
    made: set[tuple[int, int]], since: float, until: float, steps: Sequence[int]
) -> Iterator[Span]:
    """Yield a span for each rollup, and those of rows between and behind them."""
    at = since
    for start in sorted({start for _, start in made}):
        if start < at:
            continue
        for step in steps:
            if (step, start) in made and start + step <= until:
                if at < start:
                    yield Span(0, at, start)
                at = start + step
                yield Span(step, start, at)
                break
    if at < until:
        yield Span(0, at, until)


class ReportRows:
    """The rows of a report: rollups where there are any, stored rows elsewhere.

    `text` is a table with `start`, `first`, `last`, `name` and the figures.
    """

    def __init__(
        self,
        source: RollupSource,
        spans: Iterable[Span],
        dimension: str,
        condition: str = "",
    ) -> None:
        """`condition` is one on rows; on `{name}`, if rollups are to be read."""
        self.values: dict[str, Any] = {"dimension": dimension}
        self._source = source
        self._dimension = dimension
        self._condition = condition
        parts: list[str] = []
        for number, span in enumerate(spans):
            self.values |= {f"since_{number}": span.since, f"until_{number}": span.until}
            time = "start" if span.step else source.time
            within = f"{time} >= :since_{number} AND {time} < :until_{number}"
            if span.step:
                self.values[f"step_{number}"] = span.step
                parts.append(self._rollups(f"step = :step_{number} AND {within}"))
            else:
                parts.append(self._rows(within))
        if not parts:
            parts.append(self._rows("FALSE"))
        self.text = f"({' UNION ALL '.join(parts)}) AS report"

    def _rows(self, within: str) -> str:
        name = self._dimension if self._dimension in self._source.names else "''"
        return self._source.rows(within + self._and_condition(name), name)

    def _rollups(self, within: str) -> str:
        return (
            f"SELECT start, first, last, name, {', '.join(_FIGURES)} FROM rollup"
            f" WHERE last > 0 AND {within} AND dimension = :dimension{self._and_condition('name')}"
        )

    def _and_condition(self, name: str) -> str:
        return f" AND {self._condition.format(name=name)}" if self._condition else ""


def roll_up(database: Database, source: RollupSource, now: float, parts_since: float) -> bool:
    """Roll up some of what is over; return whether there is more.

    Before `parts_since`, parts of an hour are not rolled up.
    """
    with database.write() as connection:
        if not connection.try_lock("sweep"):
            return False  # another instance does
        due = _due(connection, source, now, parts_since)
    for step, start in due[:ROLLUPS_AT_A_TIME]:
        with database.write() as connection:
            if connection.try_lock("sweep"):
                _make(connection, source, step, start)
    return len(due) > ROLLUPS_AT_A_TIME


def _due(
    connection: Connection, source: RollupSource, now: float, parts_since: float
) -> list[tuple[int, int]]:
    """Return the rollups to make: the short ones first, of which the others are sums."""
    (oldest,) = connection.execute(f"SELECT min({source.time}) FROM {source.table}").fetchone()
    if oldest is None:
        forget_before(connection, source, NEWEST)
        return []
    found: list[tuple[int, int]] = []
    for step in sorted(STEPS):
        # Not the one with the oldest row: more of its rows will be dropped soon.
        since = ceil(max(oldest, parts_since) if step < HOUR_S else oldest)
        since = -(-since // step) * step
        until = int(now - SETTLED_S) // step * step
        forget_before(connection, source, since, [step])
        rows = connection.execute(
            "SELECT start FROM rollup WHERE dimension = ? AND step = ? AND start >= ?",
            (source.total, step, since),
        )
        made = {start for (start,) in rows}
        # The latest first: these are looked at most.
        starts = range(until - step, since - 1, -step)
        found += [(step, start) for start in starts if start not in made]
    return found


def _make(connection: Connection, source: RollupSource, step: int, start: int) -> None:
    connection.lock_alone(_lock_name(step, start))
    is_made = connection.execute(
        "SELECT 1 FROM rollup WHERE dimension = ? AND step = ? AND start = ?",
        (source.total, step, start),
    ).fetchone()
    if is_made:
        return  # another instance did
    spans = cover(connection, source, start, start + step, [one for one in STEPS if one < step])
    figures = ", ".join(map(total, _FIGURES))
    dimensions = source.dimensions
    connection.execute(f"{_FORGET} AND start = ?", ([step], list(dimensions), start))
    for dimension in dimensions:
        report = ReportRows(source, spans, dimension)
        name, grouping = ("''", "") if dimension == source.total else ("name", "GROUP BY name")
        # Where there was nothing, `last` is 0.
        connection.execute(
            f"INSERT INTO rollup ({_COLUMNS}) SELECT CAST(:step AS bigint), '{dimension}',"
            f" {name}, CAST(:start AS bigint), coalesce(min(first), 0), coalesce(max(last), 0),"
            f" {figures} FROM {report.text} {grouping}",
            {**report.values, "step": step, "start": start},
        )


def _lock_name(step: int, start: int) -> str:
    """Return a name that writers to a time share, and who rolls it up has alone.

    So no rollup lacks a row that is not committed yet; and nobody waits, unless rows come late.
    """
    return f"{step}.{start}"


def forget(connection: Connection, times: Iterable[float]) -> None:
    """Forget the rollups of times to which rows are about to be added; lock them first.

    Once in a transaction, before rows are locked: else two might wait for each other.
    """
    shortest = STEPS[-1]
    parts = {int(time) // shortest * shortest for time in times}
    found = {(step, part // step * step) for part in parts for step in STEPS}
    if found:
        connection.lock_shared([_lock_name(*one) for one in found])
        starts = sorted({start for _, start in found})
        # Those of names go when the rollup is made anew.
        values = (list(STEPS), [USAGE, CALLS], starts)
        connection.execute(f"{_FORGET} AND start = ANY(?)", values)


def forget_before(
    connection: Connection,
    source: RollupSource,
    until: int,
    steps: Sequence[int] = STEPS,
    since: int = -NEWEST,
) -> None:
    """Forget the rollups of times of which rows are dropped or merged."""
    values = (list(steps), list(source.dimensions), since, until)
    connection.execute(f"{_FORGET} AND start >= ? AND start < ?", values)
