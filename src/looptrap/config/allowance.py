"""What budgets and rates allow, in plain sentences."""

from __future__ import annotations

from collections.abc import Iterator

from looptrap.config.sentence import selected
from looptrap.money.dollar import in_words, nano
from looptrap.money.whose import kept_apart
from looptrap.policy.action import Action
from looptrap.policy.budget import Budget
from looptrap.policy.policy import Selector
from looptrap.policy.rate import Rate, Values
from looptrap.schema.wording import escaped, listed, quoted, shown

PERIODS = {
    "5m": "in 5 minutes",
    "1h": "an hour",
    "1d": "a day",
    "7d": "in 7 days",
    "30d": "in 30 days",
    "none": "in all",
}
"""In which time a budget may be used up, in words."""

WHOSE = ("caller", "project", "session", "turn")
"""Descriptors that are words of their own."""


def of_budget(budget: Budget) -> str:
    """Say whose a budget is, what it allows, and what is done from where on."""
    mode = " (shadow: reported, never acted on)" if budget.mode == "shadow" else ""
    limits = [
        *([f"cost {in_words(nano(budget.limit_usd))}"] if budget.limit_usd is not None else []),
        *([f"use {budget.limit_tokens:,} tokens"] if budget.limit_tokens is not None else []),
    ]
    allowed = f"{_owner(budget)} may {listed(limits, 'and')} {PERIODS[budget.period]}"
    counted = "" if budget.select == Selector() else f", with {selected(budget.select)}"
    return f"{budget.name}{mode}: {allowed}{counted}: {listed(list(_stages(budget)), 'and')}"


def of_rate(rate: Rate) -> str:
    """Say how fast calls or tokens may come, and whose."""
    if not rate.enabled:
        return f"{escaped(rate.name)}: is off"
    whose = listed([escaped(name) for name in kept_apart(rate.by)], "and")
    pace = listed(list(_paces(rate)), "and")
    return f"{escaped(rate.name)}: {pace}, for each {whose}{_bound(rate)}"


def _owner(budget: Budget) -> str:
    if len(budget.by) == 1 and budget.by[0] in WHOSE:
        return f"a {budget.by[0]}"
    return f"each {listed([escaped(name) for name in kept_apart(budget.by)], 'and')}"


def _stages(budget: Budget) -> Iterator[str]:
    for action, percent in budget.stages.steps:
        match action:
            case Action.WARN:
                yield f"warned from {percent} %"
            case Action.THROTTLE:
                yield f"slowed by {shown(budget.delay)} s from {percent} %"
            case _:
                done = "refused" if action is Action.BLOCK else "answered with a final message"
                yield f"{done} above" if percent == 100 else f"{done} above {percent} %"


def _paces(rate: Rate) -> Iterator[str]:
    if rate.rps is not None:
        burst = f", up to {rate.burst:,} at once" if rate.burst is not None else ""
        yield f"{shown(rate.rps)} {'call' if rate.rps == 1 else 'calls'} a second{burst}"
    if rate.tokens_per_minute is not None:
        burst = f", up to {rate.burst_tokens:,} at once" if rate.burst_tokens is not None else ""
        yield f"{rate.tokens_per_minute:,} tokens a minute{burst}"
    if rate.tokens_per_day is not None:
        yield f"{rate.tokens_per_day:,} tokens a day"


def _bound(rate: Rate) -> str:
    """Say which calls a rate counts, and for how many, where that is not all and one."""
    match = f", where {_having(rate.match)}" if rate.match else ""
    unless = (
        f", unless {listed([_having(one) for one in rate.unless], 'or')}" if rate.unless else ""
    )
    cost = ""
    if rate.cost is not None:
        cost = f"; a call counts for what {escaped(rate.cost)} says, else for {rate.default_cost}"
    elif rate.default_cost != 1:
        cost = f"; a call counts for {rate.default_cost}"
    return f"{match}{unless}{cost}"


def _having(values: Values) -> str:
    return listed([f"{escaped(name)} is {quoted(value)}" for name, value in values], "and")
