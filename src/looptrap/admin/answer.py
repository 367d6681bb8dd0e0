"""How the admin listener reads and answers: JSON, and mistakes in words."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import msgspec
from aiohttp import web

from looptrap.errors import ConfigError
from looptrap.gateway.app import App

JSON = "application/json"

AWAY = "The store that instances share cannot be reached. Nothing has been changed."


class Api(ABC):
    """Answers operators of one gateway, under a path of its own."""

    def __init__(self, app: App) -> None:
        self._app = app

    @abstractmethod
    def routes(self) -> list[web.RouteDef]:
        """Return what is answered, and how."""


class BadRequest(web.HTTPError):
    """What was sent is not JSON; raised where a body is read, and answered as it stands."""

    def __init__(self, status: int, code: str, message: str) -> None:
        self.status_code = status
        text = _json({"error": {"code": code, "message": message}}).decode()
        super().__init__(text=text, content_type=JSON)


def answer(value: Any, status: int = 200, **headers: str) -> web.Response:
    """Return a value as JSON."""
    return web.Response(body=_json(value), status=status, content_type=JSON, headers=headers)


def error(status: int, code: str, message: str, **more: Any) -> web.Response:
    """Return why something was not done."""
    return answer({"error": {"code": code, "message": message, **more}}, status)


def in_words(raised: web.HTTPException) -> web.Response:
    """Return what was raised as an answer, in JSON where nobody has said it in words yet."""
    if raised.content_type == JSON:
        return web.Response(body=raised.body, status=raised.status, content_type=JSON)
    match raised.status:
        case 404:
            return error(404, "not_found", "There is nothing at this path.")
        case 405:
            allowed = raised.headers.get("Allow", "")
            told = error(405, "wrong_method", f"This path takes {allowed.replace(',', ', ')}.")
            told.headers["Allow"] = allowed
            return told
        case 413:
            return error(413, "too_large", "This is more than is taken here.")
        case status:
            return error(status, "refused", raised.reason)


def mistakes(found: ConfigError) -> web.Response:
    """Return every mistake in what was sent."""
    problems = [{"place": one.place, "message": one.message} for one in found.problems]
    message = "; ".join(map(str, found.problems))
    return error(400, "bad_request", message, problems=problems)


async def body_of(request: web.Request) -> bytes:
    """Return the body of a request that says it is JSON."""
    if request.content_type != JSON:
        # A page of another site cannot send this type without asking first.
        raise BadRequest(415, "not_json", "Send application/json.")
    return await request.read()


async def sent(request: web.Request) -> Any:
    """Return the JSON that was sent."""
    try:
        return msgspec.json.decode(await body_of(request))
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        raise BadRequest(400, "bad_request", "Send JSON: this cannot be read.") from None


def _json(value: Any) -> bytes:
    return msgspec.json.encode(value)
