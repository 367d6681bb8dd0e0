"""The log of calls: settings, CallLog, stored rows, CallQuery.

CallLog takes settled calls on the event loop and makes rows of them on the writer's thread. A row
has names, counts and times of a call, and nothing of its text.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from math import inf
from random import Random
from typing import Any, Literal, NamedTuple

from looptrap.database.database import NEWEST, Connection, Database, Page, Row, storable
from looptrap.dialect.model import MAX_NAME_CHARS, NO_USAGE, Outcome
from looptrap.engine import Ticket
from looptrap.policy.verdict import ALLOWED, Verdict
from looptrap.schema import Number, Table, setting, settings
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

DAY_S = 86_400.0

SAMPLE_INTERVAL = 50
"""Of the calls beyond `per_second`, one in so many is logged."""

ACTED_FACTOR = 10
"""Calls on which a rule acted are logged one by one up to this many times `per_second`."""


@settings
class CallLogSettings:
    """Whether calls are logged, how many, and for how long."""

    enabled: bool = setting(
        "whether the history has a row for each call: who, which model, tokens, cost, latency and"
        " verdict, never its text",
        default=True,
    )
    keep: float = setting(
        "how long logged calls are kept",
        Number(low=60, high=10 * 365 * 86_400, unit="seconds"),
        default=7 * DAY_S,
    )
    max_rows: int = setting(
        "how many rows are kept; beyond it, the oldest are deleted",
        Number(low=1_000, high=100_000_000, whole=True),
        default=500_000,
    )
    per_second: int = setting(
        "how many allowed calls a second each process logs one by one; of more, it logs about one"
        f" in {SAMPLE_INTERVAL}, with the number of calls that the row stands for",
        Number(low=1, high=100_000, whole=True),
        default=100,
    )


CALL_LOG = Table.of(CallLogSettings)


class CallRow(NamedTuple):
    """One logged call; the fields are the columns of the table."""

    time: float
    """When it was over."""
    weight: int
    """How many calls the row stands for."""
    caller: str
    project: str
    session: str
    agent: str
    model: str
    provider: str
    """Empty if the call was not forwarded."""
    dialect: str
    status: int
    """The status that the client got; 0 if this gateway sent no answer."""
    verdict: str
    """The action taken …"""
    shadow: str
    """… and the one that shadow mode prevented, if any."""
    reason: str
    policy: str
    rule: str
    input_tokens: int
    output_tokens: int
    cached_tokens: int
    is_estimated: bool
    cost: int | None
    """In nano-dollars; None without a known price."""
    latency: float
    """Seconds from its judgement to the end of the answer."""
    first_byte: float | None
    """Seconds from sending it to the provider to the head of the answer."""
    is_stream: bool
    is_cut_off: bool
    request_id: str


class CallSampler:
    """Takes the first calls of each second, and some of the rest, each with a weight.

    The weights of all rows add up to the number of calls, except for those skipped last.
    """

    __slots__ = ("_ends", "_gap", "_left", "_per_second", "_rng", "_skipped", "_starts")

    def __init__(self, per_second: int, rng: Random) -> None:
        self._per_second = per_second
        self._rng = rng
        self._starts = self._ends = 0.0
        self._left = 0
        """Calls of this second that are taken one by one."""
        self._gap = 1
        """Further calls up to the next one that is taken."""
        self._skipped = 0

    def take(self, now: float) -> int:
        """Return how many calls the row of this one stands for; 0 if it gets none."""
        if not self._starts <= now < self._ends:
            self._starts, self._ends, self._left = now, now + 1.0, self._per_second
        if self._left:
            self._left -= 1
        else:
            self._gap -= 1
            if self._gap:
                self._skipped += 1
                return 0
            # Not every 50th: calls that alternate would be seen by halves.
            self._gap = self._rng.randint(1, 2 * SAMPLE_INTERVAL - 1)
        weight, self._skipped = self._skipped + 1, 0
        return weight


class CallLog:
    """Takes settled calls; an allowed one pays for one append."""

    def __init__(self, settings: CallLogSettings, rng: Random) -> None:
        self._allowed = CallSampler(settings.per_second, rng)
        self._acted = CallSampler(settings.per_second * ACTED_FACTOR, rng)
        self._taken: deque[tuple[Any, ...]] = deque()

    # On the event loop

    def add(
        self,
        ticket: Ticket,
        outcome: Outcome | None,
        now: float,
        began: float,
        status: int,
        provider: str,
        first_byte: float | None,
        session: str,
        agent: str,
        request_id: bytes,
    ) -> None:
        """Take a settled call."""
        verdicts = None
        call = ticket.call
        if ticket.verdict is ALLOWED and ticket.heard is None and ticket.shadow is None:
            weight = self._allowed.take(now)
        else:
            weight = self._acted.take(now)
            verdicts = ticket.verdict, ticket.heard, ticket.shadow
        if weight:
            request = call.request
            # Of the call only what the row needs: its body must not outlive it.
            self._taken.append((
                now, weight, request.caller, request.project, session, agent,
                call.model, provider, call.dialect, status, verdicts, outcome, now - began,
                first_byte, call.stream, request_id,
            ))  # fmt: skip

    # On the writer's thread

    def take(self) -> list[CallRow]:
        """Return the rows of everything taken since the last time."""
        return [_row(*self._taken.popleft()) for _ in range(len(self._taken))]


NOT_SENT = Outcome()
"""The outcome of a call that was not forwarded."""

NO_VERDICTS = (ALLOWED, None, None)


def _row(
    now: float,
    weight: int,
    caller: str,
    project: str,
    session: str,
    agent: str,
    model: str,
    provider: str,
    dialect: str,
    status: int,
    verdicts: tuple[Verdict, Verdict | None, Verdict | None] | None,
    outcome: Outcome | None,
    latency: float,
    first_byte: float | None,
    is_stream: bool,
    request_id: bytes,
) -> CallRow:
    verdict, heard, shadow = verdicts or NO_VERDICTS
    acted = verdict if verdict is not ALLOWED or heard is None else heard
    named = acted if acted is not ALLOWED or shadow is None else shadow
    outcome = outcome or NOT_SENT
    usage = outcome.usage
    return CallRow(
        time=now,
        weight=weight,
        caller=caller,
        project=project,
        session=session[:MAX_NAME_CHARS],
        agent=agent,
        model=model[:MAX_NAME_CHARS],
        provider=provider,
        dialect=dialect,
        status=status,
        verdict=acted.action.value,
        shadow=shadow.action.value if shadow is not None else "",
        reason=named.reason,
        policy=named.policy,
        rule=named.rule,
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        cached_tokens=usage.cached_tokens,
        is_estimated=usage.is_estimated,
        cost=0 if usage is NO_USAGE else outcome.cost,
        latency=max(latency, 0.0),
        first_byte=first_byte,
        is_stream=is_stream,
        is_cut_off=outcome.cut_off,
        request_id=request_id.decode("latin-1")[:MAX_NAME_CHARS],
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
