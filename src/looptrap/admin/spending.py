"""Spending for operators: what calls came to, over time and by who made them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
from aiohttp import web

from looptrap.admin.answer import answer, mistakes
from looptrap.admin.history import LIMIT, Instant, ask, moment, parameters
from looptrap.errors import ConfigError, Problem
from looptrap.gateway.app import App
from looptrap.incident.history.spending import Books, Point, SessionShare, Share
from looptrap.incident.spent import MINUTE, Spent
from looptrap.schema import Choice, Field, Number, Table

PATH = "/api/v1/spending"

DAY = 86_400

MOST_STEPS = 2_000
"""Steps of time that one answer has at most."""


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
        Field(name="since", kind=Instant(), doc="from then on; without it, the last 24 hours"),
        Field(name="until", kind=Instant(), doc="up to then; without it, now"),
        Field(
            name="step",
            kind=Number(low=MINUTE, high=30 * DAY, unit="seconds", whole=True),
            doc="tells it over time, in steps so long",
        ),
        Field(
            name="order",
            kind=Choice(("cost", "refused", "calls", "tokens")),
            default="cost",
            doc="what the first have most of",
        ),
        LIMIT,
    ],
)


class SpendingApi:
    """Answers under `/api/v1/spending`."""

    def __init__(self, app: App) -> None:
        self._app = app

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
        books = self._app.desk.history.books
        return answer(await ask(lambda: _told(books, wanted, since, until, now)))


def _told(
    books: Books, wanted: dict[str, Any], since: float, until: float, now: float
) -> dict[str, Any]:
    by, step, order = wanted["by"], wanted["step"], wanted["order"]
    told: dict[str, Any] = {
        "since": moment(since),
        "until": moment(until),
        "totals": _figures(books.totals(since, until)),
    }
    if by == "session":
        found = books.sessions(since, order=order, limit=wanted["limit"])
        told |= {"by": by, "top": [_session(one, now) for one in found]}
    elif by is not None:
        shares = books.top(by, since, until, order=order, limit=wanted["limit"])
        told |= {"by": by, "top": [_share(by, one) for one in shares]}
    if step is not None:
        name = None if by == "session" else by
        points = books.series(since, until, step, name)
        told |= {"step": step, "series": [_point(name, one) for one in points]}
    return told


def _figures(spent: Spent) -> dict[str, Any]:
    told = msgspec.structs.asdict(spent)
    del told["cost"], told["saved"]
    return {**told, "cost_usd": spent.cost_usd, "saved_usd": spent.saved_usd}


def _share(by: str, one: Share) -> dict[str, Any]:
    return {by: one.name, **_figures(one.spent)}


def _point(by: str | None, one: Point) -> dict[str, Any]:
    name = {} if by is None else {by: one.name}
    return {"time": moment(one.time), **name, **_figures(one.spent)}


def _session(one: SessionShare, now: float) -> dict[str, Any]:
    run = one.run
    return {
        **one.session._asdict(),
        "model": run.model,
        "first": moment(run.first),
        "last": moment(run.last),
        "calls": run.calls,
        "refused": run.refused,
        "tokens": run.tokens,
        "cost_usd": run.cost_usd,
        "unpriced": run.unpriced,
        "tokens_a_minute": run.tokens_a_minute(now),
    }
