"""Layers: what was set of something at run time, by its name, on top of what the file says."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import msgspec

from looptrap.config import Config
from looptrap.errors import ConfigError, Problem
from looptrap.gateway.shared_settings.shared_entries import ENTRY_ERRORS, SharedEntries
from looptrap.policy.policy import PROJECT, Project
from looptrap.policy.rule import TOOL, ToolRule
from looptrap.schema import Text, read

MAX_SWAP_TRIES = 20
"""So often a change is tried again because others changed the same thing meanwhile."""


class RuntimeOverride(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What was set at run time, and its version: later ones are higher."""

    version: int
    settings: dict[str, Any]


NO_OVERRIDE = RuntimeOverride(0, {})
"""Where nothing was set."""


class RuntimeOverrideSet:
    """The layers of one kind that all instances were given at run time."""

    kind: ClassVar[str]
    """By which they are told from what else instances agree on."""

    def __init__(self, agreement: SharedEntries, clock: Callable[[], float]) -> None:
        self._agreement = agreement
        self._clock = clock
        agreement.merge_by(self.kind, _merge_later_wins)

    def layers(self) -> dict[str, RuntimeOverride]:
        """Return what is set, by name."""
        found = {name: self._layer(name, value) for name, value in self._entries().items()}
        return {name: layer for name, layer in found.items() if layer is not NO_OVERRIDE}

    def layer(self, name: str) -> RuntimeOverride:
        """Return what is set under one name."""
        return self._layer(name, self._entries().get(name))

    def ignore(self, name: str) -> None:
        """Say that what is set under a name cannot be used."""
        self._agreement.ignore(self._name(name), self._entries()[name])

    async def drop(self, name: str, version: int | None) -> RuntimeOverride | None:
        """Go back to what the file says, under the conditions of `change`."""
        return await self.change(name, None, version)

    async def change(
        self, name: str, settings: Mapping[str, Any] | None, version: int | None
    ) -> RuntimeOverride | None:
        """Set all that is set under a name, or without settings nothing; return what is there.

        With a `version` only if that is there now, else None is returned. An OSError says that the
        store is away.
        """
        await self._agreement.refresh()
        before = self._entries().get(name)
        for _ in range(MAX_SWAP_TRIES):
            there = self._layer(name, before)
            if version is not None and version != there.version:
                return None
            layer, after = NO_OVERRIDE, None
            if settings is not None:
                layer = RuntimeOverride(
                    max(int(self._clock() * 1000), there.version + 1), dict(settings)
                )
                after = msgspec.json.encode(layer)
            before = await self._agreement.swap(self._name(name), before, after)
            if before == after:
                return layer
        return None

    def _entries(self) -> dict[str, bytes]:
        return self._agreement.of(self.kind)

    def _layer(self, name: str, value: bytes | None) -> RuntimeOverride:
        if value is None:
            return NO_OVERRIDE
        try:
            return msgspec.json.decode(value, type=RuntimeOverride)
        except ENTRY_ERRORS:
            self._agreement.ignore(self._name(name), value)
            return NO_OVERRIDE

    def _name(self, name: str) -> str:
        return f"{self.kind}:{name}"


def _merge_later_wins(there: bytes | None, ours: bytes) -> bytes:
    """Return the later of two layers; one that cannot be read is earlier than any."""
    return ours if there is None or _version(ours) > _version(there) else there


def _version(value: bytes) -> int:
    try:
        return msgspec.json.decode(value, type=RuntimeOverride).version
    except ENTRY_ERRORS:
        return 0


PROJECT_KIND = "project"

FILE_ONLY_SETTINGS = ("name", "keys")


class ProjectOverrides(RuntimeOverrideSet):
    """What all instances were told of projects at run time."""

    kind = PROJECT_KIND

    def over(self, config: Config) -> tuple[Project, ...]:
        """Return the projects of a configuration with what was set on top of them.

        What does not fit the policies of this configuration is ignored.
        """
        projects = {project.name: project for project in config.projects}
        for name, layer in self.layers().items():
            try:
                projects[name] = _override_project(config, name, layer.settings)
            except ConfigError:
                self.ignore(name)
        return tuple(projects.values())

    async def put(
        self, config: Config, name: str, settings: Mapping[str, Any], version: int | None
    ) -> RuntimeOverride | None:
        """Set all that is set of a project and return it; a ConfigError lists every mistake.

        With a `version` only if that is there now, else None is returned. An OSError says that the
        store is away.
        """
        _override_project(config, name, settings)
        return await self.change(name, settings, version)


def _override_project(config: Config, name: str, settings: Mapping[str, Any]) -> Project:
    """Return a project with settings on top of the file's, fit for every policy."""
    problems = [
        Problem(one, "can be set in the file only") for one in FILE_ONLY_SETTINGS if one in settings
    ]
    given = {key: value for key, value in settings.items() if key not in FILE_ONLY_SETTINGS}
    of_file = next((one for one in config.projects if one.name == name), None)
    below = PROJECT.plain(of_file) if of_file is not None else {"name": name}
    project = PROJECT.read({**below, **given}, "", problems)
    if problems:
        raise ConfigError(problems)
    built: Project = project
    if misfits := list(built.misfits(config.policies)):
        raise ConfigError([Problem("", misfit) for misfit in misfits])
    return built


TOOL_KIND = "tool"

TOOL_NAME = Text(form="the name of a tool, at most 200 characters", pattern=r"(?s).{1,200}")


class ToolOverrides(RuntimeOverrideSet):
    """What all instances were told of tools at run time."""

    kind = TOOL_KIND

    def over(self, config: Config) -> dict[str, ToolRule]:
        """Return the tools of a configuration with what was set in their place.

        What cannot be read as such is ignored.
        """
        tools = dict(config.tools)
        for name, layer in self.layers().items():
            try:
                tools[name] = read(TOOL, layer.settings)
            except ConfigError:
                self.ignore(name)
        return tools

    async def put(
        self, _config: Config, name: str, settings: Mapping[str, Any], version: int | None
    ) -> RuntimeOverride | None:
        """Set all that is set of a tool and return it; a ConfigError lists every mistake.

        With a `version` only if that is there now, else None is returned. An OSError says that the
        store is away.
        """
        problems: list[Problem] = []
        TOOL_NAME.read(name, "name", problems)
        TOOL.read(settings, "", problems)
        if problems:
            raise ConfigError(problems)
        return await self.change(name, settings, version)
