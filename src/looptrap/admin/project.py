"""Settings of projects for operators: read, set and taken back while the gateway runs."""

from __future__ import annotations

from typing import Any, TypedDict

from looptrap.admin.layer import LayerApi, LayerShown
from looptrap.config import Config
from looptrap.gateway.app import App
from looptrap.policy.setting.policy import PROJECT


class ProjectsShown(TypedDict):
    """The projects of the file, and those set at run time."""

    projects: list[LayerShown]


class ProjectApi(LayerApi):
    """Answers under `/api/v1/projects`."""

    def __init__(self, app: App) -> None:
        super().__init__(
            app,
            noun="project",
            example='{"detection": "shadow"}',
            plain=_plain,
            layers=lambda: app.agreed.projects,
        )


def _plain(config: Config) -> dict[str, dict[str, Any]]:
    return {project.name: PROJECT.plain(project) for project in config.projects}
