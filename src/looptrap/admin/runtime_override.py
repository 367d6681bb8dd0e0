"""Run-time settings of projects and tools, on top of the file, for operators."""

from __future__ import annotations

import re
from typing import Any, ClassVar, TypedDict

from looptrap.admin.api import STORE_UNAVAILABLE_MESSAGE, ApiError, ApiRequest
from looptrap.admin.audit import record_change
from looptrap.admin.json_schema import Schema, kind_schema, table_schema
from looptrap.admin.operation import Api, Body, Operation, delete, get, json_body, put
from looptrap.config import Config
from looptrap.gateway.shared_settings.runtime_override import (
    ProjectOverrides,
    ToolOverrides,
)
from looptrap.policy.kind import NAME
from looptrap.policy.policy import PROJECT
from looptrap.policy.rule import TOOL

_TAG = re.compile(r'"?(\d{1,18})"?')


class OverrideView(TypedDict):
    """Settings of the file, those of run time and their version, and what is in effect."""

    name: str
    version: int
    file: dict[str, Any] | None
    run_time: dict[str, Any] | None
    effective: dict[str, Any] | None


class OverrideApi(Api):
    """Answers under the path of things that have settings by name."""

    noun: ClassVar[str]
    example: ClassVar[str]

    def _overrides(self) -> ProjectOverrides | ToolOverrides:
        raise NotImplementedError

    def _settings(self, config: Config) -> dict[str, dict[str, Any]]:
        """Return the settings of a configuration by name."""
        raise NotImplementedError

    async def list_all(self, _request: ApiRequest) -> dict[str, list[OverrideView]]:
        """Return all things of this kind."""
        names = {**self._settings(self._app.config), **self._overrides().layers()}
        return {f"{self.noun}s": [self._view(name) for name in names]}

    async def show(self, request: ApiRequest) -> OverrideView:
        """Return one of them."""
        if self._view(request.name)["effective"] is None:
            raise ApiError(404, "not_found", f"There is no {self.noun} of this name.")
        return self._answer(request)

    async def put(self, request: ApiRequest) -> OverrideView:
        """Replace its run-time settings."""
        name, settings = request.name, request.body
        if not isinstance(settings, dict):
            raise ApiError(400, "bad_request", f"Send settings such as {self.example}.")
        version = _expected_version(request, settings.pop("version", None))
        before = self._view(name)["run_time"]
        try:
            after = await self._overrides().put(self._app.config, name, settings, version)
        except OSError:
            raise ApiError(503, "store_unavailable", STORE_UNAVAILABLE_MESSAGE) from None
        if after is None:
            raise self._stale(name)
        await record_change(self._app, request, f"{self.noun}.put", name, before, after.settings)
        return self._answer(request)

    async def drop(self, request: ApiRequest) -> OverrideView:
        """Remove its run-time settings."""
        name = request.name
        before = self._view(name)["run_time"]
        try:
            after = await self._overrides().drop(name, _expected_version(request, None))
        except OSError:
            raise ApiError(503, "store_unavailable", STORE_UNAVAILABLE_MESSAGE) from None
        if after is None:
            raise self._stale(name)
        if before is not None:
            await record_change(self._app, request, f"{self.noun}.delete", name, before)
        return self._answer(request)

    def _answer(self, request: ApiRequest) -> OverrideView:
        view = self._view(request.name)
        request.response_headers["ETag"] = f'"{view["version"]}"'
        return view

    def _stale(self, name: str) -> ApiError:
        message = f"Somebody has changed this {self.noun} since that version. See what it is now."
        return ApiError(409, "stale_version", message, **{self.noun: self._view(name)})

    def _view(self, name: str) -> OverrideView:
        override = self._overrides().layer(name)
        return {
            "name": name,
            "version": override.version,
            "file": self._settings(self._app.config).get(name),
            "run_time": override.settings if override.version else None,
            "effective": self._settings(self._app.gateway.runtime.config).get(name),
        }


def _override_operations(
    noun: str, summary: str, answer: Any, *, body: Body, name: Schema | None = None
) -> tuple[Operation, ...]:
    path = f"/api/v1/{noun}s"
    named, match = f"{path}/{{name}}", ("If-Match",)
    set_, unset = f"sets what is set of a {noun}", f"goes back to what the file says of a {noun}"
    return (
        get(path, summary, answer=answer)(OverrideApi.list_all),
        get(named, f"one {noun}", errors=(404,))(OverrideApi.show),
        put(named, set_, body=body, path_schema=name, headers=match, errors=(409,))(
            OverrideApi.put
        ),
        delete(named, unset, headers=match, errors=(409,))(OverrideApi.drop),
    )


def _versioned(settings: Schema) -> Body:
    """Return a body of settings that may name the version they replace."""
    version = {"type": "integer", "minimum": 0, "description": "only if this is there now"}
    return json_body({**settings, "properties": {**settings["properties"], "version": version}})


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


class ProjectList(TypedDict):
    """The projects of the file, and those set at run time."""

    projects: list[OverrideView]


class ProjectApi(OverrideApi):
    """Answers under `/api/v1/projects`."""

    noun = "project"
    example = '{"detection": "shadow"}'
    operations = _override_operations(
        noun,
        "projects, of the file and set at run time",
        ProjectList,
        body=_versioned(table_schema(PROJECT, "name", "keys")),
        name=kind_schema(NAME),
    )

    def _overrides(self) -> ProjectOverrides:
        return self._app.agreed.projects

    def _settings(self, config: Config) -> dict[str, dict[str, Any]]:
        return {project.name: PROJECT.plain(project) for project in config.projects}


class ToolList(TypedDict):
    """The tools of the file, and those set at run time."""

    tools: list[OverrideView]


class ToolApi(OverrideApi):
    """Answers under `/api/v1/tools`."""

    noun = "tool"
    example = '{"thresholds": {"warn": 20, "block": 60}} or {"exempt": true}'
    operations = _override_operations(
        noun,
        "tools with settings of their own",
        ToolList,
        body=_versioned(table_schema(TOOL)),
    )

    def _overrides(self) -> ToolOverrides:
        return self._app.agreed.tools

    def _settings(self, config: Config) -> dict[str, dict[str, Any]]:
        return {name: TOOL.plain(tool) for name, tool in config.tools.items()}
