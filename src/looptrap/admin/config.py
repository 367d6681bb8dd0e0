"""The configuration for operators: values and their origin, policies. No secrets."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypedDict

from looptrap.admin.alert import channel_settings_view
from looptrap.admin.api import ApiRequest, view_of
from looptrap.admin.operation import Api, get
from looptrap.admin.runtime_override import LADDER_SETTINGS
from looptrap.config import Config, description
from looptrap.config.description import of_rate, of_rule, of_selector
from looptrap.policy.policy import Mode, Policy
from looptrap.policy.rule import SCOPES, Rule
from looptrap.schema.wording import inside

RUNTIME_ORIGIN = "set at run time"


class EffectiveValue(TypedDict):
    """One value, as a file would have it, and where it came from."""

    place: str
    value: Any
    origin: str


class ConfigSentences(TypedDict):
    """The meaning of the configuration, a sentence an item."""

    policies: list[str]
    projects: list[str]
    tools: list[str]
    budgets: list[str]
    kill_switches: list[str]
    routes: list[str]
    channels: list[str]
    otherwise: list[str]


class EffectiveConfig(TypedDict):
    """The configuration in effect."""

    values: list[EffectiveValue]
    warnings: list[str]
    sentences: ConfigSentences


class RuleView(TypedDict):
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


class PolicyRateView(TypedDict):
    """A rate limit of a policy."""

    name: str
    words: str
    by: list[str]
    enabled: bool


class PolicyView(TypedDict):
    """One policy, and which calls it binds."""

    name: str
    mode: Mode
    select: str
    rules: list[RuleView]
    rates: list[PolicyRateView]


class PolicyList(TypedDict):
    """All policies in effect, and the preset that they are from."""

    policies: list[PolicyView]
    preset: str | None


class ConfigApi(Api):
    """Answers at `/api/v1/config` and `/api/v1/policies`."""

    @get("/api/v1/config", "every value in effect, and its origin")
    async def _show(self, _request: ApiRequest) -> EffectiveConfig:
        config = self._config
        return {
            "values": list(self._values(config)),
            "warnings": list(config.warnings),
            "sentences": {
                "policies": [line for one in config.policies for line in _of_policy(one)],
                "projects": list(map(description.of_project, config.projects)),
                "tools": [description.of_tool(*one) for one in config.tools.items()],
                "budgets": list(map(description.of_budget, config.budgets)),
                "kill_switches": list(map(description.of_kill_switch, config.kill_switches)),
                "routes": list(map(description.of_route, config.routes)),
                "channels": list(map(description.of_channel, config.channels)),
                "otherwise": description.of_rest(config),
            },
        }

    @get("/api/v1/policies", "the rules in effect, in words")
    async def _list_policies(self, _request: ApiRequest) -> PolicyList:
        policies = [_policy(one) for one in self._config.policies]
        return {"policies": policies, "preset": self._config.preset}

    def _values(self, config: Config) -> Iterator[EffectiveValue]:
        secret = {f"channels[{i}].url": one for i, one in enumerate(config.channels)}
        for place, value, origin in config.effective():
            if place in secret:
                # A URL that a service gave out is a key to it.
                value = f"…{channel_settings_view(secret[place])['to']}…"
            yield {"place": place, "value": value, "origin": self._origin(config, place, origin)}

    def _origin(self, config: Config, place: str, origin: str) -> str:
        """Return where a value came from; run-time settings override all others."""
        table, _, name = place.partition(".")
        if table.startswith("kill_switches["):
            return origin if _index(table) < len(self._app.config.kill_switches) else RUNTIME_ORIGIN
        if table.startswith("projects["):
            layer = self._app.shared_settings.projects.layer(config.projects[_index(table)].name)
            is_new = _index(table) >= len(self._app.config.projects)
            return RUNTIME_ORIGIN if name in layer.settings or is_new else origin
        if table.startswith("budgets["):
            layer = self._app.shared_settings.budgets.layer(config.budgets[_index(table)].name)
            return RUNTIME_ORIGIN if name in layer.settings else origin
        if table.startswith("policies[") and name.startswith("rules["):
            at, _, name = name.partition(".")
            rule = config.policies[_index(table)].rules[_index(at)]
            changed = self._app.shared_settings.rules.layer(rule.name).settings
            is_ladder = name.startswith("thresholds") and changed.keys() & LADDER_SETTINGS
            return RUNTIME_ORIGIN if name in changed or is_ladder else origin
        if table == "tools":
            # Users choose these names: they may contain dots.
            for one, layer in self._app.shared_settings.tools.layers().items():
                if place.startswith(f"{inside('tools', one)}."):
                    return RUNTIME_ORIGIN if layer.settings else origin
        return origin


def _index(table: str) -> int:
    return int(table[table.index("[") + 1 : -1])


def _of_policy(policy: Policy) -> list[str]:
    rules, rates = map(of_rule, policy.rules), map(of_rate, policy.rates)
    return [description.of_policy(policy), *rules, *rates]


def _policy(policy: Policy) -> PolicyView:
    return {
        "name": policy.name,
        "mode": policy.mode,
        "select": of_selector(policy.select),
        "rules": [_rule(one) for one in policy.rules],
        "rates": [view_of(PolicyRateView, one, words=of_rate(one)) for one in policy.rates],
    }


def _rule(rule: Rule) -> RuleView:
    is_counted = rule.watch in SCOPES
    return view_of(
        RuleView,
        rule,
        words=of_rule(rule),
        thresholds={action.value: count for action, count in rule.ladder.steps},
        window=rule.window.seconds if is_counted else None,
        rounds=None if is_counted else rule.looks_at or None,
        by=rule.by if is_counted else [],
    )
