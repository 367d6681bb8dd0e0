"""SharedSettings: all that was set at run time, on top of the file, and its effect."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import replace
from hashlib import blake2b
from typing import Any, Generic, TypeVar

import msgspec

from looptrap.config import Config
from looptrap.config.kind import StorePlace
from looptrap.config.load import with_on_loop
from looptrap.errors import ConfigError, Problem
from looptrap.gateway.keys import KeyRing
from looptrap.gateway.shared_settings.kill_switch import KILL_SWITCH_KIND, RuntimeKillSwitches
from looptrap.gateway.shared_settings.shared_entries import (
    ENTRY_ERRORS,
    SharedEntries,
    merge_by_rank,
)
from looptrap.gateway.shared_settings.shared_keys import SharedKeys
from looptrap.gateway.state_file import StateFile
from looptrap.policy.budget import BUDGET_LIMITS, Budget
from looptrap.policy.policy import PROJECT, Project, change_rules
from looptrap.policy.rule import RULE_CHANGE, TOOL, RuleChange, ToolRule
from looptrap.schema import Text
from looptrap.schema.wording import listed, suggestion

T = TypeVar("T")

PROJECT_KIND, TOOL_KIND, RULE_KIND, BUDGET_KIND = "project", "tool", "rule", "budget"

FILE_ONLY_SETTINGS = ("name", "keys")
"""Settings of a project that cannot be set at run time."""

TOOL_NAME = Text(form="the name of a tool, at most 200 characters", pattern=r"(?s).{1,200}")

MAX_SWAP_TRIES = 20
"""How often a change is tried while others change the same entry."""


class RuntimeOverride(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What was set at run time, and its version: later ones are higher."""

    version: int
    settings: dict[str, Any]


NO_OVERRIDE = RuntimeOverride(0, {})
"""Where nothing was set."""


class RuntimeOverrideSet(Generic[T]):
    """The overrides of one kind, on all instances."""

    def __init__(
        self,
        kind: str,
        entries: SharedEntries,
        clock: Callable[[], float],
        in_file: Callable[[Config], Mapping[str, T]],
        read: Callable[[Config, str, Mapping[str, Any]], T],
    ) -> None:
        """`in_file` returns what a configuration has, by name; `read` applies settings to it."""
        self._kind = kind
        self._entries = entries
        self._clock = clock
        self._in_file = in_file
        self._read = read
        entries.merge_by(kind, _merge_later_wins)

    def layers(self) -> dict[str, RuntimeOverride]:
        """Return what is set, by name."""
        found = {name: self._decode(name, value) for name, value in self._of_kind().items()}
        return {name: override for name, override in found.items() if override is not NO_OVERRIDE}

    def layer(self, name: str) -> RuntimeOverride:
        """Return what is set under one name."""
        return self._decode(name, self._of_kind().get(name))

    def over(self, config: Config) -> dict[str, T]:
        """Return what a configuration has, by name, with what was set on top of it.

        Settings that do not fit this configuration are ignored.
        """
        found = dict(self._in_file(config))
        for name, override in self.layers().items():
            try:
                found[name] = self._read(config, name, override.settings)
            except ConfigError:
                self._entries.ignore(self._entry(name), self._of_kind()[name])
        return found

    async def put(
        self, config: Config, name: str, settings: Mapping[str, Any], version: int | None
    ) -> RuntimeOverride | None:
        """Replace all that is set under a name and return it; a ConfigError lists every mistake.

        With a `version` only if that is there now, else None is returned. An OSError says that the
        store is down.
        """
        self._read(config, name, settings)
        return await self._change(name, settings, version)

    async def drop(self, name: str, version: int | None) -> RuntimeOverride | None:
        """Go back to the settings of the file, under the conditions of `put`."""
        return await self._change(name, None, version)

    async def _change(
        self, name: str, settings: Mapping[str, Any] | None, version: int | None
    ) -> RuntimeOverride | None:
        await self._entries.refresh()
        before = self._of_kind().get(name)
        for _ in range(MAX_SWAP_TRIES):
            current = self._decode(name, before).version
            if version is not None and version != current:
                return None
            override, after = NO_OVERRIDE, None
            if settings is not None:
                new_version = max(int(self._clock() * 1000), current + 1)
                override = RuntimeOverride(new_version, dict(settings))
                after = msgspec.json.encode(override)
            before = await self._entries.swap(self._entry(name), before, after)
            if before == after:
                return override
        return None

    def _of_kind(self) -> dict[str, bytes]:
        return self._entries.of(self._kind)

    def _entry(self, name: str) -> str:
        return f"{self._kind}:{name}"

    def _decode(self, name: str, value: bytes | None) -> RuntimeOverride:
        if value is None:
            return NO_OVERRIDE
        try:
            return msgspec.json.decode(value, type=RuntimeOverride)
        except ENTRY_ERRORS:
            self._entries.ignore(self._entry(name), value)
            return NO_OVERRIDE


_merge_later_wins = merge_by_rank(
    lambda entry: msgspec.json.decode(entry, type=RuntimeOverride).version
)


