"""What operators say about incidents: that somebody takes care, whether it was one, and notes."""

from __future__ import annotations

import sqlite3
from functools import partial
from secrets import token_hex
from typing import Annotated, TypeVar

import msgspec
from aiohttp import web
from msgspec import Meta

from looptrap.admin.answer import Api, BadRequest, answer, body_of, error
from looptrap.admin.audit import ADMIN, record
from looptrap.admin.history import HistoryUnavailable, ask
from looptrap.admin.incident import PATH, UNKNOWN, incident_of, shown_to_operator
from looptrap.gateway.app import App
from looptrap.incident.model import Incident
from looptrap.incident.remark import (
    LONGEST_NOTE,
    MOST_NOTES,
    NO_REMARKS,
    Label,
    Remark,
    RemarkKind,
    Remarks,
)

T = TypeVar("T")


class Acknowledged(msgspec.Struct, forbid_unknown_fields=True):
    """That somebody takes care of an incident: there is nothing else to say."""


class Noted(msgspec.Struct, forbid_unknown_fields=True):
    """What is to be remembered of an incident."""

    text: Annotated[str, Meta(min_length=1, max_length=LONGEST_NOTE, pattern=r"\S")]


class Labelled(msgspec.Struct, forbid_unknown_fields=True):
    """Whether it was a loop; null takes back what was said."""

    label: Label | None


class RemarkApi(Api):
    """Answers what is said under `/api/v1/incidents/{id}`, with the incident as it is then."""

    def routes(self) -> list[web.RouteDef]:
        """Return what is answered, and how."""
        return [
            web.post(PATH + "/{id}/acknowledge", self._acknowledge),
            web.post(PATH + "/{id}/notes", self._note),
            web.put(PATH + "/{id}/label", self._label),
        ]

    async def _acknowledge(self, request: web.Request) -> web.Response:
        await _sent(request, Acknowledged, "{}")
        incident, remarks = await self._found(request)
        if remarks.acknowledged is None:
            await say(self._app, incident.id, "acknowledge")
            await record(self._app, request, "incident.acknowledge", incident.id)
        return await self._shown(incident)

    async def _note(self, request: web.Request) -> web.Response:
        given = await _sent(request, Noted, '{"text": "…"}')
        incident, remarks = await self._found(request)
        if len(remarks.notes) >= MOST_NOTES:
            message = f"There are {MOST_NOTES} notes on this incident, and room for no more."
            return error(409, "too_many_notes", message)
        await say(self._app, incident.id, "note", given.text)
        await record(self._app, request, "incident.note", incident.id, after={"text": given.text})
        return await self._shown(incident)

    async def _label(self, request: web.Request) -> web.Response:
        given = await _sent(request, Labelled, '{"label": "false_alarm"}')
        incident, remarks = await self._found(request)
        if given.label != remarks.label:
            await say(self._app, incident.id, "label", given.label or "")
            before, after = {"label": remarks.label}, {"label": given.label}
            await record(self._app, request, "incident.label", incident.id, before, after)
        return await self._shown(incident)

    async def _found(self, request: web.Request) -> tuple[Incident, Remarks]:
        """Return the incident that is meant, and what was said of it so far."""
        found = await incident_of(self._app, request.match_info["id"])
        if found is None:
            raise BadRequest(404, "not_found", UNKNOWN)
        remarks = await ask(partial(self._app.desk.history.remarks, [found.id]))
        return found, remarks.get(found.id, NO_REMARKS)

    async def _shown(self, incident: Incident) -> web.Response:
        return answer(await shown_to_operator(self._app, incident))


async def say(app: App, incident: str, kind: RemarkKind, text: str = "") -> None:
    """Keep what an operator says of an incident, for all instances."""
    remark = Remark(
        id=token_hex(8),
        incident=incident,
        time=app.gateway.clock(),
        by=ADMIN,
        kind=kind,
        text=text,
    )
    try:
        await app.desk.remark(remark)
    except (sqlite3.Error, OSError) as why:
        raise HistoryUnavailable(str(why)) from None


async def _sent(request: web.Request, kind: type[T], example: str) -> T:
    try:
        return msgspec.json.decode(await body_of(request), type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as why:
        raise BadRequest(400, "bad_request", f"Send {example}: {why}.") from None
