"""Statistics and spending for operators: usage of calls, over time and by caller."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple, NotRequired, TypedDict, cast, get_args

from looptrap.admin.api import (
    LIMIT,
    SINCE,
    UNTIL,
    ApiRequest,
    IsoTime,
    field,
    fields,
    iso_time,
    query_history,
    view_of,
)
from looptrap.admin.operation import Api, get
from looptrap.errors import ConfigError, Problem
from looptrap.incident.history import IncidentHistory
from looptrap.incident.model import Incident, merge_parts
from looptrap.schema import Choice, Number, Text
from looptrap.usage.model import MINUTE_S, UsageTotals
from looptrap.usage.table import MAX_SERIES, SessionShare, UsagePoint, UsageShare

DAY_S = 86_400

MAX_STEPS = 2_000
"""Steps of time in one answer."""

SAVED_EXPLANATION = (
    "Every call that was refused for a loop is taken to have cost as much as the mean call of the"
    " same incident that passed and has a price; where none passed, as much as its input alone."
    " What has no price is left out, and no call is added that was never made."
)

DIMENSIONS = ("caller", "project", "model", "provider")

FILTERS = tuple(field(name, Text(), f"of this {name} only") for name in DIMENSIONS)

STATS_PARAMETERS = fields(
    SINCE,
    UNTIL,
    field("step", Choice((60, 300, 3_600, DAY_S)), "the length of a step, in seconds", 300),
    field("by", Choice(("none", *DIMENSIONS)), "also group by this", "none"),
    *FILTERS,
    LIMIT,
)


class UsageFigures(TypedDict):
    """What calls used, and what was done with them."""

    calls: int
    allowed: int
    warned: int
    refused: int
    shadowed: int
    input_tokens: int
    output_tokens: int
    cost_usd: float | None
    unpriced: int
    estimated: int
    saved_usd: float
    looped_usd: float


class StatsStep(UsageFigures):
    """The figures of one step of time."""

    time: IsoTime


class StatsGroup(TypedDict):
    """The share of one caller, project, model or provider."""

    name: str
    totals: UsageFigures


class BurningLoops(TypedDict):
    """Open loops whose calls pass, and what they cost an hour; None if none has a price."""

    loops: int
    usd_an_hour: float | None


class Explanation(TypedDict):
    """How a number is calculated."""

    how: str


class Stats(TypedDict):
    """The figures of some time, step by step."""

    since: IsoTime
    until: IsoTime
    step: int
    totals: UsageFigures
    series: list[StatsStep]
    saved_usd: Explanation
    burning: BurningLoops
    by: NotRequired[Literal["caller", "project", "model", "provider"]]
    groups: NotRequired[list[StatsGroup]]


SpendingDimension = Literal["caller", "project", "session", "model", "provider"]


def step_problems(values: Mapping[str, Any]) -> Iterator[Problem]:
    """Find a step that is not whole minutes."""
    if (values.get("step") or 0) % MINUTE_S:
        yield Problem("step", "must be whole minutes, such as 60 or 3600")


def _spending_problems(values: Mapping[str, Any]) -> Iterator[Problem]:
    yield from step_problems(values)
    by = values.get("by")
    if by != "session" and values.get("session"):
        yield Problem("session", "needs by=session: other figures are not known by session")
    if by == "session":
        for name in ("model", "provider"):
            if values.get(name):
                yield Problem(name, "does not go with by=session: a session may use several")


STEP_KIND = Number(low=MINUTE_S, high=30 * DAY_S, unit="seconds", whole=True)
OFFSET_KIND = Number(low=-DAY_S, high=DAY_S, unit="seconds", whole=True)
ORDER_KIND = Choice(("cost", "refused", "calls", "tokens", "burn"))

SPENDING_PARAMETERS = fields(
    field("by", Choice(get_args(SpendingDimension)), "group by this"),
    SINCE,
    UNTIL,
    field("step", STEP_KIND, "report over time, in steps of this length"),
    field("utc_offset", OFFSET_KIND, "seconds of local time before UTC: days begin there", 0),
    field("order", ORDER_KIND, "sort by this, descending", "cost"),
    *FILTERS,
    field("session", Text(), "of this session only; with `by=session`"),
    LIMIT,
    check=_spending_problems,
)


class SpendingRow(TypedDict):
    """The share of one caller, project, session, model or provider."""

    name: str
    calls: int
    refused: int
    tokens: int
    cost_usd: float | None
    unpriced: int
    burn: int
    first: IsoTime
    last: IsoTime
    incidents: int
    allowed: NotRequired[int]
    warned: NotRequired[int]
    shadowed: NotRequired[int]
    input_tokens: NotRequired[int]
    output_tokens: NotRequired[int]
    estimated: NotRequired[int]
    saved_usd: NotRequired[float]
    looped_usd: NotRequired[float]
    caller: NotRequired[str]
    project: NotRequired[str]
    model: NotRequired[str]


class SpendingStep(UsageFigures):
    """The figures of one step of time; of one name, where the report is grouped."""

    time: IsoTime
    name: NotRequired[str]


class SpendingReport(TypedDict):
    """The figures of some time, grouped or step by step."""

    since: IsoTime
    until: IsoTime
    totals: UsageFigures
    by: NotRequired[SpendingDimension]
    rows: NotRequired[list[SpendingRow]]
    step: NotRequired[int]
    series: NotRequired[list[SpendingStep]]


class UsageApi(Api):
    """Answers at `/api/v1/stats` and `/api/v1/spending`."""

    @get("/api/v1/stats", "what was done with calls over time", parameters=STATS_PARAMETERS)
    async def _stats(self, request: ApiRequest) -> Stats:
        query, now = request.query, self._now()
        steps = time_steps(query, now)
        return await query_history(_stats_report, self._history, query, steps, now)

    @get("/api/v1/spending", "what calls came to, and by whom", parameters=SPENDING_PARAMETERS)
    async def _spending(self, request: ApiRequest) -> SpendingReport:
        query, now = request.query, self._now()
        since, until = time_range(query, now)
        if query["step"] is not None and until - since > MAX_STEPS * query["step"]:
            message = f"makes more than {MAX_STEPS} steps from `since` to `until`"
            raise ConfigError([Problem("step", message)])
        return await query_history(_spending_report, self._history, query, since, until, now)


def time_range(query: Mapping[str, Any], now: float) -> tuple[float, float]:
    """Return the start and the end of what is asked for; without them, the last 24 hours."""
    until = now if query["until"] is None else query["until"]
    return until - DAY_S if query["since"] is None else query["since"], until


class TimeSteps(NamedTuple):
    """Some time in whole steps; the first is whole too, so that it is no lower than it was."""

    since: float
    until: float
    begins: range


def time_steps(query: Mapping[str, Any], now: float) -> TimeSteps:
    """Return the steps of what is asked for; raise ConfigError for too many, or none."""
    (since, until), step = time_range(query, now), query["step"]
    if not 0 <= until - since <= MAX_STEPS * step:
        message = f"makes more than {MAX_STEPS} steps from `since` to `until`, or none"
        raise ConfigError([Problem("step", message)])
    since = since // step * step
    begins = range(int(since), max(int(until), int(since) + 1), step)
    return TimeSteps(since, until, begins)


SESSION_FILTERS = ("caller", "project", "session")


def _filter(query: Mapping[str, Any], names: Sequence[str] = DIMENSIONS) -> dict[str, str]:
    """Return the values that rows must have, by column."""
    return {name: query[name] for name in names if query[name] is not None}


def usage_figures(spent: UsageTotals) -> UsageFigures:
    """Return totals as the API shows them."""
    return view_of(UsageFigures, spent, allowed=spent.calls - spent.warned - spent.refused)


def _stats_report(
    history: IncidentHistory, query: dict[str, Any], steps: TimeSteps, now: float
) -> Stats:
    books, (since, until, begins) = history.usage, steps
    step, by, only = query["step"], query["by"], _filter(query)
    found = {one.time: one.spent for one in books.series(since, until, step, only=only)}
    report: Stats = {
        "since": iso_time(since),
        "until": iso_time(until),
        "step": step,
        "totals": usage_figures(books.totals(since, until, only)),
        "series": [
            {"time": iso_time(begin), **usage_figures(found.get(begin) or UsageTotals())}
            for begin in begins
        ],
        "saved_usd": {"how": SAVED_EXPLANATION},
        "burning": burning_loops(
            (
                one
                for one in history.open_incidents()
                if all(getattr(one, name) == value for name, value in only.items())
            ),
            now,
        ),
    }
    if by != "none":
        shares = books.top(by, since, until, limit=query["limit"], only=only)
        groups = [StatsGroup(name=one.name, totals=usage_figures(one.spent)) for one in shares]
        report["by"], report["groups"] = by, groups
    return report


def _spending_report(
    history: IncidentHistory, query: dict[str, Any], since: float, until: float, now: float
) -> SpendingReport:
    books, by, step = history.usage, query["by"], query["step"]
    order, limit, only = query["order"], query["limit"], _filter(query)
    report: SpendingReport = {
        "since": iso_time(since),
        "until": iso_time(until),
        "totals": usage_figures(books.totals(since, until, only)),
    }
    top: list[UsageShare] | None = None
    if by == "session":
        found = books.sessions(
            since, order=order, limit=limit, only=_filter(query, SESSION_FILTERS)
        )
        looping = _open_incident_counts(history, lambda one: (one.caller, one.project, one.session))
        report["rows"] = [_session_row(one, now, looping[one.session]) for one in found]
    elif by is not None:
        shares = books.top(by, since, until, order=order, limit=limit, only=only)
        if order == "cost" and limit >= MAX_SERIES:
            top = shares
        looping = _open_incident_counts(history, lambda one: getattr(one, by))
        report["rows"] = [_share_row(one, looping[one.name]) for one in shares]
    if by is not None:
        report["by"] = by
    if step is not None:
        name = None if by == "session" else by
        series = books.series(
            since, until, step, name, utc_offset=query["utc_offset"], only=only, top=top
        )
        report["step"], report["series"] = step, [_series_step(name, one) for one in series]
    return report


def burning_loops(parts: Iterable[Incident], now: float) -> BurningLoops:
    """Return the loops among parts of open incidents whose calls go on and are paid for."""
    by_id: dict[str, list[Incident]] = {}
    for part in parts:
        by_id.setdefault(part.id, []).append(part)
    burning = [one for one in map(merge_parts, by_id.values()) if one.is_burning(now)]
    rates = [one.projected_usd_an_hour for one in burning]
    priced = [rate for rate in rates if rate is not None]
    return {"loops": len(burning), "usd_an_hour": sum(priced) if priced or not rates else None}


def _open_incident_counts(
    history: IncidentHistory, whose: Callable[[Incident], Hashable]
) -> Counter[Hashable]:
    """Return the number of open incidents by their owner."""
    parts = {part.id: part for part in history.open_incidents()}
    return Counter(map(whose, parts.values()))


def _series_step(by: str | None, one: UsagePoint) -> SpendingStep:
    name = {} if by is None else {"name": one.name}
    return cast(SpendingStep, {"time": iso_time(one.time), **name, **usage_figures(one.spent)})


def _share_row(one: UsageShare, incidents: int) -> SpendingRow:
    row = {
        **usage_figures(one.spent),
        "name": one.name,
        "tokens": one.spent.tokens,
        "burn": one.burn,
        "first": iso_time(one.first),
        "last": iso_time(one.last),
        "incidents": incidents,
    }
    return cast(SpendingRow, row)


def _session_row(one: SessionShare, now: float, incidents: int) -> SpendingRow:
    (caller, project, name), run = one.session, one.run
    return {
        "name": name,
        "caller": caller,
        "project": project,
        "model": run.model,
        "first": iso_time(run.first),
        "last": iso_time(run.last),
        "calls": run.calls,
        "refused": run.refused,
        "tokens": run.tokens,
        "cost_usd": run.cost_usd,
        "unpriced": run.unpriced,
        "burn": run.tokens_a_minute(now),
        "incidents": incidents,
    }
