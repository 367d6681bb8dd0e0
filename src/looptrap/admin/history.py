"""How operators ask the history: in a thread, with parameters that are checked, times in words."""

from __future__ import annotations

import asyncio
import re
import sqlite3
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Any, TypeVar, overload

from aiohttp import web
from msgspec import Meta

from looptrap.admin.answer import error, mistakes
from looptrap.errors import ConfigError, Problem
from looptrap.incident.alert.message import timestamp
from looptrap.schema import Field, Moment, Number, Table, Text, from_text, read
from looptrap.schema.kind import refuse

T = TypeVar("T")

MOST = 500
"""Items that one answer has at most."""

LIMIT = Field(
    name="limit",
    kind=Number(low=1, high=MOST, whole=True),
    default=50,
    doc="so many at most",
)
Iso = Annotated[str, Meta(extra_json_schema={"format": "date-time"})]
"""A time as it is told, in ISO 8601."""

NOTHING: Table[dict[str, Any]] = Table(build=dict, fields=[])
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
        told = error(503, "history_unavailable", f"The history cannot be used: {why}.")
        super().__init__(text=told.text, content_type="application/json")


async def ask(question: Callable[[], T]) -> T:
    """Return what the history answers; it waits for a disk, the loop does not."""
    try:
        return await asyncio.to_thread(question)
    except (sqlite3.Error, OSError, ConfigError) as why:
        raise HistoryUnavailable(str(why)) from None


def parameters(request: web.Request, table: Table[T]) -> T:
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
            text=mistakes(found).text, content_type="application/json"
        ) from None


def wrong_cursor() -> web.Response:
    """Return that a cursor is none."""
    return mistakes(ConfigError([Problem("cursor", "is not what `next` of an answer gave out")]))


@overload
def moment(time: float) -> str: ...


@overload
def moment(time: float | None) -> str | None: ...


def moment(time: float | None) -> str | None:
    """Return a time in ISO 8601."""
    return None if time is None else timestamp(time)
