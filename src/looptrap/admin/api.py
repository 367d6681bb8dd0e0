"""Requests and responses of the admin API: parameters, JSON, errors, times, the history."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from dataclasses import field as dataclass_field
from datetime import UTC, datetime
from typing import Annotated, Any, NotRequired, TypedDict, TypeVar, cast, overload

import msgspec
from aiohttp import web
from msgspec import Meta

from looptrap.database.database import Page
from looptrap.errors import ConfigError, DatabaseError, Problem
from looptrap.incident.alert.message import timestamp
from looptrap.schema import Field, Kind, Moment, Number, Table, Text, from_text, read
from looptrap.schema.kind import refuse

JSON_TYPE = "application/json"

MAX_PAGE_SIZE = 500

T = TypeVar("T")

IsoTime = Annotated[str, Meta(extra_json_schema={"format": "date-time"})]
"""A time in ISO 8601."""


@dataclass(slots=True)
class ApiRequest:
    """A request, read as its operation declares."""

    http: web.Request
    query: dict[str, Any]
    body: Any = None
    response_headers: dict[str, str] = dataclass_field(default_factory=dict)
    """Sent with the answer."""

    @property
    def name(self) -> str:
        """The variable part of the path: an id or a name."""
        (name,) = self.http.match_info.values()
        return name


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
    rule: NotRequired[Any]
    budget: NotRequired[Any]


class ErrorBody(TypedDict):
    """Why something was not answered or not done."""

    error: ErrorDetail


class ApiError(web.HTTPError):
    """An error of any status with a code and a message; it is answered as JSON."""

    def __init__(self, status: int, code: str, message: str, **details: Any) -> None:
        self.status_code = status
        text = error_response(status, code, message, **details).text
        super().__init__(text=text, content_type=JSON_TYPE)


class HistoryUnavailableError(ApiError):
    """The history cannot be read or written."""

    def __init__(self, why: Exception) -> None:
        super().__init__(503, "history_unavailable", f"The history cannot be used: {why}.")


def json_response(value: Any, status: int = 200, **headers: str) -> web.Response:
    """Return a value as JSON."""
    body = msgspec.json.encode(value)
    return web.Response(body=body, status=status, content_type=JSON_TYPE, headers=headers)


def error_response(status: int, code: str, message: str, **details: Any) -> web.Response:
    """Return an error as JSON."""
    return json_response({"error": {"code": code, "message": message, **details}}, status)


def http_exception_response(raised: web.HTTPException) -> web.Response:
    """Return an exception as a response; aiohttp's own get a code and a message in JSON."""
    if raised.content_type == JSON_TYPE:
        return web.Response(body=raised.body, status=raised.status, content_type=JSON_TYPE)
    match raised.status:
        case 404:
            return error_response(404, "not_found", "There is nothing at this path.")
        case 405:
            allowed = raised.headers.get("Allow", "")
            message = f"This path takes {allowed.replace(',', ', ')}."
            response = error_response(405, "wrong_method", message)
            response.headers["Allow"] = allowed
            return response
        case 413:
            return error_response(413, "too_large", "The body of the request is too large.")
        case status:
            return error_response(status, "refused", raised.reason)


def problems_response(error: ConfigError) -> web.Response:
    """Return every mistake in a request."""
    problems = [{"place": one.place, "message": one.message} for one in error.problems]
    message = "; ".join(map(str, error.problems))
    return error_response(400, "bad_request", message, problems=problems)


def read_json(content: bytes) -> Any:
    """Return a body as JSON."""
    try:
        return msgspec.json.decode(content)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        raise ApiError(400, "bad_request", "Send JSON: this cannot be read.") from None


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


def field(name: str, kind: Kind, doc: str, default: Any = None, *, required: bool = False) -> Field:
    """Return a parameter, or a field of a body."""
    return Field(name=name, kind=kind, doc=doc, default=default, required=required)


def fields(*items: Field, **options: Any) -> Table[dict[str, Any]]:
    """Return a table of parameters, or of the fields of a body."""
    return Table(fields=items, **{"build": dict, **options})


LIMIT = field(
    "limit", Number(low=1, high=MAX_PAGE_SIZE, whole=True), "the largest number of items", 50
)
CURSOR = field("cursor", Text(form="what `next` gave out"), "where to go on")
SINCE = field("since", Instant(), "from then on; without it, the last 24 hours")
UNTIL = field("until", Instant(), "up to then; without it, now")


def read_parameters(request: web.Request, table: Table[T]) -> T:
    """Return the parameters of a request; raise ConfigError with every mistake in them."""
    kinds = {one.name: one.kind for one in table.fields}
    values = {
        name: from_text(kinds[name], text) if name in kinds else text
        for name, text in request.query.items()
    }
    for name in values:
        if len(request.query.getall(name)) > 1:
            raise ConfigError([Problem(name, "is given more than once")])
    return read(table, values)


@contextmanager
def history_errors() -> Iterator[None]:
    """Raise HistoryUnavailableError where the history cannot be used inside."""
    try:
        yield
    except (DatabaseError, OSError, ConfigError) as error:
        raise HistoryUnavailableError(error) from None


async def query_history(query: Callable[..., T], *args: Any, **named: Any) -> T:
    """Call a function that reads the history, on a thread: it waits for the disk."""
    with history_errors():
        return await asyncio.to_thread(query, *args, **named)


async def query_page(query: Callable[..., T], *args: Any, **named: Any) -> T:
    """Call a function that reads a page of the history; a wrong cursor is a mistake."""
    try:
        return await query_history(query, *args, **named)
    except (ValueError, OverflowError):
        message = "is not what `next` of an answer gave out"
        raise ConfigError([Problem("cursor", message)]) from None


def all_items(query: Callable[..., Page[T]], **named: Any) -> Iterator[T]:
    """Yield the items of all pages; waits for the disk."""
    cursor: str | None = None
    while True:
        page = query(**named, limit=MAX_PAGE_SIZE, cursor=cursor)
        yield from page.items
        cursor = page.next_cursor
        if cursor is None:
            return


def view_of(kind: Callable[..., T], source: object, **values: Any) -> T:
    """Return a TypedDict of that kind: these values, and attributes of the source for the rest."""
    names = [name for name in kind.__annotations__ if name not in values]
    return cast(T, {name: getattr(source, name) for name in names} | values)


@overload
def iso_time(time: float) -> str: ...


@overload
def iso_time(time: float | None) -> str | None: ...


def iso_time(time: float | None) -> str | None:
    """Return a time in ISO 8601."""
    return None if time is None else timestamp(time)
