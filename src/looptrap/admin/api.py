"""What every operation of the admin API uses: parameters and bodies in, JSON and errors out."""

from __future__ import annotations

import asyncio
import re
import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Any, NotRequired, TypedDict, TypeVar, overload

import msgspec
from aiohttp import web
from msgspec import Meta

from looptrap.errors import ConfigError, Problem
from looptrap.gateway.app import App
from looptrap.incident.alert.message import timestamp
from looptrap.schema import Field, Moment, Number, Table, Text, from_text, read
from looptrap.schema.kind import refuse

JSON_TYPE = "application/json"

STORE_UNAVAILABLE_MESSAGE = (
    "The store that instances share cannot be reached. Nothing has been changed."
)


class Api(ABC):
    """Answers operators of one gateway, under a path of its own."""

    def __init__(self, app: App) -> None:
        self._app = app

    @abstractmethod
    def routes(self) -> list[web.RouteDef]:
        """Return what is answered, and how."""


class ApiError(web.HTTPError):
    """What was sent is not JSON; raised where a body is read, and answered as it stands."""

    def __init__(self, status: int, code: str, message: str) -> None:
        self.status_code = status
        text = _json({"error": {"code": code, "message": message}}).decode()
        super().__init__(text=text, content_type=JSON_TYPE)


def json_response(value: Any, status: int = 200, **headers: str) -> web.Response:
    """Return a value as JSON."""
    return web.Response(body=_json(value), status=status, content_type=JSON_TYPE, headers=headers)


def error_response(status: int, code: str, message: str, **more: Any) -> web.Response:
    """Return why something was not done."""
    return json_response({"error": {"code": code, "message": message, **more}}, status)


def http_exception_response(raised: web.HTTPException) -> web.Response:
    """Return what was raised as an answer, in JSON where nobody has said it in words yet."""
    if raised.content_type == JSON_TYPE:
        return web.Response(body=raised.body, status=raised.status, content_type=JSON_TYPE)
    match raised.status:
        case 404:
            return error_response(404, "not_found", "There is nothing at this path.")
        case 405:
            allowed = raised.headers.get("Allow", "")
            told = error_response(
                405, "wrong_method", f"This path takes {allowed.replace(',', ', ')}."
            )
            told.headers["Allow"] = allowed
            return told
        case 413:
            return error_response(413, "too_large", "This is more than is taken here.")
        case status:
            return error_response(status, "refused", raised.reason)


def problems_response(found: ConfigError) -> web.Response:
    """Return every mistake in what was sent."""
    problems = [{"place": one.place, "message": one.message} for one in found.problems]
    message = "; ".join(map(str, found.problems))
    return error_response(400, "bad_request", message, problems=problems)


async def read_body(request: web.Request) -> bytes:
    """Return the body of a request that says it is JSON."""
    if request.content_type != JSON_TYPE:
        # A page of another site cannot send this type without asking first.
        raise ApiError(415, "not_json", "Send application/json.")
    return await request.read()


async def read_json(request: web.Request) -> Any:
    """Return the JSON that was sent."""
    try:
        return msgspec.json.decode(await read_body(request))
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        raise ApiError(400, "bad_request", "Send JSON: this cannot be read.") from None


def _json(value: Any) -> bytes:
    return msgspec.json.encode(value)


T = TypeVar("T")

MAX_PAGE_SIZE = 500
"""Items that one answer has at most."""

LIMIT = Field(
    name="limit",
    kind=Number(low=1, high=MAX_PAGE_SIZE, whole=True),
    default=50,
    doc="so many at most",
)
IsoTime = Annotated[str, Meta(extra_json_schema={"format": "date-time"})]
"""A time as it is told, in ISO 8601."""

NO_PARAMETERS: Table[dict[str, Any]] = Table(build=dict, fields=[])
"""The parameters of what has none."""

CURSOR = Field(name="cursor", kind=Text(form="what `next` gave out"), doc="where to go on")


@dataclass(frozen=True, slots=True)
class Instant:
    """A time in ISO 8601 with its offset, read as seconds since 1970."""

    def read(self, value: object, place: str, problems: list[Problem]) -> Any:
        try:
            # A `+` that was not escaped in a URL arrives as a space.
            at = datetime.fromisoformat(re.sub(r" (?=\d\d:?\d\d$)", "+", str(value)))
            if at.tzinfo is not None:
                return at.timestamp()
        except (ValueError, OverflowError):
            pass
        return refuse(self, value, place, problems)

    def plain(self, value: Any) -> Any:
        return datetime.fromtimestamp(value, UTC).isoformat()

    def words(self) -> str:
        return Moment().words()


SINCE = Field(name="since", kind=Instant(), doc="from then on; without it, the last 24 hours")
UNTIL = Field(name="until", kind=Instant(), doc="up to then; without it, now")


class HistoryUnavailable(web.HTTPServiceUnavailable):
    """The history cannot be read or written; raised where it is asked, answered as it stands."""

    def __init__(self, why: str) -> None:
        told = error_response(503, "history_unavailable", f"The history cannot be used: {why}.")
        super().__init__(text=told.text, content_type="application/json")


async def query_history(question: Callable[[], T]) -> T:
    """Return what the history answers; it waits for a disk, the loop does not."""
    try:
        return await asyncio.to_thread(question)
    except (sqlite3.Error, OSError, ConfigError) as why:
        raise HistoryUnavailable(str(why)) from None


def read_parameters(request: web.Request, table: Table[T]) -> T:
    """Return the parameters of a request; mistakes in them are answered, all at once."""
    kinds = {field.name: field.kind for field in table.fields}
    given = {
        name: from_text(kinds[name], text) if name in kinds else text
        for name, text in request.query.items()
    }
    try:
        for name in given:
            if len(request.query.getall(name)) > 1:
                raise ConfigError([Problem(name, "is given more than once")])
        return read(table, given)
    except ConfigError as found:
        raise web.HTTPBadRequest(
            text=problems_response(found).text, content_type="application/json"
        ) from None


def bad_cursor_response() -> web.Response:
    """Return that a cursor is none."""
    return problems_response(
        ConfigError([Problem("cursor", "is not what `next` of an answer gave out")])
    )


@overload
def iso_time(time: float) -> str: ...


@overload
def iso_time(time: float | None) -> str | None: ...


def iso_time(time: float | None) -> str | None:
    """Return a time in ISO 8601."""
    return None if time is None else timestamp(time)


class ProblemView(TypedDict):
    """One mistake in what was sent, and where it is."""

    place: str
    message: str


class ErrorDetail(TypedDict):
    """A code for programs and a sentence for people."""

    code: str
    message: str
    problems: NotRequired[list[ProblemView]]
    project: NotRequired[Any]
    tool: NotRequired[Any]


class ErrorBody(TypedDict):
    """Why something was not answered or not done."""

    error: ErrorDetail
