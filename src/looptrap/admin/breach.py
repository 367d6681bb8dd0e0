"""Breaches of budgets for operators: who was refused, since when, and how to raise the limit."""

from __future__ import annotations

from math import ceil
from typing import Literal, TypedDict

from looptrap.admin.api import (
    CURSOR,
    LIMIT,
    ApiError,
    ApiRequest,
    IsoTime,
    field,
    fields,
    iso_time,
    query_history,
    query_page,
    view_of,
)
from looptrap.admin.operation import Api, get
from looptrap.admin.runtime_override import replacing_table
from looptrap.config import Config
from looptrap.config.description import of_budget
from looptrap.money.price import usd
from looptrap.policy.budget import BUDGET
from looptrap.schema import Text
from looptrap.usage.breach import Breach

BREACHES_PATH = "/api/v1/breaches"

LIST_PARAMETERS = fields(field("budget", Text(), "of this budget only"), LIMIT, CURSOR)

RAISE_FACTOR = 2
"""A suggested limit is so many times the present one."""


class BreachView(TypedDict):
    """One exceeded account in one period, and what it refused."""

    id: str
    budget: str
    by: dict[str, str]
    unit: str
    mode: str
    project: str
    opened: IsoTime
    last: IsoTime
    resets: IsoTime | None
    state: Literal["open", "over"]
    used: float
    limit: float
    refused: int
    estimated_usd: float | None
    fingerprint: str
    request_id: str


class BreachPage(TypedDict):
    """A page of breaches, the latest first."""

    breaches: list[BreachView]
    next: str | None


class BudgetRemedy(TypedDict):
    """The budget in words, and with a raised limit; null where the budget is gone."""

    words: str | None
    raised_limit: float | None
    toml: str | None


class BreachDetail(BreachView, BudgetRemedy):
    """A breach with its budget as it is now, and how to raise that."""


class BreachApi(Api):
    """Answers under `/api/v1/breaches`."""

    @get(BREACHES_PATH, "budgets that refused calls", parameters=LIST_PARAMETERS)
    async def _list(self, request: ApiRequest) -> BreachPage:
        page = await query_page(self._history.breaches.breaches, **request.query)
        now = self._now()
        return {"breaches": [breach_view(one, now) for one in page.items], "next": page.next_cursor}

    @get(f"{BREACHES_PATH}/{{id}}", "one of them, and how to raise the limit", errors=(404,))
    async def _show(self, request: ApiRequest) -> BreachDetail:
        found = await query_history(self._history.breaches.breach, request.name)
        if found is None:
            raise ApiError(404, "not_found", "No breach of a budget has this id.")
        return {**breach_view(found, self._now()), **_remedy(found, self._config)}


def breach_view(one: Breach, now: float) -> BreachView:
    """Return a breach as it is listed."""
    return view_of(
        BreachView,
        one,
        by=one.descriptors,
        opened=iso_time(one.opened),
        last=iso_time(one.last),
        resets=iso_time(one.ends) if one.ends else None,
        state="over" if one.ends and one.ends <= now else "open",
        used=_amount(one.unit, one.used),
        limit=_amount(one.unit, one.limit),
        estimated_usd=usd(one.estimate) if one.estimated else None,
    )


def _remedy(one: Breach, config: Config) -> BudgetRemedy:
    """Return the budget in words and with a raised limit; nothing of one that is gone."""
    budget = next((each for each in config.budgets if each.name == one.budget), None)
    name = f"limit_{one.unit}"
    limit = getattr(budget, name, None)
    if budget is None or limit is None:
        return {"words": None, "raised_limit": None, "toml": None}
    raised = ceil(limit * RAISE_FACTOR) if limit >= 1 else limit * RAISE_FACTOR
    return {
        "words": of_budget(budget),
        "raised_limit": raised,
        "toml": replacing_table("budget", BUDGET, BUDGET.plain(budget), {name: raised}),
    }


def _amount(unit: str, amount: int) -> float:
    return usd(amount) if unit == "usd" else amount
