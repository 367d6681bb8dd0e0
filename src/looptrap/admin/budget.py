"""Budgets for operators: recently charged accounts, their balances, and limits set at run time."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypedDict, overload

from looptrap.admin.api import ApiRequest, IsoTime, field, fields, iso_time, view_of
from looptrap.admin.operation import get, json_body
from looptrap.admin.runtime_override import (
    VERSION_SCHEMA,
    OverrideApi,
    OverrideKind,
    override_operations,
    replacing_table,
)
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


def _settings(config: Config) -> dict[str, dict[str, Any]]:
    return {one.name: BUDGET.plain(one) for one in config.budgets}


class BudgetApi(OverrideApi):
    """Answers under `/api/v1/budgets`."""

    kind = OverrideKind(
        noun="budget",
        example='{"limit_usd": 30}',
        overrides=lambda app: app.shared_settings.budgets,
        settings=_settings,
        toml=lambda config, name, run_time: replacing_table(
            "budget", BUDGET, _settings(config).get(name, {"name": name}), run_time
        ),
    )

    @get(BUDGETS_PATH, "budgets, and how accounts stand", parameters=LIST_PARAMETERS)
    async def _list(self, request: ApiRequest) -> BudgetList:
        app, now = self._app, self._now()
        config = app.gateway.runtime.config
        balances = [
            pair for pair in await recent_balances(app) if _is_wanted(pair[0], **request.query)
        ]
        of_file = {one.name: dict(limits_of(one)) for one in app.config.budgets}
        views: list[BudgetView] = [
            {
                **_budget(budget, unit, limit, balances, now),
                "file_limit": _amount(unit, of_file[budget.name].get(unit)),
                "version": settings["version"],
                "toml": settings["toml"],
            }
            for budget, settings in ((one, self._view(one.name)) for one in config.budgets)
            for unit, limit in limits_of(budget)
        ]
        own = _budget(SESSION_LIMIT, "usd", UNLIMITED, balances, now)
        return {
            # Limits that clients set themselves have none of ours, and mostly no account.
            "budgets": [*views, {**own, "limit": None}] if own["accounts"] else views,
            "rates": [
                {"name": rate.name, "policy": policy.name, "words": of_rate(rate)}
                for policy in config.policies
                for rate in policy.rates
            ],
        }

    operations = (
        _list,
        *override_operations("budget", json_body(BUDGET_LIMITS, version=VERSION_SCHEMA), NAME),
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


@overload
def _amount(unit: Unit, amount: int) -> float: ...


@overload
def _amount(unit: Unit, amount: int | None) -> float | None: ...


def _amount(unit: Unit, amount: int | None) -> float | None:
    if amount is None:
        return None
    return usd(amount) if unit == "usd" else amount
