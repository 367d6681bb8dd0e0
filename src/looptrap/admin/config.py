"""The configuration for operators: values and their origin, policies, and settings at run time.

No secrets. Settings of projects, tools and rules that are set at run time stand above the file's.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Iterator
from dataclasses import replace
from typing import Any, ClassVar, TypedDict

from looptrap.admin.alert import channel_settings_view
from looptrap.admin.api import ApiError, ApiRequest, view_of
from looptrap.admin.audit import record_change
from looptrap.admin.operation import ANY_TEXT, Api, Body, Operation, delete, get, json_body, put
from looptrap.config import Config, description
from looptrap.config.description import of_rate, of_rule, of_selector
from looptrap.gateway.shared_settings.runtime_override import RuntimeOverride, RuntimeOverrideSet
from looptrap.policy.kind import NAME
from looptrap.policy.policy import PROJECT, Mode, Policy
from looptrap.policy.rule import RULE, RULE_CHANGE, SCOPES, TOOL, Rule
from looptrap.schema import Kind, Table
from looptrap.schema.wording import inside, toml_table

_TAG = re.compile(r'"?(\d{1,18})"?')


class OverrideView(TypedDict):
    """Settings of the file, those of run time and their version, and what is in effect."""

    name: str
    version: int
    file: dict[str, Any] | None
    run_time: dict[str, Any] | None
    effective: dict[str, Any] | None
    toml: str | None
    """The table that makes the run-time settings lasting in the file."""


class ProjectList(TypedDict):
    """The projects of the file, and those set at run time."""

    projects: list[OverrideView]


class ToolList(TypedDict):
    """The tools of the file, and those set at run time."""

    tools: list[OverrideView]


class RuleList(TypedDict):
    """The rules of all policies, by name."""

    rules: list[OverrideView]


Plain = dict[str, Any]


def replacing_table(noun: str, table: Table[Any], below: Plain, run_time: Plain) -> str:
    """Return a whole table, without defaults: of a list of tables, none is changed in part."""
    defaults = {
        one.name: one.kind.plain(one.default) for one in table.fields if one.default is not None
    }
    values = {**below, **run_time}
    given = {name: value for name, value in values.items() if value != defaults.get(name)}
    comment = f"# in place of the table of this {noun}, if the file has one\n"
    return comment + toml_table(f"[[{noun}s]]", given)


class OverrideApi(Api):
    """Answers under the path of things that have settings by name."""

    noun: ClassVar[str]
    example: ClassVar[str]
    table: ClassVar[Table[Any]]
    """Of one of them."""
    must_fit: ClassVar[tuple[str, ...]] = ()
    """Parts of the configuration in effect, not of the file, that settings must fit."""

    @property
    def _overrides(self) -> RuntimeOverrideSet[Any]:
        overrides: RuntimeOverrideSet[Any] = getattr(self._app.shared_settings, f"{self.noun}s")
        return overrides

    def _settings(self, config: Config) -> dict[str, Plain]:
        """Return the settings of a configuration by name."""
        return {one.name: self.table.plain(one) for one in getattr(config, f"{self.noun}s")}

    def _toml(self, name: str, run_time: Plain) -> str:
        """Return run-time settings of a name as a table for the file."""
        below = self._settings(self._app.config).get(name, {"name": name})
        return replacing_table(self.noun, self.table, below, run_time)

    async def list_all(self, _request: ApiRequest) -> dict[str, list[OverrideView]]:
        """Return all things of this kind."""
        names = {**self._settings(self._app.config), **self._overrides.layers()}
        return {f"{self.noun}s": [self._view(name) for name in names]}

    async def show(self, request: ApiRequest) -> OverrideView:
        """Return one of them."""
        if self._view(request.name)["effective"] is None:
            raise ApiError(404, "not_found", f"There is no {self.noun} of this name.")
        return self._answer(request)

    async def put(self, request: ApiRequest) -> OverrideView:
        """Replace its run-time settings."""
        settings = request.body
        if not isinstance(settings, dict):
            raise ApiError(400, "bad_request", f"Send settings such as {self.example}.")
        version = _expected_version(request, settings.pop("version", None))
        in_effect = {name: getattr(self._config, name) for name in self.must_fit}
        base = replace(self._app.config, **in_effect)
        change = self._overrides.put(base, request.name, settings, version)
        return await self._change(request, "put", change)

    async def drop(self, request: ApiRequest) -> OverrideView:
        """Remove its run-time settings."""
        version = _expected_version(request, None)
        change = self._overrides.drop(request.name, version)
        return await self._change(request, "delete", change)

    async def _change(
        self, request: ApiRequest, verb: str, change: Awaitable[RuntimeOverride | None]
    ) -> OverrideView:
        noun, name = self.noun, request.name
        before = self._view(name)["run_time"]
        try:
            changed = await change
        except OSError:
            message = "The store that instances share cannot be reached. Nothing has been changed."
            raise ApiError(503, "store_unavailable", message) from None
        if changed is None:
            message = f"Somebody has changed this {noun} since that version. See what it is now."
            raise ApiError(409, "stale_version", message, **{noun: self._view(name)})
        after = changed.settings if changed.version else None
        if before is not None or after is not None:
            await record_change(self._app, request, f"{noun}.{verb}", name, before, after)
        return self._answer(request)

    def _answer(self, request: ApiRequest) -> OverrideView:
        view = self._view(request.name)
        request.response_headers["ETag"] = f'"{view["version"]}"'
        return view

    def _view(self, name: str) -> OverrideView:
        override = self._overrides.layer(name)
        return {
            "name": name,
            "version": override.version,
            "file": self._settings(self._app.config).get(name),
            "run_time": override.settings if override.version else None,
            "effective": self._settings(self._config).get(name),
            "toml": self._toml(name, override.settings) if override.version else None,
        }


VERSION_SCHEMA = {"type": "integer", "minimum": 0, "description": "only if this is there now"}


def override_operations(noun: str, body: Body, name: Kind) -> tuple[Operation, ...]:
    """Return the operations on one thing of a kind: show, set and reset."""
    path, change = f"/api/v1/{noun}s/{{name}}", {"headers": ("If-Match",), "errors": (409,)}
    set_, unset = f"sets what is set of a {noun}", f"goes back to what the file says of a {noun}"
    return (
        get(path, f"one {noun}", errors=(404,))(OverrideApi.show),
        put(path, set_, body=body, path_kind=name, **change)(OverrideApi.put),
        delete(path, unset, **change)(OverrideApi.drop),
    )


def _expected_version(request: ApiRequest, in_body: object) -> int | None:
    """Return the version that a change is meant for, from `If-Match` or the body."""
    if in_body is not None and (not isinstance(in_body, int) or isinstance(in_body, bool)):
        raise ApiError(400, "bad_request", "version: must be the number of a version.")
    tag = request.http.headers.get("If-Match")
    if tag is None:
        return in_body
    match = _TAG.fullmatch(tag.strip())
    if match is None or in_body not in (None, int(match[1])):
        raise ApiError(400, "bad_request", "If-Match: must be one version, as ETag gave it.")
    return int(match[1])


class ProjectApi(OverrideApi):
    """Answers under `/api/v1/projects`."""

    noun, table = "project", PROJECT
    example = '{"detection": "shadow"}'
    must_fit = ("policies",)
    operations = (
        get("/api/v1/projects", "projects, of the file and set at run time", answer=ProjectList)(
            OverrideApi.list_all
        ),
        *override_operations(
            noun, json_body(PROJECT, "name", "keys", version=VERSION_SCHEMA), NAME
        ),
    )


class ToolApi(OverrideApi):
    """Answers under `/api/v1/tools`."""

    noun, table = "tool", TOOL
    example = '{"thresholds": {"warn": 20, "block": 60}} or {"exempt": true}'
    operations = (
        get("/api/v1/tools", "tools with settings of their own", answer=ToolList)(
            OverrideApi.list_all
        ),
        *override_operations(noun, json_body(TOOL, version=VERSION_SCHEMA), ANY_TEXT),
    )

    def _settings(self, config: Config) -> dict[str, Plain]:
        return {name: TOOL.plain(one) for name, one in config.tools.items()}

    def _toml(self, name: str, run_time: Plain) -> str:
        return toml_table(f"[{inside('tools', name)}]", run_time)


LADDER_SETTINGS = {"threshold", "action", "thresholds"}
"""A rule has the first two or the third, never all."""


class RuleApi(OverrideApi):
    """Answers under `/api/v1/rules`."""

    noun, table = "rule", RULE
    example = '{"thresholds": {"warn": 4, "block": 8}} or {"enabled": false}'
    must_fit = ("projects",)
    operations = (
        get(
            "/api/v1/rules",
            "rules, of the file or preset and changed at run time",
            answer=RuleList,
        )(OverrideApi.list_all),
        *override_operations(noun, json_body(RULE_CHANGE, version=VERSION_SCHEMA), ANY_TEXT),
    )

    def _settings(self, config: Config) -> dict[str, Plain]:
        """Return the rules by name; of several with one name, the first."""
        rules = [rule for policy in config.policies for rule in policy.rules]
        return {rule.name: RULE.plain(rule) for rule in reversed(rules)}

    def _toml(self, name: str, run_time: Plain) -> str:
        """Return the change of a rule, with what the file changes in it already."""
        changes = self._app.config.rules
        below = RULE_CHANGE.plain(changes[name]) if name in changes else {}
        if run_time.keys() & LADDER_SETTINGS:
            below = {key: value for key, value in below.items() if key not in LADDER_SETTINGS}
        return toml_table(f"[{inside('rules', name)}]", {**below, **run_time})


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
