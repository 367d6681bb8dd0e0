"""SharedSettings: all that was set at run time, and its effect on a configuration."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from hashlib import blake2b

from looptrap.config import Config
from looptrap.config.kind import StorePlace
from looptrap.config.load import with_on_loop
from looptrap.gateway.keys import KeyRing
from looptrap.gateway.shared_settings.kill_switch import KILL_SWITCH_KIND, RuntimeKillSwitches
from looptrap.gateway.shared_settings.runtime_override import (
    BUDGET_KIND,
    PROJECT_KIND,
    RULE_KIND,
    TOOL_KIND,
    BudgetOverrides,
    ProjectOverrides,
    RuleOverrides,
    ToolOverrides,
)
from looptrap.gateway.shared_settings.shared_entries import SharedEntries
from looptrap.gateway.shared_settings.shared_keys import SharedKeys
from looptrap.gateway.state_file import StateFile
from looptrap.policy.policy import change_rules

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
        self.projects = ProjectOverrides(entries, clock)
        self.tools = ToolOverrides(entries, clock)
        self.rules = RuleOverrides(entries, clock)
        self.budgets = BudgetOverrides(entries, clock)
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
