"""Settings of projects set at run time: on top of the file's, with a version each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from looptrap.config import Config
from looptrap.errors import ConfigError, Problem
from looptrap.gateway.agreement.agreement import Agreement
from looptrap.gateway.agreement.ledger import UNREADABLE
from looptrap.policy.policy import Project
from looptrap.policy.setting.policy import PROJECT

KIND = "project"

TRIES = 20
"""So often a change is tried again because others changed the same project meanwhile."""

IN_FILE_ONLY = ("name", "keys")


class Layer(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What was set of a project at run time, and its version: later ones are higher."""

    version: int
    settings: dict[str, Any]


NOTHING = Layer(0, {})
"""Where nothing was set."""


class Projects:
    """What all instances were told of projects at run time."""

    def __init__(self, agreement: Agreement, clock: Callable[[], float]) -> None:
        self._agreement = agreement
        self._clock = clock
        agreement.merge_by(KIND, _later)

    def layers(self) -> dict[str, Layer]:
        """Return what is set, by the names of projects."""
        found = {name: self._layer(name, value) for name, value in self._entries().items()}
        return {name: layer for name, layer in found.items() if layer is not NOTHING}

    def layer(self, name: str) -> Layer:
        """Return what is set of one project."""
        return self._layer(name, self._entries().get(name))

    def over(self, config: Config) -> tuple[Project, ...]:
        """Return the projects of a configuration with what was set on top of them.

        What does not fit the policies of this configuration is ignored.
        """
        projects = {project.name: project for project in config.projects}
        for name, layer in self.layers().items():
            try:
                projects[name] = _laid_over(config, name, layer.settings)
            except ConfigError:
                self._agreement.ignore(_name(name), self._entries()[name])
        return tuple(projects.values())

    async def put(
        self, config: Config, name: str, settings: Mapping[str, Any], version: int | None
    ) -> Layer | None:
        """Set all that is set of a project and return it; a ConfigError lists every mistake.

        With a `version` only if that is there now, else None is returned. An OSError says that the
        store is away.
        """
        _laid_over(config, name, settings)
        return await self._change(name, dict(settings), version)

    async def drop(self, name: str, version: int | None) -> Layer | None:
        """Go back to what the file says, under the same conditions."""
        return await self._change(name, None, version)

    async def _change(
        self, name: str, settings: dict[str, Any] | None, version: int | None
    ) -> Layer | None:
        await self._agreement.refresh()
        before = self._entries().get(name)
        for _ in range(TRIES):
            there = self._layer(name, before)
            if version is not None and version != there.version:
                return None
            layer, after = NOTHING, None
            if settings is not None:
                layer = Layer(max(int(self._clock() * 1000), there.version + 1), settings)
                after = msgspec.json.encode(layer)
            before = await self._agreement.swap(_name(name), before, after)
            if before == after:
                return layer
        return None

    def _entries(self) -> dict[str, bytes]:
        return self._agreement.of(KIND)

    def _layer(self, name: str, value: bytes | None) -> Layer:
        if value is None:
            return NOTHING
        try:
            return msgspec.json.decode(value, type=Layer)
        except UNREADABLE:
            self._agreement.ignore(_name(name), value)
            return NOTHING


def _laid_over(config: Config, name: str, settings: Mapping[str, Any]) -> Project:
    """Return a project with settings on top of the file's, fit for every policy."""
    problems = [
        Problem(one, "can be set in the file only") for one in IN_FILE_ONLY if one in settings
    ]
    given = {key: value for key, value in settings.items() if key not in IN_FILE_ONLY}
    of_file = next((one for one in config.projects if one.name == name), None)
    below = PROJECT.plain(of_file) if of_file is not None else {"name": name}
    project = PROJECT.read({**below, **given}, "", problems)
    if problems:
        raise ConfigError(problems)
    built: Project = project
    if misfits := list(built.misfits(config.policies)):
        raise ConfigError([Problem("", misfit) for misfit in misfits])
    return built


def _later(there: bytes | None, ours: bytes) -> bytes:
    """Return the later of two layers; one that cannot be read is earlier than any."""
    return ours if there is None or _version(ours) > _version(there) else there


def _version(value: bytes) -> int:
    try:
        return msgspec.json.decode(value, type=Layer).version
    except UNREADABLE:
        return 0


def _name(name: str) -> str:
    return f"{KIND}:{name}"
