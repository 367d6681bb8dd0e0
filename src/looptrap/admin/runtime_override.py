"""Settings by name for operators: read, set and taken back while the gateway runs."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Protocol, TypedDict

from aiohttp import web

from looptrap.admin.api import (
    NO_PARAMETERS,
    STORE_UNAVAILABLE_MESSAGE,
    ApiError,
    error_response,
    json_response,
    problems_response,
    read_json,
    read_parameters,
)
from looptrap.admin.audit import record_change
from looptrap.config import Config
from looptrap.errors import ConfigError
from looptrap.gateway.app import App
from looptrap.gateway.shared_settings.runtime_override import RuntimeOverride
from looptrap.policy.setting.policy import PROJECT, TOOL

_TAG = re.compile(r'"?(\d{1,18})"?')

PlainSettings = Callable[[Config], dict[str, dict[str, Any]]]
"""What a configuration says, by name."""


class OverrideView(TypedDict):
    """What the file says, what was set at run time, its version, and what is in effect."""

    name: str
    version: int
    file: dict[str, Any] | None
    run_time: dict[str, Any] | None
    effective: dict[str, Any] | None


class RuntimeOverrides(Protocol):
    """Layers of one kind, on top of a configuration."""

    def layers(self) -> dict[str, RuntimeOverride]:
        """Return what is set, by name."""
        ...

    def layer(self, name: str) -> RuntimeOverride:
        """Return what is set under one name."""
        ...

    async def put(
        self, config: Config, name: str, settings: Mapping[str, Any], version: int | None
    ) -> RuntimeOverride | None:
        """Set all that is set under a name; None where that version is not there."""
        ...

    async def drop(self, name: str, version: int | None) -> RuntimeOverride | None:
        """Go back to what the file says, under the same condition."""
        ...


class OverrideApi:
    """Answers under the path of things that have settings by name: projects, tools."""

    def __init__(
        self,
        app: App,
        *,
        noun: str,
        example: str,
        plain: PlainSettings,
        layers: Callable[[], RuntimeOverrides],
    ) -> None:
        self._app = app
        self._noun = noun
        self._path = f"/api/v1/{noun}s"
        self._example = example
        self._plain = plain
        self._layers = layers

    def routes(self) -> list[web.RouteDef]:
        """Return what is answered, and how."""
        return [
            web.get(self._path, self._list),
            web.get(self._path + "/{name}", self._show),
            web.put(self._path + "/{name}", self._put),
            web.delete(self._path + "/{name}", self._drop),
        ]

    async def _list(self, request: web.Request) -> web.Response:
        read_parameters(request, NO_PARAMETERS)
        names = {**self._plain(self._app.config), **self._layers().layers()}
        return json_response({f"{self._noun}s": [self._shown(name) for name in names]})

    async def _show(self, request: web.Request) -> web.Response:
        name = request.match_info["name"]
        if self._shown(name)["effective"] is None:
            return error_response(404, "not_found", f"There is no {self._noun} of this name.")
        return self._answer(name)

    async def _put(self, request: web.Request) -> web.Response:
        name, given = request.match_info["name"], await read_json(request)
        if not isinstance(given, dict):
            return error_response(400, "bad_request", f"Send settings such as {self._example}.")
        version = _expected_version(request, given.pop("version", None))
        before = self._shown(name)["run_time"]
        try:
            layer = await self._layers().put(self._app.config, name, given, version)
        except ConfigError as found:
            return problems_response(found)
        except OSError:
            return error_response(503, "store_unavailable", STORE_UNAVAILABLE_MESSAGE)
        if layer is None:
            return self._stale(name)
        await record_change(self._app, request, f"{self._noun}.put", name, before, layer.settings)
        return self._answer(name)

    async def _drop(self, request: web.Request) -> web.Response:
        name = request.match_info["name"]
        before = self._shown(name)["run_time"]
        try:
            layer = await self._layers().drop(name, _expected_version(request, None))
        except OSError:
            return error_response(503, "store_unavailable", STORE_UNAVAILABLE_MESSAGE)
        if layer is None:
            return self._stale(name)
        if before is not None:
            await record_change(self._app, request, f"{self._noun}.delete", name, before)
        return self._answer(name)

    def _answer(self, name: str) -> web.Response:
        shown = self._shown(name)
        return json_response(shown, ETag=f'"{shown["version"]}"')

    def _stale(self, name: str) -> web.Response:
        message = f"Somebody has changed this {self._noun} since that version. See what it is now."
        there: dict[str, Any] = {self._noun: self._shown(name)}
        return error_response(409, "stale_version", message, **there)

    def _shown(self, name: str) -> OverrideView:
        layer = self._layers().layer(name)
        return {
            "name": name,
            "version": layer.version,
            "file": self._plain(self._app.config).get(name),
            "run_time": layer.settings if layer.version else None,
            "effective": self._plain(self._app.gateway.runtime.config).get(name),
        }


def _expected_version(request: web.Request, in_body: object) -> int | None:
    """Return the version that a change is meant for, from `If-Match` or the body."""
    if in_body is not None and (not isinstance(in_body, int) or isinstance(in_body, bool)):
        raise ApiError(400, "bad_request", "version: must be the number of a version.")
    tag = request.headers.get("If-Match")
    if tag is None:
        return in_body
    match = _TAG.fullmatch(tag.strip())
    if match is None or in_body not in (None, int(match[1])):
        raise ApiError(400, "bad_request", "If-Match: must be one version, as ETag gave it.")
    return int(match[1])


class ProjectList(TypedDict):
    """The projects of the file, and those set at run time."""

    projects: list[OverrideView]


class ProjectApi(OverrideApi):
    """Answers under `/api/v1/projects`."""

    def __init__(self, app: App) -> None:
        super().__init__(
            app,
            noun="project",
            example='{"detection": "shadow"}',
            plain=_project_settings,
            layers=lambda: app.agreed.projects,
        )


def _project_settings(config: Config) -> dict[str, dict[str, Any]]:
    return {project.name: PROJECT.plain(project) for project in config.projects}


class ToolList(TypedDict):
    """The tools of the file, and those set at run time."""

    tools: list[OverrideView]


class ToolApi(OverrideApi):
    """Answers under `/api/v1/tools`."""

    def __init__(self, app: App) -> None:
        super().__init__(
            app,
            noun="tool",
            example='{"thresholds": {"warn": 20, "block": 60}} or {"exempt": true}',
            plain=_tool_settings,
            layers=lambda: app.agreed.tools,
        )


def _tool_settings(config: Config) -> dict[str, dict[str, Any]]:
    return {name: TOOL.plain(tool) for name, tool in config.tools.items()}
