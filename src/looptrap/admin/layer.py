"""Settings by name for operators: read, set and taken back while the gateway runs."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Protocol, TypedDict

from aiohttp import web

from looptrap.admin.answer import AWAY, BadRequest, answer, error, mistakes, sent
from looptrap.admin.audit import record
from looptrap.admin.history import NOTHING, parameters
from looptrap.config import Config
from looptrap.errors import ConfigError
from looptrap.gateway.agreement.layer import Layer
from looptrap.gateway.app import App

_TAG = re.compile(r'"?(\d{1,18})"?')

Plain = Callable[[Config], dict[str, dict[str, Any]]]
"""What a configuration says, by name."""


class LayerShown(TypedDict):
    """What the file says, what was set at run time, its version, and what is in effect."""

    name: str
    version: int
    file: dict[str, Any] | None
    run_time: dict[str, Any] | None
    effective: dict[str, Any] | None


class SetAtRunTime(Protocol):
    """Layers of one kind, on top of a configuration."""

    def layers(self) -> dict[str, Layer]:
        """Return what is set, by name."""
        ...

    def layer(self, name: str) -> Layer:
        """Return what is set under one name."""
        ...

    async def put(
        self, config: Config, name: str, settings: Mapping[str, Any], version: int | None
    ) -> Layer | None:
        """Set all that is set under a name; None where that version is not there."""
        ...

    async def drop(self, name: str, version: int | None) -> Layer | None:
        """Go back to what the file says, under the same condition."""
        ...


class LayerApi:
    """Answers under the path of things that have settings by name: projects, tools."""

    def __init__(
        self,
        app: App,
        *,
        noun: str,
        example: str,
        plain: Plain,
        layers: Callable[[], SetAtRunTime],
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
        parameters(request, NOTHING)
        names = {**self._plain(self._app.config), **self._layers().layers()}
        return answer({f"{self._noun}s": [self._shown(name) for name in names]})

    async def _show(self, request: web.Request) -> web.Response:
        name = request.match_info["name"]
        if self._shown(name)["effective"] is None:
            return error(404, "not_found", f"There is no {self._noun} of this name.")
        return self._answer(name)

    async def _put(self, request: web.Request) -> web.Response:
        name, given = request.match_info["name"], await sent(request)
        if not isinstance(given, dict):
            return error(400, "bad_request", f"Send settings such as {self._example}.")
        version = _wanted(request, given.pop("version", None))
        before = self._shown(name)["run_time"]
        try:
            layer = await self._layers().put(self._app.config, name, given, version)
        except ConfigError as found:
            return mistakes(found)
        except OSError:
            return error(503, "store_unavailable", AWAY)
        if layer is None:
            return self._stale(name)
        await record(self._app, request, f"{self._noun}.put", name, before, layer.settings)
        return self._answer(name)

    async def _drop(self, request: web.Request) -> web.Response:
        name = request.match_info["name"]
        before = self._shown(name)["run_time"]
        try:
            layer = await self._layers().drop(name, _wanted(request, None))
        except OSError:
            return error(503, "store_unavailable", AWAY)
        if layer is None:
            return self._stale(name)
        if before is not None:
            await record(self._app, request, f"{self._noun}.delete", name, before)
        return self._answer(name)

    def _answer(self, name: str) -> web.Response:
        shown = self._shown(name)
        return answer(shown, ETag=f'"{shown["version"]}"')

    def _stale(self, name: str) -> web.Response:
        message = f"Somebody has changed this {self._noun} since that version. See what it is now."
        there: dict[str, Any] = {self._noun: self._shown(name)}
        return error(409, "stale_version", message, **there)

    def _shown(self, name: str) -> LayerShown:
        layer = self._layers().layer(name)
        return {
            "name": name,
            "version": layer.version,
            "file": self._plain(self._app.config).get(name),
            "run_time": layer.settings if layer.version else None,
            "effective": self._plain(self._app.gateway.runtime.config).get(name),
        }


def _wanted(request: web.Request, in_body: object) -> int | None:
    """Return the version that a change is meant for, from `If-Match` or the body."""
    if in_body is not None and (not isinstance(in_body, int) or isinstance(in_body, bool)):
        raise BadRequest(400, "bad_request", "version: must be the number of a version.")
    tag = request.headers.get("If-Match")
    if tag is None:
        return in_body
    match = _TAG.fullmatch(tag.strip())
    if match is None or in_body not in (None, int(match[1])):
        raise BadRequest(400, "bad_request", "If-Match: must be one version, as ETag gave it.")
    return int(match[1])
