"""Run-time settings of projects and tools, on top of the file, for operators."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from typing import Any, ClassVar, NamedTuple, TypedDict

from looptrap.admin.api import ApiError, ApiRequest
from looptrap.admin.audit import record_change
from looptrap.admin.operation import ANY_TEXT, Api, Body, Operation, delete, get, json_body, put
from looptrap.config import Config
from looptrap.gateway.app import App
from looptrap.gateway.shared_settings.runtime_override import (
    ProjectOverrides,
    RuntimeOverride,
    ToolOverrides,
)
from looptrap.policy.kind import NAME
from looptrap.policy.policy import PROJECT
from looptrap.policy.rule import TOOL
from looptrap.schema import Kind

_TAG = re.compile(r'"?(\d{1,18})"?')


class OverrideView(TypedDict):
    """Settings of the file, those of run time and their version, and what is in effect."""

    name: str
    version: int
    file: dict[str, Any] | None
    run_time: dict[str, Any] | None
    effective: dict[str, Any] | None


class ProjectList(TypedDict):
    """The projects of the file, and those set at run time."""

    projects: list[OverrideView]


class ToolList(TypedDict):
    """The tools of the file, and those set at run time."""

    tools: list[OverrideView]


class OverrideKind(NamedTuple):
    """Things that have settings by name."""

    noun: str
    example: str
    overrides: Callable[[App], ProjectOverrides | ToolOverrides]
    settings: Callable[[Config], dict[str, dict[str, Any]]]
    """Returns the settings of a configuration by name."""


class OverrideApi(Api):
    """Answers under the path of one kind."""

    kind: ClassVar[OverrideKind]

    async def list_all(self, _request: ApiRequest) -> dict[str, list[OverrideView]]:
        """Return all things of this kind."""
        kind = self.kind
        names = {**kind.settings(self._app.config), **kind.overrides(self._app).layers()}
        return {f"{kind.noun}s": [self._view(name) for name in names]}

    async def show(self, request: ApiRequest) -> OverrideView:
        """Return one of them."""
        if self._view(request.name)["effective"] is None:
            raise ApiError(404, "not_found", f"There is no {self.kind.noun} of this name.")
        return self._answer(request)

    async def put(self, request: ApiRequest) -> OverrideView:
        """Replace its run-time settings."""
        settings = request.body
        if not isinstance(settings, dict):
            raise ApiError(400, "bad_request", f"Send settings such as {self.kind.example}.")
        version = _expected_version(request, settings.pop("version", None))
        overrides = self.kind.overrides(self._app)
        change = overrides.put(self._app.config, request.name, settings, version)
        return await self._change(request, "put", change)

    async def drop(self, request: ApiRequest) -> OverrideView:
        """Remove its run-time settings."""
        version = _expected_version(request, None)
        change = self.kind.overrides(self._app).drop(request.name, version)
        return await self._change(request, "delete", change)

    async def _change(
        self, request: ApiRequest, verb: str, change: Awaitable[RuntimeOverride | None]
    ) -> OverrideView:
        noun, name = self.kind.noun, request.name
        before = self._view(name)["run_time"]
        try:
            changed = await change
        except OSError:
            message = "The store that instances share cannot be reached. Nothing has been changed."
            raise ApiError(503, "store_unavailable", message) from None
        if changed is None:
            message = f"Somebody has changed this {noun} since that version. See what it is now."
            raise ApiError(409, "stale_version", message, **{noun: self._view(name)})
        after = changed.settings if changed.version else None
        if before is not None or after is not None:
            await record_change(self._app, request, f"{noun}.{verb}", name, before, after)
        return self._answer(request)

    def _answer(self, request: ApiRequest) -> OverrideView:
        view = self._view(request.name)
        request.response_headers["ETag"] = f'"{view["version"]}"'
        return view

    def _view(self, name: str) -> OverrideView:
        override = self.kind.overrides(self._app).layer(name)
        return {
            "name": name,
            "version": override.version,
            "file": self.kind.settings(self._app.config).get(name),
            "run_time": override.settings if override.version else None,
            "effective": self.kind.settings(self._config).get(name),
        }


VERSION_SCHEMA = {"type": "integer", "minimum": 0, "description": "only if this is there now"}


def _override_operations(
    noun: str, summary: str, answer: Any, body: Body, name: Kind
) -> tuple[Operation, ...]:
    path = f"/api/v1/{noun}s"
    named, change = f"{path}/{{name}}", {"headers": ("If-Match",), "errors": (409,)}
    set_, unset = f"sets what is set of a {noun}", f"goes back to what the file says of a {noun}"
    return (
        get(path, summary, answer=answer)(OverrideApi.list_all),
        get(named, f"one {noun}", errors=(404,))(OverrideApi.show),
        put(named, set_, body=body, path_kind=name, **change)(OverrideApi.put),
        delete(named, unset, **change)(OverrideApi.drop),
    )


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


class ProjectApi(OverrideApi):
    """Answers under `/api/v1/projects`."""

    kind = OverrideKind(
        noun="project",
        example='{"detection": "shadow"}',
        overrides=lambda app: app.shared_settings.projects,
        settings=lambda config: {one.name: PROJECT.plain(one) for one in config.projects},
    )
    operations = _override_operations(
        "project",
        "projects, of the file and set at run time",
        ProjectList,
        json_body(PROJECT, "name", "keys", version=VERSION_SCHEMA),
        NAME,
    )


class ToolApi(OverrideApi):
    """Answers under `/api/v1/tools`."""

    kind = OverrideKind(
        noun="tool",
        example='{"thresholds": {"warn": 20, "block": 60}} or {"exempt": true}',
        overrides=lambda app: app.shared_settings.tools,
        settings=lambda config: {name: TOOL.plain(one) for name, one in config.tools.items()},
    )
    operations = _override_operations(
        "tool",
        "tools with settings of their own",
        ToolList,
        json_body(TOOL, version=VERSION_SCHEMA),
        ANY_TEXT,
    )
