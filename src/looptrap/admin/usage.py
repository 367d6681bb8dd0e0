"""Statistics and spending for operators: what calls came to, over time and by who made them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping
from typing import Any, Literal, NotRequired, TypedDict, cast

from aiohttp import web

from looptrap.admin.api import (
    LIMIT,
    SINCE,
    UNTIL,
    Api,
    IsoTime,
    iso_time,
    json_response,
    problems_response,
    query_history,
    read_parameters,
)
from looptrap.errors import ConfigError, Problem
from looptrap.incident.history import IncidentHistory, UsageQuery
from looptrap.incident.model import Incident
from looptrap.schema import Choice, Field, Number, Table
from looptrap.usage.model import MINUTE_S, UsageTotals
from looptrap.usage.table import SessionShare, UsagePoint, UsageShare

STATS_PATH = "/api/v1/stats"

DAY_S = 86_400

MAX_STEPS = 2_000
"""Steps of time that one answer has at most."""

SAVED_EXPLANATION = (
    "Every call that was refused for a loop is taken to have cost as much as the mean call of the"
    " same incident that passed and has a price; where none passed, as much as its input alone."
    " What has no price is left out, and no call is added that was never made."
)
"""How savings are told."""

STATS_PARAMETERS: Table[dict[str, Any]] = Table(
    build=dict,
    fields=[
        SINCE,
        UNTIL,
        Field(
            name="step",
            kind=Choice((60, 300, 3_600, DAY_S)),
            default=300,
            doc="how long each step is, in seconds",
        ),
        Field(
            name="by",
            kind=Choice(("none", "caller", "project", "model", "provider")),
            default="none",
            doc="whose shares are told too",
        ),
        LIMIT,
    ],
)


class UsageFigures(TypedDict):
    """What calls came to, and what was done with them."""

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


class StatsStep(UsageFigures):
    """What came to pass from a time on, for as long as a step."""

    time: IsoTime


class StatsGroup(TypedDict):
    """The share of one caller, project, model or provider."""

    name: str
    totals: UsageFigures


class Explanation(TypedDict):
    """How a number is told, in a few sentences."""

    how: str


class Stats(TypedDict):
    """What calls came to in some time, step by step."""

    since: IsoTime
    until: IsoTime
    step: int
    totals: UsageFigures
    series: list[StatsStep]
    saved_usd: Explanation
    by: NotRequired[Literal["caller", "project", "model", "provider"]]
    groups: NotRequired[list[StatsGroup]]


class StatsApi(Api):
    """Answers at `/api/v1/stats`."""

    def routes(self) -> list[web.RouteDef]:
        """Return what is answered, and how."""
        return [web.get(STATS_PATH, self._tell)]

    async def _tell(self, request: web.Request) -> web.Response:
        wanted = read_parameters(request, STATS_PARAMETERS)
        step = wanted["step"]
        until = self._app.gateway.clock() if wanted["until"] is None else wanted["until"]
        since = until - DAY_S if wanted["since"] is None else wanted["since"]
        if not 0 <= until - since <= MAX_STEPS * step:
            message = f"makes more than {MAX_STEPS} steps from `since` to `until`, or none"
            return problems_response(ConfigError([Problem("step", message)]))
        books = self._app.desk.history.books
        return json_response(
            await query_history(lambda: _stats_report(books, wanted, since, until))
        )


def usage_figures(spent: UsageTotals) -> UsageFigures:
    """Return sums as they are told."""
    return {
        "calls": spent.calls,
        "allowed": spent.calls - spent.warned - spent.refused,
        "warned": spent.warned,
        "refused": spent.refused,
        "shadowed": spent.shadowed,
        "input_tokens": spent.input_tokens,
        "output_tokens": spent.output_tokens,
        "cost_usd": spent.cost_usd,
        "unpriced": spent.unpriced,
        "estimated": spent.estimated,
        "saved_usd": spent.saved_usd,
    }


def _stats_report(books: UsageQuery, wanted: dict[str, Any], since: float, until: float) -> Stats:
    step, by = wanted["step"], wanted["by"]
    # The first step is told as a whole, so that it is no lower than it was.
    since = since // step * step
    found = {one.time: one.spent for one in books.series(since, until, step)}
    begins = range(int(since), max(int(until), int(since) + 1), step)
    told: Stats = {
        "since": iso_time(since),
        "until": iso_time(until),
        "step": step,
        "totals": usage_figures(books.totals(since, until)),
        "series": [
            {"time": iso_time(begin), **usage_figures(found.get(begin) or UsageTotals())}
            for begin in begins
        ],
        "saved_usd": {"how": SAVED_EXPLANATION},
    }
    if by != "none":
        shares = books.top(by, since, until, limit=wanted["limit"])
        told["by"] = by
        told["groups"] = [{"name": one.name, "totals": usage_figures(one.spent)} for one in shares]
    return told


SPENDING_PATH = "/api/v1/spending"

SpendingDimension = Literal["caller", "project", "session", "model", "provider"]


def _step_problems(given: Mapping[str, Any]) -> Iterator[Problem]:
    if (given.get("step") or 0) % MINUTE_S:
        yield Problem("step", "must be whole minutes, such as 60 or 3600")


SPENDING_PARAMETERS: Table[dict[str, Any]] = Table(
    build=dict,
    check=_step_problems,
    fields=[
        Field(
            name="by",
            kind=Choice(("caller", "project", "session", "model", "provider")),
            doc="whose shares are told",
        ),
        SINCE,
        UNTIL,
        Field(
            name="step",
            kind=Number(low=MINUTE_S, high=30 * DAY_S, unit="seconds", whole=True),
            doc="tells it over time, in steps so long",
        ),
        Field(
            name="order",
            kind=Choice(("cost", "refused", "calls", "tokens", "burn")),
            default="cost",
            doc="what the first have most of",
        ),
        LIMIT,
    ],
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
    caller: NotRequired[str]
    project: NotRequired[str]
    model: NotRequired[str]


class SpendingStep(UsageFigures):
    """What came to pass in a step of time; of one name, where shares are told."""

    time: IsoTime
    name: NotRequired[str]


class SpendingReport(TypedDict):
    """What calls came to in some time."""

    since: IsoTime
    until: IsoTime
    totals: UsageFigures
    by: NotRequired[SpendingDimension]
    rows: NotRequired[list[SpendingRow]]
    step: NotRequired[int]
    series: NotRequired[list[SpendingStep]]


class SpendingApi(Api):
    """Answers under `/api/v1/spending`."""

    def routes(self) -> list[web.RouteDef]:
        """Return what is answered, and how."""
        return [web.get(SPENDING_PATH, self._tell)]

    async def _tell(self, request: web.Request) -> web.Response:
        wanted = read_parameters(request, SPENDING_PARAMETERS)
        now = self._app.gateway.clock()
        until = now if wanted["until"] is None else wanted["until"]
        since = until - DAY_S if wanted["since"] is None else wanted["since"]
        if wanted["step"] is not None and until - since > MAX_STEPS * wanted["step"]:
            message = f"makes more than {MAX_STEPS} steps from `since` to `until`"
            return problems_response(ConfigError([Problem("step", message)]))
        history = self._app.desk.history
        return json_response(
            await query_history(lambda: _spending_report(history, wanted, since, until, now))
        )


def _spending_report(
    history: IncidentHistory, wanted: dict[str, Any], since: float, until: float, now: float
) -> SpendingReport:
    books, by, step = history.books, wanted["by"], wanted["step"]
    order, limit = wanted["order"], wanted["limit"]
    told: SpendingReport = {
        "since": iso_time(since),
        "until": iso_time(until),
        "totals": usage_figures(books.totals(since, until)),
    }
    if by == "session":
        found = books.sessions(since, order=order, limit=limit)
        looping = _open_incident_counts(history, lambda one: (one.caller, one.project, one.session))
        told["rows"] = [_session_row(one, now, looping[one.session]) for one in found]
    elif by is not None:
        shares = books.top(by, since, until, order=order, limit=limit)
        looping = _open_incident_counts(history, lambda one: getattr(one, by))
        told["rows"] = [_share_row(one, looping[one.name]) for one in shares]
    if by is not None:
        told["by"] = by
    if step is not None:
        name = None if by == "session" else by
        told["step"] = step
        told["series"] = [_series_step(name, one) for one in books.series(since, until, step, name)]
    return told


def _open_incident_counts(
    history: IncidentHistory, whose: Callable[[Incident], Hashable]
) -> Counter[Hashable]:
    """Return how many incidents are open, by whose they are."""
    parts = {part.id: part for part in history.open_incidents()}
    return Counter(map(whose, parts.values()))


def _share_row(one: UsageShare, incidents: int) -> SpendingRow:
    told = {
        "name": one.name,
        **usage_figures(one.spent),
        "tokens": one.spent.tokens,
        "burn": one.burn,
        "first": iso_time(one.first),
        "last": iso_time(one.last),
        "incidents": incidents,
    }
    return cast(SpendingRow, told)


def _series_step(by: str | None, one: UsagePoint) -> SpendingStep:
    name = {} if by is None else {"name": one.name}
    return cast(SpendingStep, {"time": iso_time(one.time), **name, **usage_figures(one.spent)})


def _session_row(one: SessionShare, now: float, incidents: int) -> SpendingRow:
    run = one.run
    return {
        "name": one.session.session,
        "caller": one.session.caller,
        "project": one.session.project,
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
