"""SharedSettings: all that was set at run time, on top of the file, and its effect."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from hashlib import blake2b
from typing import Any, Generic, TypeVar

import msgspec

from looptrap.config import Config
from looptrap.config.kind import StorePlace
from looptrap.config.load import with_on_loop
from looptrap.errors import ConfigError, Problem
from looptrap.gateway.keys import KeyRing
from looptrap.gateway.shared_settings.shared_entries import (
    ENTRY_ERRORS,
    SharedEntries,
    merge_by_rank,
)
from looptrap.gateway.shared_settings.shared_keys import SharedKeys
from looptrap.gateway.state_file import StateFile, Time
from looptrap.policy.budget import BUDGET_LIMITS, Budget
from looptrap.policy.policy import KILL_SWITCH, PROJECT, KillSwitch, Project, change_rules
from looptrap.policy.rule import RULE_CHANGE, TOOL, RuleChange, ToolRule
from looptrap.schema import Text, read
from looptrap.schema.wording import listed, suggestion

T = TypeVar("T")

PROJECT_KIND, TOOL_KIND, RULE_KIND, BUDGET_KIND = "project", "tool", "rule", "budget"

FILE_ONLY_SETTINGS = ("name", "keys")
"""Settings of a project that cannot be set at run time."""

TOOL_NAME = Text(form="the name of a tool, at most 200 characters", pattern=r"(?s).{1,200}")

MAX_SWAP_TRIES = 20
"""How often a change is tried while others change the same entry."""


KILL_SWITCH_KIND = "kill"

ENDED_SWITCH_TTL = timedelta(days=1)
"""How long an ended kill switch is remembered, so that no instance restores it."""


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


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeKillSwitch:
    """A kill switch that was set while the gateway ran."""

    id: str
    created: datetime
    switch: KillSwitch


class RuntimeKillSwitches:
    """The kill switches that were set at run time, on all instances."""

    def __init__(self, entries: SharedEntries, clock: Callable[[], float]) -> None:
        self._entries = entries
        self._clock = clock
        entries.merge_by(KILL_SWITCH_KIND, _merge_ended_wins)

    def in_force(self) -> list[RuntimeKillSwitch]:
        """Return those that have not expired, the oldest first."""
        now = self._now()
        found = [
            RuntimeKillSwitch(id=switch_id, created=created, switch=switch)
            for switch_id, _, created, switch in self._all()
            if switch is not None and not is_expired(switch, now)
        ]
        return sorted(found, key=lambda one: (one.created, one.id))

    async def add(self, body: object) -> tuple[RuntimeKillSwitch, bool]:
        """Set one as the file would; return it, and whether the shared store has it.

        A ConfigError lists every mistake.
        """
        switch = read_kill_switch(body)
        now = self._now()
        if switch.expires is not None and is_expired(switch, now):
            message = f"is the time {switch.expires.isoformat()}, must be in the future"
            raise ConfigError([Problem("expires", message)])
        await self._sweep(now)
        one = RuntimeKillSwitch(id=secrets.token_hex(4), created=now, switch=switch)
        stored = _StoredSwitch(created=now, switch=KILL_SWITCH.plain(switch))
        return one, await self._entries.set(_switch_entry(one.id), msgspec.json.encode(stored))

    async def drop(self, switch_id: str) -> bool | None:
        """End one; return whether the shared store has that, None where there is none."""
        with suppress(OSError):
            await self._entries.refresh()
        if all(one.id != switch_id for one in self.in_force()):
            return None
        ended = msgspec.json.encode(_StoredSwitch(created=self._now()))
        return await self._entries.set(_switch_entry(switch_id), ended)

    async def _sweep(self, now: datetime) -> None:
        """Drop those that expired or were ended long ago, unless the store is down."""
        with suppress(OSError):
            for switch_id, value, created, switch in list(self._all()):
                is_old = created + ENDED_SWITCH_TTL <= now
                if is_old if switch is None else is_expired(switch, now):
                    await self._entries.swap(_switch_entry(switch_id), value, None)

    def _all(self) -> Iterator[tuple[str, bytes, datetime, KillSwitch | None]]:
        """Yield the id, entry, creation and switch of each; None for one that was ended."""
        for switch_id, value in self._entries.of(KILL_SWITCH_KIND).items():
            try:
                stored = msgspec.json.decode(value, type=_StoredSwitch)
                switch = None if stored.switch is None else read_kill_switch(stored.switch)
            except (*ENTRY_ERRORS, ConfigError):
                self._entries.ignore(_switch_entry(switch_id), value)
            else:
                yield switch_id, value, stored.created.astimezone(UTC), switch

    def _now(self) -> datetime:
        return datetime.fromtimestamp(self._clock(), UTC)


def read_kill_switch(body: object) -> KillSwitch:
    """Read a kill switch from JSON, in which times are texts; a ConfigError lists mistakes."""
    if isinstance(body, dict) and isinstance(body.get("expires"), str):
        with suppress(ValueError):  # the schema refuses what is no time
            body = {**body, "expires": datetime.fromisoformat(body["expires"])}
    switch: KillSwitch = read(KILL_SWITCH, body)
    return switch


def is_expired(switch: KillSwitch, now: datetime) -> bool:
    """Return whether a kill switch has expired."""
    return switch.expires is not None and switch.expires <= now


class _StoredSwitch(msgspec.Struct, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A kill switch in the shared store; without `switch`, one that was ended."""

    created: Time
    switch: dict[str, Any] | None = None


_merge_ended_wins = merge_by_rank(
    lambda entry: 2 if msgspec.json.decode(entry, type=_StoredSwitch).switch is None else 1
)
"""A kill switch that was ended anywhere is ended."""


def _switch_entry(switch_id: str) -> str:
    return f"{KILL_SWITCH_KIND}:{switch_id}"


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
