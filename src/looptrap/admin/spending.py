"""Spending for operators: what calls came to, over time and by who made them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping
from typing import Any, Literal, NotRequired, TypedDict, cast

from aiohttp import web

from looptrap.admin.answer import Api, answer, mistakes
from looptrap.admin.history import LIMIT, SINCE, UNTIL, Iso, ask, moment, parameters
from looptrap.admin.stats import DAY, MOST_STEPS, Figures, figures
from looptrap.errors import ConfigError, Problem
from looptrap.incident.history import History
from looptrap.incident.history.spending import Point, SessionShare, Share
from looptrap.incident.model import Incident
from looptrap.incident.spent import MINUTE
from looptrap.schema import Choice, Field, Number, Table

PATH = "/api/v1/spending"

By = Literal["caller", "project", "session", "model", "provider"]


def _mistakes(given: Mapping[str, Any]) -> Iterator[Problem]:
    if (given.get("step") or 0) % MINUTE:
        yield Problem("step", "must be whole minutes, such as 60 or 3600")


ASKED: Table[dict[str, Any]] = Table(
    build=dict,
    check=_mistakes,
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
            kind=Number(low=MINUTE, high=30 * DAY, unit="seconds", whole=True),
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


class Row(TypedDict):
    """The share of one caller, project, session, model or provider."""

    name: str
    calls: int
    refused: int
    tokens: int
    cost_usd: float | None
    unpriced: int
    burn: int
    first: Iso
    last: Iso
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


class SpendingStep(Figures):
    """What came to pass in a step of time; of one name, where shares are told."""

    time: Iso
    name: NotRequired[str]


class Spending(TypedDict):
    """What calls came to in some time."""

    since: Iso
    until: Iso
    totals: Figures
    by: NotRequired[By]
    rows: NotRequired[list[Row]]
    step: NotRequired[int]
    series: NotRequired[list[SpendingStep]]


class SpendingApi(Api):
    """Answers under `/api/v1/spending`."""

    def routes(self) -> list[web.RouteDef]:
        """Return what is answered, and how."""
        return [web.get(PATH, self._tell)]

    async def _tell(self, request: web.Request) -> web.Response:
        wanted = parameters(request, ASKED)
        now = self._app.gateway.clock()
        until = now if wanted["until"] is None else wanted["until"]
        since = until - DAY if wanted["since"] is None else wanted["since"]
        if wanted["step"] is not None and until - since > MOST_STEPS * wanted["step"]:
            message = f"makes more than {MOST_STEPS} steps from `since` to `until`"
            return mistakes(ConfigError([Problem("step", message)]))
        history = self._app.desk.history
        return answer(await ask(lambda: _told(history, wanted, since, until, now)))


def _told(
    history: History, wanted: dict[str, Any], since: float, until: float, now: float
) -> Spending:
    books, by, step = history.books, wanted["by"], wanted["step"]
    order, limit = wanted["order"], wanted["limit"]
    told: Spending = {
        "since": moment(since),
        "until": moment(until),
        "totals": figures(books.totals(since, until)),
    }
    if by == "session":
        found = books.sessions(since, order=order, limit=limit)
        looping = _looping(history, lambda one: (one.caller, one.project, one.session))
        told["rows"] = [_session(one, now, looping[one.session]) for one in found]
    elif by is not None:
        shares = books.top(by, since, until, order=order, limit=limit)
        looping = _looping(history, lambda one: getattr(one, by))
        told["rows"] = [_share(one, looping[one.name]) for one in shares]
    if by is not None:
        told["by"] = by
    if step is not None:
        name = None if by == "session" else by
        told["step"] = step
        told["series"] = [_point(name, one) for one in books.series(since, until, step, name)]
    return told


def _looping(history: History, whose: Callable[[Incident], Hashable]) -> Counter[Hashable]:
    """Return how many incidents are open, by whose they are."""
    parts = {part.id: part for part in history.open_incidents()}
    return Counter(map(whose, parts.values()))


def _share(one: Share, incidents: int) -> Row:
    told = {
        "name": one.name,
        **figures(one.spent),
        "tokens": one.spent.tokens,
        "burn": one.burn,
        "first": moment(one.first),
        "last": moment(one.last),
        "incidents": incidents,
    }
    return cast(Row, told)


def _point(by: str | None, one: Point) -> SpendingStep:
    name = {} if by is None else {"name": one.name}
    return cast(SpendingStep, {"time": moment(one.time), **name, **figures(one.spent)})


def _session(one: SessionShare, now: float, incidents: int) -> Row:
    run = one.run
    return {
        "name": one.session.session,
        "caller": one.session.caller,
        "project": one.session.project,
        "model": run.model,
        "first": moment(run.first),
        "last": moment(run.last),
        "calls": run.calls,
        "refused": run.refused,
        "tokens": run.tokens,
        "cost_usd": run.cost_usd,
        "unpriced": run.unpriced,
        "burn": run.tokens_a_minute(now),
        "incidents": incidents,
    }
