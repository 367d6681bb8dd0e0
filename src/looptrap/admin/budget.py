"""Budgets for operators: accounts and their balances, limits set at run time, and breaches."""

from __future__ import annotations

from collections.abc import Iterable
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
from looptrap.admin.config import (
    VERSION_SCHEMA,
    OverrideApi,
    override_operations,
    replacing_table,
)
from looptrap.admin.operation import Api, get, json_body
from looptrap.config import Config
from looptrap.config.description import of_budget, of_rate
from looptrap.gateway.app import App
from looptrap.money.budget_meter import Account, end_of, limits_of
from looptrap.money.meter import Unit
from looptrap.money.meters import SESSION_LIMIT
from looptrap.money.price import usd
from looptrap.policy.budget import BUDGET, BUDGET_LIMITS, Budget
from looptrap.policy.kind import NAME
from looptrap.policy.policy import Mode
from looptrap.schema import Text
from looptrap.store.model import UNLIMITED, Balance
from looptrap.usage.breach import Breach

BUDGETS_PATH = "/api/v1/budgets"

MAX_ACCOUNTS = 50
"""Accounts listed for one budget, the most used first."""


LIST_PARAMETERS = fields(
    field("caller", Text(), "only accounts of this caller"),
    field("session", Text(), "no accounts of other sessions"),
)


class AccountView(TypedDict):
    """One account of a budget."""

    by: dict[str, str]
    used: float
    limit: float
    percent: int
    is_exceeded: bool
    resets: IsoTime | None
    fingerprint: str


class BudgetView(TypedDict):
    """The dollars, or the tokens, of a budget."""

    name: str
    by: list[str]
    unit: Unit
    limit: float | None
    file_limit: float | None
    version: int
    toml: str | None
    period: str
    thresholds: dict[str, int]
    mode: Mode
    words: str
    accounts: list[AccountView]


class RateView(TypedDict):
    """A rate limit, and its policy."""

    name: str
    policy: str
    words: str


class BudgetList(TypedDict):
    """All budgets and rates."""

    budgets: list[BudgetView]
    rates: list[RateView]


class BudgetApi(OverrideApi):
    """Answers under `/api/v1/budgets`."""

    noun, table = "budget", BUDGET
    example = '{"limit_usd": 30}'

    @get(BUDGETS_PATH, "budgets, and how accounts stand", parameters=LIST_PARAMETERS)
    async def _list(self, request: ApiRequest) -> BudgetList:
        app, now = self._app, self._now()
        config = app.gateway.runtime.config
        balances = [
            pair for pair in await recent_balances(app) if _is_wanted(pair[0], **request.query)
        ]
        of_file = {one.name: dict(limits_of(one)) for one in app.config.budgets}
        views: list[BudgetView] = []
        for budget in config.budgets:
            settings, file_limits = self._view(budget.name), of_file[budget.name]
            for unit, limit in limits_of(budget):
                in_file = _amount(unit, file_limits[unit]) if unit in file_limits else None
                view = _budget(budget, unit, limit, balances, now)
                view["file_limit"] = in_file
                view["version"], view["toml"] = settings["version"], settings["toml"]
                views.append(view)
        own = _budget(SESSION_LIMIT, "usd", UNLIMITED, balances, now)
        if own["accounts"]:
            # Limits that clients set themselves have none of ours, and mostly no account.
            own["limit"] = None
            views.append(own)
        return {
            "budgets": views,
            "rates": [
                {"name": rate.name, "policy": policy.name, "words": of_rate(rate)}
                for policy in config.policies
                for rate in policy.rates
            ],
        }

    operations = (
        _list,
        *override_operations(noun, json_body(BUDGET_LIMITS, version=VERSION_SCHEMA), NAME),
    )


def _is_wanted(account: Account, caller: str | None, session: str | None) -> bool:
    by = dict(account.by)
    return (caller is None or by.get("caller") == caller) and (
        session is None or by.get("session", session) == session
    )


async def recent_balances(app: App) -> list[tuple[Account, Balance]]:
    """Return the recently charged accounts with their balances."""
    accounts = list(app.tally.accounts.values())
    questions = [one.question for one in accounts]
    balances = await app.gateway.judge.balances(questions, app.gateway.clock())
    # An empty one was reset, or its period is over.
    return [pair for pair in zip(accounts, balances, strict=True) if pair[1].used]


def _budget(
    budget: Budget,
    unit: Unit,
    limit: int,
    balances: list[tuple[Account, Balance]],
    now: float,
) -> BudgetView:
    accounts = [
        _account(account, balance, now)
        for account, balance in balances
        if (account.budget, account.unit) == (budget.name, unit)
    ]
    return view_of(
        BudgetView,
        budget,
        unit=unit,
        limit=_amount(unit, limit),
        file_limit=None,
        version=0,
        toml=None,
        thresholds={action.value: percent for action, percent in budget.stages.steps},
        words=of_budget(budget),
        accounts=most_used(accounts),
    )


def most_used(accounts: Iterable[AccountView]) -> list[AccountView]:
    """Return the accounts to list, the most used first."""
    return sorted(accounts, key=lambda one: -one["percent"])[:MAX_ACCOUNTS]


def _account(account: Account, balance: Balance, now: float) -> AccountView:
    period = account.question.seconds
    return {
        "by": dict(account.by),
        "used": _amount(account.unit, balance.used),
        "limit": _amount(account.unit, account.limit),
        "percent": balance.used * 100 // account.limit,
        "is_exceeded": account.is_exceeded(balance.used),
        "resets": iso_time(end_of(now + balance.left, period)) if period else None,
        "fingerprint": account.fingerprint,
    }


BREACHES_PATH = "/api/v1/breaches"

BREACH_PARAMETERS = fields(field("budget", Text(), "of this budget only"), LIMIT, CURSOR)

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

    @get(BREACHES_PATH, "budgets that refused calls", parameters=BREACH_PARAMETERS)
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