def _projects_by_name(config: Config) -> dict[str, Project]:
    return {project.name: project for project in config.projects}


def _override_project(config: Config, name: str, settings: Mapping[str, Any]) -> Project:
    """Return a project with settings on top of the file's, fit for every policy."""
    problems = [
        Problem(one, "can be set in the file only") for one in FILE_ONLY_SETTINGS if one in settings
    ]
    valid = {key: value for key, value in settings.items() if key not in FILE_ONLY_SETTINGS}
    in_file = _projects_by_name(config).get(name)
    below = PROJECT.plain(in_file) if in_file is not None else {"name": name}
    project: Project = PROJECT.read({**below, **valid}, "", problems)
    if problems:
        raise ConfigError(problems)
    if misfits := list(project.misfits(config.policies)):
        raise ConfigError([Problem("", misfit) for misfit in misfits])
    return project


def _read_tool(_config: Config, name: str, settings: Mapping[str, Any]) -> ToolRule:
    problems: list[Problem] = []
    TOOL_NAME.read(name, "name", problems)
    rule: ToolRule = TOOL.read(settings, "", problems)
    if problems:
        raise ConfigError(problems)
    return rule


def _read_rule_change(config: Config, name: str, settings: Mapping[str, Any]) -> RuleChange:
    """Return a change of a rule that there is, fit for every project."""
    problems: list[Problem] = []
    change: RuleChange = RULE_CHANGE.read(settings, "", problems)
    if not problems:
        policies = change_rules(config.policies, name, change, "", problems)
    if not problems:
        problems += [
            Problem("", f"project {project.name}: {misfit}")
            for project in config.projects
            for misfit in project.misfits(policies)
        ]
    if problems:
        raise ConfigError(problems)
    return change


def _budgets_by_name(config: Config) -> dict[str, Budget]:
    return {budget.name: budget for budget in config.budgets}


def _with_limits(config: Config, name: str, settings: Mapping[str, Any]) -> Budget:
    problems: list[Problem] = []
    limits = BUDGET_LIMITS.read(settings, "", problems)
    budgets = _budgets_by_name(config)
    if name not in budgets:
        names = list(budgets)
        known = suggestion(name, names) or (f"; there is {listed(names, 'and')}" if names else "")
        problems.append(Problem("", f"the file has no such budget{known}"))
    if problems:
        raise ConfigError(problems)
    return replace(budgets[name], **limits)


KINDS = (KILL_SWITCH_KIND, PROJECT_KIND, TOOL_KIND, RULE_KIND, BUDGET_KIND)
"""Entries that change the configuration."""


class SharedSettings:
    """Kill switches, projects, tools, rules, budgets and keys."""

    def __init__(
        self,
        entries: SharedEntries,
        ring: KeyRing,
        clock: Callable[[], float],
        *,
        cache_file: StateFile | None,
    ) -> None:
        """With a shared store, its keys are cached in a file."""
        self.kill_switches = RuntimeKillSwitches(entries, clock)
        self.projects = RuntimeOverrideSet(
            PROJECT_KIND, entries, clock, _projects_by_name, _override_project
        )
        self.tools = RuntimeOverrideSet(
            TOOL_KIND, entries, clock, lambda config: config.tools, _read_tool
        )
        self.rules = RuntimeOverrideSet(
            RULE_KIND, entries, clock, lambda _config: {}, _read_rule_change
        )
        self.budgets = RuntimeOverrideSet(
            BUDGET_KIND, entries, clock, _budgets_by_name, _with_limits
        )
        self._entries = entries
        self._keys = SharedKeys(entries, ring, cache_file) if cache_file is not None else None
        self._applied = self._of_runtime()

    def over(self, config: Config) -> Config:
        """Return a configuration with what was set at run time on top of it."""
        policies = config.policies
        for name, change in self.rules.over(config).items():
            policies = change_rules(policies, name, change, "", [])
        config = replace(config, policies=policies)
        switches = [one.switch for one in self.kill_switches.in_force()]
        changed = replace(
            config,
            kill_switches=(*config.kill_switches, *switches),
            projects=tuple(self.projects.over(config).values()),
            tools=self.tools.over(config),
            budgets=tuple(self.budgets.over(config).values()),
        )
        return with_on_loop(changed)

    def follow(self) -> bool:
        """Apply a change of the keys; return whether `over` returns something else now."""
        save = self._keys.follow() if self._keys is not None else None
        if save is not None:
            asyncio.get_running_loop().run_in_executor(None, save)
        before, self._applied = self._applied, self._of_runtime()
        return before != self._applied

    def _of_runtime(self) -> list[dict[str, bytes]]:
        return [self._entries.of(kind) for kind in KINDS]


def key_cache_file(config: Config) -> StateFile:
    """Return the file that caches the keys of a store: beside the state file, one per store."""
    url = StorePlace().plain(config.store).encode()
    return StateFile(f"{config.gateway.state}.{blake2b(url, digest_size=4).hexdigest()}")
