"""All that was agreed on while instances run, and what it makes of a configuration."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from hashlib import blake2b

from looptrap.config import Config
from looptrap.config.kind import StorePlace
from looptrap.gateway.keys import KeyRing
from looptrap.gateway.shared_settings.kill_switch import KILL_SWITCH_KIND as KILL
from looptrap.gateway.shared_settings.kill_switch import RuntimeKillSwitches
from looptrap.gateway.shared_settings.runtime_override import PROJECT_KIND as PROJECT
from looptrap.gateway.shared_settings.runtime_override import TOOL_KIND as TOOL
from looptrap.gateway.shared_settings.runtime_override import ProjectOverrides, ToolOverrides
from looptrap.gateway.shared_settings.shared_entries import SharedEntries
from looptrap.gateway.shared_settings.shared_keys import SharedKeys
from looptrap.gateway.state_file import StateFile


class SharedSettings:
    """Kill switches, projects, tools and keys, as they stand."""

    def __init__(
        self,
        agreement: SharedEntries,
        ring: KeyRing,
        clock: Callable[[], float],
        *,
        remembered: StateFile | None,
    ) -> None:
        """With a shared store, its keys are `remembered` in a file."""
        self.kill_switches = RuntimeKillSwitches(agreement, clock)
        self.projects = ProjectOverrides(agreement, clock)
        self.tools = ToolOverrides(agreement, clock)
        self._agreement = agreement
        self._keys = SharedKeys(agreement, ring, remembered) if remembered is not None else None
        self._followed = self._of_runtime()

    def over(self, config: Config) -> Config:
        """Return a configuration with what was set at run time on top of it."""
        switches = [one.switch for one in self.kill_switches.in_force()]
        return replace(
            config,
            kill_switches=(*config.kill_switches, *switches),
            projects=self.projects.over(config),
            tools=self.tools.over(config),
        )

    def follow(self) -> bool:
        """Take up a change of the keys; return whether `over` makes something else now."""
        remember = self._keys.follow() if self._keys is not None else None
        if remember is not None:
            asyncio.get_running_loop().run_in_executor(None, remember)
        before, self._followed = self._followed, self._of_runtime()
        return before != self._followed

    def _of_runtime(self) -> list[dict[str, bytes]]:
        return [self._agreement.of(kind) for kind in (KILL, PROJECT, TOOL)]


def key_cache_file(config: Config) -> StateFile:
    """Return the file that remembers the keys of a store: beside the state file, one a store."""
    place = StorePlace().plain(config.store).encode()
    return StateFile(f"{config.gateway.state}.{blake2b(place, digest_size=4).hexdigest()}")
