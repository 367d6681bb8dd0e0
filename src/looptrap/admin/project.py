"""Settings of projects for operators: read, set and taken back while the gateway runs."""

from __future__ import annotations

import re
from typing import Any

from aiohttp import web

from looptrap.admin.answer import AWAY, BadRequest, answer, error, mistakes, sent
from looptrap.errors import ConfigError
from looptrap.gateway.app import App
from looptrap.policy.setting.policy import PROJECT

PATH = "/api/v1/projects"
_TAG = re.compile(r'"?(\d{1,18})"?')


class ProjectApi:
    """Answers under `/api/v1/projects`."""

    def __init__(self, app: App) -> None:
        self._app = app

    def routes(self) -> list[web.RouteDef]:
        """Return what is answered, and how."""
        return [
            web.get(PATH, self._list),
            web.get(PATH + "/{name}", self._show),
            web.put(PATH + "/{name}", self._put),
            web.delete(PATH + "/{name}", self._drop),
        ]

    async def _list(self, _request: web.Request) -> web.Response:
        names = [one.name for one in self._app.config.projects]
        names += [one for one in self._app.agreed.projects.layers() if one not in names]
        return answer({"projects": [self._plain(name) for name in names]})

    async def _show(self, request: web.Request) -> web.Response:
        name = request.match_info["name"]
        shown = self._plain(name)
        if shown["effective"] is None:
            return error(404, "not_found", "There is no project of this name.")
        return self._answer(name)

    async def _put(self, request: web.Request) -> web.Response:
        name, given = request.match_info["name"], await sent(request)
        if not isinstance(given, dict):
            return error(400, "bad_request", 'Send settings such as {"detection": "shadow"}.')
        version = _wanted(request, given.pop("version", None))
        try:
            layer = await self._app.agreed.projects.put(self._app.config, name, given, version)
        except ConfigError as found:
            return mistakes(found)
        except OSError:
            return error(503, "store_unavailable", AWAY)
        return self._answer(name) if layer is not None else self._stale(name)

    async def _drop(self, request: web.Request) -> web.Response:
        name = request.match_info["name"]
        try:
            layer = await self._app.agreed.projects.drop(name, _wanted(request, None))
        except OSError:
            return error(503, "store_unavailable", AWAY)
        return self._answer(name) if layer is not None else self._stale(name)

    def _answer(self, name: str) -> web.Response:
        shown = self._plain(name)
        return answer(shown, ETag=f'"{shown["version"]}"')

    def _stale(self, name: str) -> web.Response:
        message = "Somebody has changed this project since that version. See what is there now."
        return error(409, "stale_version", message, project=self._plain(name))

    def _plain(self, name: str) -> dict[str, Any]:
        layer = self._app.agreed.projects.layer(name)
        of_file = [one for one in self._app.config.projects if one.name == name]
        effective = [one for one in self._app.gateway.runtime.config.projects if one.name == name]
        return {
            "name": name,
            "version": layer.version,
            "file": PROJECT.plain(of_file[0]) if of_file else None,
            "run_time": layer.settings if layer.version else None,
            "effective": PROJECT.plain(effective[0]) if effective else None,
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
