"""Policies for operators: which rules are in effect, and what they mean."""

from __future__ import annotations

from typing import TypedDict

from aiohttp import web

from looptrap.admin.answer import Api, answer
from looptrap.admin.history import NOTHING, parameters
from looptrap.config.allowance import of_rate
from looptrap.config.sentence import of_rule, selected
from looptrap.policy.policy import Mode, Policy
from looptrap.policy.rate import Rate
from looptrap.policy.rule import SCOPES, Rule

PATH = "/api/v1/policies"


class RuleShown(TypedDict):
    """One rule; `window` and `rounds` are null where it has none."""

    name: str
    watch: str
    words: str
    thresholds: dict[str, int]
    window: float | None
    rounds: int | None
    cooldown: float
    by: list[str]
    enabled: bool


class PolicyRateShown(TypedDict):
    """How fast calls or tokens may come under a policy."""

    name: str
    words: str
    by: list[str]
    enabled: bool


class PolicyShown(TypedDict):
    """One policy, and which calls it binds."""

    name: str
    mode: Mode
    select: str
    rules: list[RuleShown]
    rates: list[PolicyRateShown]


class Policies(TypedDict):
    """All policies in effect, and the preset that they are from."""

    policies: list[PolicyShown]
    preset: str | None


class PolicyApi(Api):
    """Answers at `/api/v1/policies`."""

    def routes(self) -> list[web.RouteDef]:
        """Return what is answered, and how."""
        return [web.get(PATH, self._list)]

    async def _list(self, request: web.Request) -> web.Response:
        parameters(request, NOTHING)
        config = self._app.gateway.runtime.config
        told: Policies = {
            "policies": [_policy(one) for one in config.policies],
            "preset": config.preset,
        }
        return answer(told)


def _policy(policy: Policy) -> PolicyShown:
    return {
        "name": policy.name,
        "mode": policy.mode,
        "select": selected(policy.select),
        "rules": [_rule(one) for one in policy.rules],
        "rates": [_rate(one) for one in policy.rates],
    }


def _rule(rule: Rule) -> RuleShown:
    is_counted = rule.watch in SCOPES
    return {
        "name": rule.name,
        "watch": rule.watch,
        "words": of_rule(rule),
        "thresholds": {action.value: count for action, count in rule.ladder.steps},
        "window": rule.window.seconds if is_counted else None,
        "rounds": None if is_counted else rule.looks_at or None,
        "cooldown": rule.cooldown,
        "by": list(rule.by) if is_counted else [],
        "enabled": rule.enabled,
    }


def _rate(rate: Rate) -> PolicyRateShown:
    return {
        "name": rate.name,
        "words": of_rate(rate),
        "by": list(rate.by),
        "enabled": rate.enabled,
    }
