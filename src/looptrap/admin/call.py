"""The log of calls for operators: list and filter them, sum them up over time, show one."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, TypedDict, get_args

from looptrap.admin.api import (
    CURSOR,
    LIMIT,
    SINCE,
    UNTIL,
    ApiError,
    ApiRequest,
    Instant,
    IsoTime,
    field,
    fields,
    iso_time,
    query_history,
    query_page,
    view_of,
)
from looptrap.admin.operation import Api, get
from looptrap.admin.usage import DAY_S, STEP_KIND, step_problems, time_steps
from looptrap.incident.history import IncidentHistory
from looptrap.money.price import nano, usd
from looptrap.schema import Choice, Number, Text
from looptrap.usage.call_log import CallFilter, LoggedCall, VerdictFilter
from looptrap.usage.model import UsageTotals

CALLS_PATH = "/api/v1/calls"

CALL_ID = "[0-9]{1,18}"

_NAMES = {
    "caller": "of this caller only",
    "project": "of this project only",
    "session": "of this session only",
    "agent": "of this agent only",
    "model": "for this model only",
    "provider": "sent to this provider only",
    "rule": "on which this rule acted, or would have but for shadow mode",
    "request_id": "with this request id",
}

FILTERS = (
    *(field(name, Text(), doc) for name, doc in _NAMES.items()),
    field(
        "verdict",
        Choice(get_args(VerdictFilter)),
        "with this action; `refused`: not forwarded; `shadow`: only shadow mode let them pass",
    ),
    field(
        "status",
        Text(form="a status or a class of them, such as 429 or 5xx", pattern="[0-9]{1,3}|[1-5]xx"),
        "with this status",
    ),
    field("min_cost_usd", Number(low=0, high=1_000_000), "that cost at least this many dollars"),
    field("min_latency", Number(low=0, high=DAY_S, unit="seconds"), "that took at least this long"),
)

LIST_PARAMETERS = fields(
    *FILTERS,
    field("since", Instant(), "from then on"),
    field("until", Instant(), "up to then"),
    field("after", Number(low=0, high=10**18, whole=True), "logged after the call with this id"),
    LIMIT,
    CURSOR,
)

SERIES_PARAMETERS = fields(
    *FILTERS,
    SINCE,
    UNTIL,
    field("step", STEP_KIND, "the length of a step", 3_600),
    check=step_problems,
)


class CallView(TypedDict):
    """One logged call; it stands for `weight` calls."""

    id: int
    time: IsoTime
    weight: int
    caller: str
    project: str
    session: str
    agent: str
    model: str
    provider: str
    dialect: str
    status: int
    verdict: str
    shadow: str
    reason: str
    policy: str
    rule: str
    input_tokens: int
    output_tokens: int
    cached_tokens: int
    is_estimated: bool
    cost_usd: float | None
    latency: float
    first_byte: float | None
    is_stream: bool
    is_cut_off: bool
    request_id: str


class CallDetail(CallView):
    """A call, and the incidents that it is part of."""

    incidents: list[str]


class CallPage(TypedDict):
    """A page of calls, the latest first."""

    calls: list[CallView]
    next: str | None
    is_logging: bool


class CallStep(TypedDict):
    """The figures of one step of time, each row counted as many times as it weighs."""

    time: IsoTime
    calls: int
    refused: int
    warned: int
    shadowed: int
    input_tokens: int
    output_tokens: int
    cost_usd: float | None
    unpriced: int


class CallSeries(TypedDict):
    """Logged calls over time."""

    since: IsoTime
    until: IsoTime
    step: int
    series: list[CallStep]


class CallApi(Api):
    """Answers under `/api/v1/calls`."""

    @get(CALLS_PATH, "logged calls, a page of them", parameters=LIST_PARAMETERS)
    async def _list(self, request: ApiRequest) -> CallPage:
        query = request.query
        wanted = _filter(query, since=query["since"], until=query["until"], after=query["after"])
        page = await query_page(self._history.calls.page, wanted, query["limit"], query["cursor"])
        return {
            "calls": [_call(one) for one in page.items],
            "next": page.next_cursor,
            "is_logging": self._app.config.call_log.enabled,
        }

    @get(f"{CALLS_PATH}/series", "logged calls over time", parameters=SERIES_PARAMETERS)
    async def _series(self, request: ApiRequest) -> CallSeries:
        query, step = request.query, request.query["step"]
        since, until, begins = time_steps(query, self._now())
        wanted = _filter(query, since=since, until=until)
        found = dict(await query_history(self._history.calls.series, wanted, step))
        return {
            "since": iso_time(since),
            "until": iso_time(until),
            "step": step,
            "series": [_step(begin, found.get(begin, UsageTotals())) for begin in begins],
        }

    @get(
        f"{CALLS_PATH}/{{id}}",
        "one logged call, with its incidents",
        errors=(404,),
        path_kind=Text(form="the id of a call", pattern=CALL_ID),
    )
    async def _show(self, request: ApiRequest) -> CallDetail:
        found = None
        if re.fullmatch(CALL_ID, request.name):
            found = await query_history(_find, self._history, int(request.name))
        if found is None:
            message = "No call has this id: it is too old, or was not logged."
            raise ApiError(404, "not_found", message)
        return found


def _filter(query: Mapping[str, Any], **values: Any) -> CallFilter:
    """Return the filter that the parameters ask for."""
    names = {name: query[name] for name in (*_NAMES, "verdict", "min_latency")}
    status, cost = query["status"], query["min_cost_usd"]
    if status is not None:
        lowest = int(status.replace("x", "0"))
        values |= {"min_status": lowest, "max_status": lowest + (99 if "x" in status else 0)}
    return CallFilter(**names, **values, min_cost=None if cost is None else nano(cost))


def _call(logged: LoggedCall) -> CallView:
    number, row = logged
    return view_of(
        CallView,
        row,
        id=number,
        time=iso_time(row.time),
        cost_usd=None if row.cost is None else usd(row.cost),
        **{name: bool(getattr(row, name)) for name in ("is_estimated", "is_stream", "is_cut_off")},
    )


def _find(history: IncidentHistory, number: int) -> CallDetail | None:
    logged = history.calls.call(number)
    if logged is None:
        return None
    row, incidents = logged.row, list[str]()
    if row.reason == "loop_detected":
        # Those of its session that were open when it was settled.
        page = history.incidents(caller=row.caller, session=row.session, since=row.time)
        incidents = [one.id for one in page.items if one.opened <= row.time]
    return {**_call(logged), "incidents": incidents}


def _step(begin: int, figures: UsageTotals) -> CallStep:
    return view_of(CallStep, figures, time=iso_time(begin))
