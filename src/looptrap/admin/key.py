"""Gateway keys for operators: list, make, rotate and revoke them, as `looptrap keys` does."""

from __future__ import annotations

from collections.abc import Awaitable
from contextlib import suppress
from typing import TypedDict, TypeVar

from looptrap.admin.api import ApiError, ApiRequest, IsoTime, field, fields, iso_time
from looptrap.admin.audit import record_change
from looptrap.admin.operation import ANY_TEXT, Api, delete, get, post, table_body
from looptrap.errors import ConfigError
from looptrap.gateway.auth import projects_by_key
from looptrap.gateway.keys import check_name
from looptrap.gateway.state_file import GatewayKey
from looptrap.schema import Number

KEYS_PATH = "/api/v1/keys"

T = TypeVar("T")

# Not a name by its kind: the message about a mistake would repeat a key pasted there.
ADD_FIELDS = fields(
    field("name", ANY_TEXT, "what its callers are called: key:NAME", required=True),
    field("project", ANY_TEXT, "the project its callers belong to", ""),
)
ROTATE_FIELDS = fields(
    field(
        "grace_seconds",
        Number(low=0, high=30 * 86_400, unit="seconds"),
        "how long the earlier key stays valid",
        0.0,
    )
)


class KeyView(TypedDict):
    """A gateway key, by its name."""

    name: str
    project: str
    created: IsoTime
    revoked: IsoTime | None


class KeyList(TypedDict):
    """All keys, and whether callers need one."""

    keys: list[KeyView]
    requires_keys: bool


class NewKeyView(KeyView):
    """A key that was made, with its text: shown here, stored nowhere."""

    key: str


class KeyApi(Api):
    """Answers under `/api/v1/keys`."""

    @get(KEYS_PATH, "the gateway keys, by name")
    async def _list(self, _request: ApiRequest) -> KeyList:
        ring = self._app.ring
        return {"keys": [self._view(key) for key in ring.keys], "requires_keys": ring.has_keys}

    @post(KEYS_PATH, "makes a gateway key", status=201, body=table_body(ADD_FIELDS))
    async def _add(self, request: ApiRequest) -> NewKeyView:
        name, project = request.body["name"], request.body["project"]
        check_name("name", name)
        if project:
            check_name("project", project)
        key, text = await self._change(self._app.key_store(name).add(name, project))
        after = {"project": project} if project else None
        await record_change(self._app, request, "key.add", name, after=after)
        return {**self._view(key), "key": text}

    @post(
        f"{KEYS_PATH}/{{name}}/rotate",
        "replaces a gateway key by another of its name",
        body=table_body(ROTATE_FIELDS),
        errors=(404,),
    )
    async def _rotate(self, request: ApiRequest) -> NewKeyView:
        name, grace = await self._known(request), request.body["grace_seconds"]
        key, text = await self._change(self._app.key_store(name).rotate(name, grace))
        after = {"grace_seconds": grace}
        await record_change(self._app, request, "key.rotate", name, after=after)
        return {**self._view(key), "key": text}

    @delete(f"{KEYS_PATH}/{{name}}", "refuses a gateway key from now on", errors=(404,))
    async def _revoke(self, request: ApiRequest) -> KeyView:
        name = await self._known(request)
        key = await self._change(self._app.key_store(name).revoke(name))
        await record_change(self._app, request, "key.revoke", name)
        return self._view(key)

    async def _known(self, request: ApiRequest) -> str:
        """Return the name of a valid key, one that was made elsewhere a moment ago too."""
        ring, name = self._app.ring, request.name
        with suppress(OSError, ConfigError):
            await self._app.follow_keys()
        if not any(key.name == name and not ring.is_revoked(key) for key in ring.keys):
            raise ApiError(404, "not_found", "There is no valid key of this name.")
        return name

    async def _change(self, change: Awaitable[T]) -> T:
        """Change keys and use the changed ones at once; say where they cannot be kept."""
        try:
            result = await change
            await self._app.follow_keys()
        except OSError:
            message = "The store that instances share cannot be reached. Nothing has been changed."
            raise ApiError(503, "store_unavailable", message) from None
        except ConfigError as error:
            if any(one.place == self._app.config.gateway.state for one in error.problems):
                raise ApiError(503, "state_unavailable", f"{error}.") from None
            raise
        return result

    def _view(self, key: GatewayKey) -> KeyView:
        # The project that the configuration names wins over the key's own.
        projects = projects_by_key(self._config.projects)
        return {
            "name": key.name,
            "project": projects.get(key.name, key.project),
            "created": iso_time(key.created.timestamp()),
            "revoked": iso_time(key.revoked.timestamp() if key.revoked else None),
        }
