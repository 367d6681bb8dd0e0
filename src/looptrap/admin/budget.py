"""Budgets for operators: whose accounts were charged lately, and how these stand."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypedDict

from aiohttp import web

from looptrap.admin.answer import Api, answer
from looptrap.admin.history import NOTHING, Iso, moment, parameters
from looptrap.config.allowance import of_budget, of_rate
from looptrap.gateway.app import App
from looptrap.incident.saving import usd
from looptrap.money.budget_meter import end_of, limits_of
from looptrap.money.lately import Account
from looptrap.money.meters import SESSION_LIMIT
from looptrap.money.standing import Unit
from looptrap.policy.budget import Budget
from looptrap.policy.policy import Mode
from looptrap.store.model import UNLIMITED, Balance

PATH = "/api/v1/budgets"

MOST = 50
"""Accounts of a budget that are told, the most used first."""


class AccountShown(TypedDict):
    """One account of a budget."""

    by: dict[str, str]
    used: float
    limit: float
    percent: int
    is_exceeded: bool
    resets: Iso | None
    fingerprint: str


class BudgetShown(TypedDict):
    """The dollars, or the tokens, of a budget."""

    name: str
    by: list[str]
    unit: Unit
    limit: float | None
    period: str
    thresholds: dict[str, int]
    mode: Mode
    words: str
    accounts: list[AccountShown]


class RateShown(TypedDict):
    """How fast calls or tokens may come."""

    name: str
    policy: str
    words: str


class Budgets(TypedDict):
    """All budgets and rates."""

    budgets: list[BudgetShown]
    rates: list[RateShown]


class BudgetApi(Api):
    """Answers at `/api/v1/budgets`."""

    def routes(self) -> list[web.RouteDef]:
        """Return what is answered, and how."""
        return [web.get(PATH, self._list)]

    async def _list(self, request: web.Request) -> web.Response:
        parameters(request, NOTHING)
        app, now = self._app, self._app.gateway.clock()
        config = app.gateway.runtime.config
        standing = await balances_of(app)
        shown = [
            _budget(budget, unit, limit, standing, now)
            for budget in config.budgets
            for unit, limit in limits_of(budget)
        ]
        own = _budget(SESSION_LIMIT, "usd", UNLIMITED, standing, now)
        told: Budgets = {
            # What clients set themselves has no limit of ours, and mostly no account.
            "budgets": [*shown, {**own, "limit": None}] if own["accounts"] else shown,
            "rates": [
                {"name": rate.name, "policy": policy.name, "words": of_rate(rate)}
                for policy in config.policies
                for rate in policy.rates
            ],
        }
        return answer(told)


async def balances_of(app: App) -> list[tuple[Account, Balance]]:
    """Return the accounts that were charged lately, with what is used of each."""
    lately = list(app.tally.accounts.values())
    questions = [one.question for one in lately]
    balances = await app.gateway.judge.balances(questions, app.gateway.clock())
    # One that is empty was reset, or its period is over.
    return [pair for pair in zip(lately, balances, strict=True) if pair[1].used]


def _budget(
    budget: Budget, unit: Unit, limit: int, standing: list[tuple[Account, Balance]], now: float
) -> BudgetShown:
    accounts = [
        _account(account, balance, now)
        for account, balance in standing
        if (account.budget, account.unit) == (budget.name, unit)
    ]
    return {
        "name": budget.name,
        "by": list(budget.by),
        "unit": unit,
        "limit": _amount(unit, limit),
        "period": budget.period,
        "thresholds": {action.value: percent for action, percent in budget.stages.steps},
        "mode": budget.mode,
        "words": of_budget(budget),
        "accounts": most_used(accounts),
    }


def most_used(accounts: Iterable[AccountShown]) -> list[AccountShown]:
    """Return the accounts that are told, the most used first."""
    return sorted(accounts, key=lambda one: -one["percent"])[:MOST]


def _account(account: Account, balance: Balance, now: float) -> AccountShown:
    period = account.question.seconds
    return {
        "by": dict(account.by),
        "used": _amount(account.unit, balance.used),
        "limit": _amount(account.unit, account.limit),
        "percent": balance.used * 100 // account.limit,
        "is_exceeded": account.is_exceeded(balance.used),
        "resets": moment(end_of(now + balance.left, period)) if period else None,
        "fingerprint": account.fingerprint,
    }


def _amount(unit: Unit, amount: int) -> float:
    return usd(amount) if unit == "usd" else amount
