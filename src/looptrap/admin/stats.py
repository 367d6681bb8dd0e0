"""Statistics for operators: what was done with calls over time, and what they came to."""

from __future__ import annotations

from typing import Any, Literal, NotRequired, TypedDict

from aiohttp import web

from looptrap.admin.answer import Api, answer, mistakes
from looptrap.admin.history import LIMIT, SINCE, UNTIL, Iso, ask, moment, parameters
from looptrap.errors import ConfigError, Problem
from looptrap.incident.history import Books
from looptrap.incident.spent import Spent
from looptrap.schema import Choice, Field, Table

PATH = "/api/v1/stats"

DAY = 86_400

MOST_STEPS = 2_000
"""Steps of time that one answer has at most."""

HOW = (
    "Every call that was refused for a loop is taken to have cost as much as the mean call of the"
    " same incident that passed and has a price; where none passed, as much as its input alone."
    " What has no price is left out, and no call is added that was never made."
)
"""How savings are told."""

ASKED: Table[dict[str, Any]] = Table(
    build=dict,
    fields=[
        SINCE,
        UNTIL,
        Field(
            name="step",
            kind=Choice((60, 300, 3_600, DAY)),
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


class Figures(TypedDict):
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


class StatsStep(Figures):
    """What came to pass from a time on, for as long as a step."""

    time: Iso


class Group(TypedDict):
    """The share of one caller, project, model or provider."""

    name: str
    totals: Figures


class Explained(TypedDict):
    """How a number is told, in a few sentences."""

    how: str


class Stats(TypedDict):
    """What calls came to in some time, step by step."""

    since: Iso
    until: Iso
    step: int
    totals: Figures
    series: list[StatsStep]
    saved_usd: Explained
    by: NotRequired[Literal["caller", "project", "model", "provider"]]
    groups: NotRequired[list[Group]]


class StatsApi(Api):
    """Answers at `/api/v1/stats`."""

    def routes(self) -> list[web.RouteDef]:
        """Return what is answered, and how."""
        return [web.get(PATH, self._tell)]

    async def _tell(self, request: web.Request) -> web.Response:
        wanted = parameters(request, ASKED)
        step = wanted["step"]
        until = self._app.gateway.clock() if wanted["until"] is None else wanted["until"]
        since = until - DAY if wanted["since"] is None else wanted["since"]
        if not 0 <= until - since <= MOST_STEPS * step:
            message = f"makes more than {MOST_STEPS} steps from `since` to `until`, or none"
            return mistakes(ConfigError([Problem("step", message)]))
        books = self._app.desk.history.books
        return answer(await ask(lambda: _told(books, wanted, since, until)))


def figures(spent: Spent) -> Figures:
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


def _told(books: Books, wanted: dict[str, Any], since: float, until: float) -> Stats:
    step, by = wanted["step"], wanted["by"]
    # The first step is told as a whole, so that it is no lower than it was.
    since = since // step * step
    found = {one.time: one.spent for one in books.series(since, until, step)}
    begins = range(int(since), max(int(until), int(since) + 1), step)
    told: Stats = {
        "since": moment(since),
        "until": moment(until),
        "step": step,
        "totals": figures(books.totals(since, until)),
        "series": [
            {"time": moment(begin), **figures(found.get(begin) or Spent())} for begin in begins
        ],
        "saved_usd": {"how": HOW},
    }
    if by != "none":
        shares = books.top(by, since, until, limit=wanted["limit"])
        told["by"] = by
        told["groups"] = [{"name": one.name, "totals": figures(one.spent)} for one in shares]
    return told
