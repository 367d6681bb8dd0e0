"""Sums of usage by five minutes, hour and day: a report need not add up millions of rows.

A sum is made from the stored rows once its time is over, and forgotten as soon as one of them
changes. Reports read sums where there are any, and rows elsewhere, so that both always agree.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from looptrap.database.database import NEWEST, Connection, Row
from looptrap.usage.model import OTHER_NAME, UsageTotals

STEPS = (86_400, 3_600, 300)
"""The lengths of time that are summed up, in seconds."""

DIMENSIONS = ("caller", "project", "provider", "model")

TOTAL = ""
"""The dimension of the sum of all. It has a row for each time that is summed up."""

SETTLED_S = 180
"""Seconds after its end from which a time is summed up: mostly nothing is added then."""

SUMS_AT_A_TIME = 8
"""Sums of each step made in one transaction; writers wait meanwhile."""

LOCK = "usage_sum"
"""Writers of usage share this lock, who sums up has it alone."""

_FIGURES = UsageTotals.__struct_fields__
_COLUMNS = ", ".join(("step", "dimension", "name", "start", "first", "last", *_FIGURES))

_FORGET = "DELETE FROM usage_sum WHERE step = ANY(?) AND dimension = ANY(?)"


class Span(NamedTuple):
    """A time of which there are sums of one step; of step 0 there are rows only."""

    step: int
    since: int
    until: int


def total(figure: str) -> str:
    """Return the SQL for the sum of a figure; `sum` fails on overflow."""
    return f"CAST(least(coalesce(total({figure}), 0), 9e18) AS bigint)"


def cover(
    connection: Connection, since: int, until: int, steps: Sequence[int] = STEPS
) -> list[Span]:
    """Return spans from `since` to `until`, with the largest steps that there are."""
    rows = connection.execute(
        "SELECT step, start FROM usage_sum WHERE dimension = '' AND step = ANY(?)"
        " AND start >= ? AND start < ?",
        (list(steps), since, until),
    )
    summed = {(step, start) for step, start in rows}
    spans: list[Span] = []
    at = since
    for one in _spans(summed, since, until, sorted(steps, reverse=True)):
        if spans and spans[-1].step == one.step:
            spans[-1] = spans[-1]._replace(until=one.until)
        else:
            spans.append(one)
        at = one.until
    return [*spans, *([Span(0, at, until)] if at < until else [])]


def _spans(
    summed: set[tuple[int, int]], since: int, until: int, steps: Sequence[int]
) -> Iterator[Span]:
    """Yield a span for each sum, and those of rows between them."""
    starts = sorted({start for _, start in summed})
    at = since
    for start in starts:
        if start < at:
            continue
        for step in steps:
            if (step, start) in summed and start + step <= until:
                if at < start:
                    yield Span(0, at, start)
                at = start + step
                yield Span(step, start, at)
                break


class UsageRows:
    """The rows of a report: sums where there are any, stored rows elsewhere.

    `text` is a table with `start`, `first`, `last`, the dimension and the figures.
    """

    def __init__(
        self,
        spans: Iterable[Span],
        dimension: str,
        where: str = "",
        *,
        is_named: bool = False,
    ) -> None:
        """With `is_named`, all but the names in the value `names` are called OTHER_NAME.

        `where` is a condition on rows; on `{name}`, if sums are to be read.
        """
        self.values: dict[str, Any] = {"dimension": dimension}
        self._dimension = dimension
        self._where = where
        self._is_named = is_named
        parts: list[str] = []
        for number, span in enumerate(spans):
            self.values |= {f"since_{number}": span.since, f"until_{number}": span.until}
            within = f"start >= :since_{number} AND start < :until_{number}"
            if span.step:
                self.values[f"step_{number}"] = span.step
                parts += self._sums(f"step = :step_{number} AND {within}")
            else:
                parts.append(self._rows(within))
        if not parts:
            parts.append(self._rows("start < start"))
        self.text = f"({' UNION ALL '.join(parts)}) AS usage"

    def _rows(self, within: str) -> str:
        name = self._dimension or "''"
        if self._is_named:
            name = f"CASE WHEN {name} = ANY(:names) THEN {name} ELSE '{OTHER_NAME}' END"
        where = f" AND {self._where.format(name=self._dimension)}" if self._where else ""
        figures = ", ".join(_FIGURES)
        return (
            f"SELECT start, start AS first, start AS last, {name} AS name, {figures}"
            f" FROM spending WHERE {within}{where}"
        )

    def _sums(self, within: str) -> Iterator[str]:
        figures = ", ".join(_FIGURES)
        select = "SELECT start, first, last, {} AS name, {} FROM usage_sum WHERE last > 0 AND "
        where = f" AND {self._where.format(name='name')}" if self._where else ""
        if not self._is_named:
            yield select.format("name", figures) + f"{within} AND dimension = :dimension{where}"
            return
        # All others are the total without the names, which are few.
        named = f"{within} AND dimension = :dimension AND name = ANY(:names)"
        less = ", ".join(f"-{one} AS {one}" for one in _FIGURES)
        yield select.format("name", figures) + named
        yield select.format(f"'{OTHER_NAME}'", figures) + f"{within} AND dimension = ''"
        yield select.format(f"'{OTHER_NAME}'", less) + named


def sum_up(connection: Connection, now: float, minutes_since: float) -> bool:
    """Sum up some of what is over; return whether there may be more.

    `minutes_since` is the time from which rows are of minutes.
    """
    connection.lock_alone(LOCK)
    (oldest,) = connection.execute("SELECT min(start) FROM spending").fetchone()
    if oldest is None:
        forget_before(connection, NEWEST)
        return False
    for step in sorted(STEPS):
        since = int(max(oldest, minutes_since) if step < 3_600 else oldest) // step * step
        until = int(now - SETTLED_S) // step * step
        forget_before(connection, since, [step])
        rows = connection.execute(
            "SELECT start FROM usage_sum WHERE dimension = '' AND step = ? AND start >= ?",
            (step, since),
        )
        summed = {start for (start,) in rows}
        # The latest first: these are looked at most.
        missing = [one for one in range(until - step, since - 1, -step) if one not in summed]
        for start in missing[:SUMS_AT_A_TIME]:
            _sum(connection, step, start)
        if len(missing) > SUMS_AT_A_TIME:
            return True  # a sum of sums costs less than one of rows
    return False


def _sum(connection: Connection, step: int, start: int) -> None:
    spans = cover(connection, start, start + step, [one for one in STEPS if one < step])
    figures = ", ".join(map(total, _FIGURES))
    connection.execute(f"{_FORGET} AND start = ?", ([step], [TOTAL, *DIMENSIONS], start))
    for dimension in (TOTAL, *DIMENSIONS):
        source = UsageRows(spans, dimension)
        grouping = "GROUP BY name" if dimension else ""
        name = "name" if dimension else "''"
        # Where there was nothing, `last` is 0.
        connection.execute(
            f"INSERT INTO usage_sum ({_COLUMNS}) SELECT CAST(:step AS bigint), '{dimension}',"
            f" {name}, CAST(:start AS bigint), coalesce(min(first), 0), coalesce(max(last), 0),"
            f" {figures} FROM {source.text} {grouping}",
            {**source.values, "step": step, "start": start},
        )


def forget_changed(connection: Connection, spending: Sequence[Row]) -> None:
    """Forget the sums of times to which rows are added, in the same transaction."""
    if not spending:
        return
    connection.lock_shared(LOCK)
    starts = sorted({row[0] // step * step for row in spending for step in STEPS})
    connection.execute(f"{_FORGET} AND start = ANY(?)", (list(STEPS), [TOTAL], starts))


def forget_before(connection: Connection, until: int, steps: Sequence[int] = STEPS) -> None:
    """Forget the sums of times of which rows are dropped."""
    connection.execute(f"{_FORGET} AND start < ?", (list(steps), [TOTAL, *DIMENSIONS], until))


def forget_minutes(connection: Connection, hour: int) -> None:
    """Forget the sums of parts of an hour."""
    connection.execute(
        f"{_FORGET} AND start >= ? AND start < ?",
        ([one for one in STEPS if one < 3_600], [TOTAL, *DIMENSIONS], hour, hour + 3_600),
    )
