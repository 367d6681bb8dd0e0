"""Gateway keys for operators: whose there are; never a key itself, nor its digest."""

from __future__ import annotations

from typing import TypedDict

from aiohttp import web

from looptrap.admin.answer import Api, answer
from looptrap.admin.history import NOTHING, Iso, moment, parameters
from looptrap.gateway.auth import projects_by_key

PATH = "/api/v1/keys"


class KeyShown(TypedDict):
    """A gateway key, by its name."""

    name: str
    project: str
    created: Iso
    revoked: Iso | None


class Keys(TypedDict):
    """All keys, and whether callers need one."""

    keys: list[KeyShown]
    requires_keys: bool


class KeyApi(Api):
    """Answers at `/api/v1/keys`."""

    def routes(self) -> list[web.RouteDef]:
        """Return what is answered, and how."""
        return [web.get(PATH, self._list)]

    async def _list(self, request: web.Request) -> web.Response:
        parameters(request, NOTHING)
        ring = self._app.ring
        # What the configuration says of a key wins over what the key says itself.
        projects = projects_by_key(self._app.gateway.runtime.config.projects)
        told: Keys = {
            "keys": [
                {
                    "name": key.name,
                    "project": projects.get(key.name, key.project),
                    "created": moment(key.created.timestamp()),
                    "revoked": moment(key.revoked.timestamp() if key.revoked else None),
                }
                for key in ring.keys
            ],
            "requires_keys": ring.has_keys,
        }
        return answer(told)
