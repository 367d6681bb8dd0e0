"""Settings of projects set at run time: on top of the file's, with a version each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from looptrap.config import Config
from looptrap.errors import ConfigError, Problem
from looptrap.gateway.agreement.layer import Layer, Layers
from looptrap.policy.policy import Project
from looptrap.policy.setting.policy import PROJECT

KIND = "project"

IN_FILE_ONLY = ("name", "keys")


class Projects(Layers):
    """What all instances were told of projects at run time."""

    kind = KIND

    def over(self, config: Config) -> tuple[Project, ...]:
        """Return the projects of a configuration with what was set on top of them.

        What does not fit the policies of this configuration is ignored.
        """
        projects = {project.name: project for project in config.projects}
        for name, layer in self.layers().items():
            try:
                projects[name] = _laid_over(config, name, layer.settings)
            except ConfigError:
                self.ignore(name)
        return tuple(projects.values())

    async def put(
        self, config: Config, name: str, settings: Mapping[str, Any], version: int | None
    ) -> Layer | None:
        """Set all that is set of a project and return it; a ConfigError lists every mistake.

        With a `version` only if that is there now, else None is returned. An OSError says that the
        store is away.
        """
        _laid_over(config, name, settings)
        return await self.change(name, settings, version)


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
