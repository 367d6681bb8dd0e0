"""Incidents for operators: listed, shown, followed as they change, and annotated."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from functools import partial
from secrets import token_hex
from typing import Annotated, Any, TypedDict, TypeVar

import msgspec
from aiohttp import web
from msgspec import Meta

from looptrap.admin.api import (
    CURSOR,
    LIMIT,
    Api,
    ApiError,
    HistoryUnavailable,
    Instant,
    bad_cursor_response,
    error_response,
    json_response,
    query_history,
    read_body,
    read_parameters,
)
from looptrap.admin.audit import ADMIN_NAME, record_change
from looptrap.admin.incident_view import (
    IncidentDetail,
    IncidentSummary,
    incident_detail,
    incident_summary,
)
from looptrap.gateway.app import App
from looptrap.incident.history import IncidentHistory
from looptrap.incident.model import (
    LABELS,
    MAX_NOTE_CHARS,
    MAX_NOTES,
    NO_ANNOTATIONS,
    Annotation,
    AnnotationKind,
    Annotations,
    Incident,
    Label,
)
from looptrap.schema import Choice, Field, Flag, Number, Table, Text

INCIDENTS_PATH = "/api/v1/incidents"

UNKNOWN_INCIDENT = "No incident has this id, or more than one has an id that begins so."

LIST_PARAMETERS: Table[dict[str, Any]] = Table(
    build=dict,
    fields=[
        Field(
            name="state",
            kind=Choice(("open", "closed", "all")),
            default="open",
            doc="whether they are over",
        ),
        Field(name="caller", kind=Text(), doc="of this caller only"),
        Field(name="project", kind=Text(), doc="of this project only"),
        Field(name="session", kind=Text(), doc="of this session only"),
        Field(name="rule", kind=Text(), doc="that this rule tripped"),
        Field(name="since", kind=Instant(), doc="with a call since then"),
        Field(name="label", kind=Choice(LABELS), doc="that somebody has marked so"),
        Field(name="acknowledged", kind=Flag(), doc="whether somebody takes care of them"),
        Field(name="q", kind=Text(), doc="a piece of their id, caller, session, rule or model"),
        LIMIT,
        CURSOR,
    ],
)

CHANGES_PARAMETERS: Table[dict[str, Any]] = Table(
    build=dict,
    fields=[
        Field(name="after", kind=Number(low=0, high=1 << 62, whole=True), doc="where to go on"),
        LIMIT,
    ],
)


class IncidentPage(TypedDict):
    """A page of incidents, the latest opened first."""

    incidents: list[IncidentSummary]
    next: str | None


class IncidentChanges(TypedDict):
    """What changed, and the number to go on with."""

    incidents: list[IncidentSummary]
    last: int


class IncidentApi(Api):
    """Answers under `/api/v1/incidents`."""

    def routes(self) -> list[web.RouteDef]:
        """Return what is answered, and how."""
        return [
            web.get(INCIDENTS_PATH, self._list),
            web.get(INCIDENTS_PATH + "/changes", self._changes),
            web.get(INCIDENTS_PATH + "/{id}", self._show),
        ]

    async def _list(self, request: web.Request) -> web.Response:
        wanted = read_parameters(request, LIST_PARAMETERS)
        try:
            return json_response(
                await query_history(partial(_page, self._app.desk.history, wanted))
            )
        except ValueError:
            return bad_cursor_response()

    async def _show(self, request: web.Request) -> web.Response:
        found = await find_incident(self._app, request.match_info["id"])
        if found is None:
            return error_response(404, "not_found", UNKNOWN_INCIDENT)
        return json_response(await load_incident_detail(self._app, found))

    async def _changes(self, request: web.Request) -> web.Response:
        wanted = read_parameters(request, CHANGES_PARAMETERS)
        history, after = self._app.desk.history, wanted["after"]
        found: list[IncidentSummary] = []
        if after is not None:
            found, after = await query_history(
                partial(incident_changes, history, after, wanted["limit"])
            )
        if not found:
            # Also of a history that began anew, whose changes are numbered from 1 again.
            latest = await query_history(history.last_change)
            after = latest if after is None else min(after, latest)
        told: IncidentChanges = {"incidents": found, "last": after}
        return json_response(told)


def incident_changes(
    history: IncidentHistory, after: int, limit: int
) -> tuple[list[IncidentSummary], int]:
    """Return what changed after that number, and the number to go on with; waits for the disk."""
    found, last = history.changes(after, limit)
    return _summaries(history, found), last


async def find_incident(app: App, wanted: str) -> Incident | None:
    """Return the incident of that id, or the only one whose id begins so."""
    return await query_history(partial(app.desk.history.incident, wanted))


async def load_incident_detail(app: App, incident: Incident) -> IncidentDetail:
    """Return all that is known of an incident right now."""
    remarks = await query_history(partial(app.desk.history.remarks, [incident.id]))
    until = await _cooldown_until(app, incident)
    config = app.gateway.runtime.config
    return incident_detail(incident, remarks.get(incident.id, NO_ANNOTATIONS), config, until)


async def _cooldown_until(app: App, incident: Incident) -> float | None:
    """Return until when calls of an incident are refused; None where they may pass."""
    now = app.gateway.clock()
    try:
        left = await app.gateway.judge.cooldowns(incident.fingerprints, now)
    except (OSError, ValueError):  # nobody knows while the store is away
        return None
    longest = max(left, default=0.0)
    return now + longest if longest > 0 else None


def _page(history: IncidentHistory, wanted: dict[str, Any]) -> IncidentPage:
    page = history.incidents(**wanted)
    return {"incidents": _summaries(history, page.items), "next": page.next_cursor}


def _summaries(history: IncidentHistory, found: Sequence[Incident]) -> list[IncidentSummary]:
    remarks = history.remarks(one.id for one in found)
    return [incident_summary(one, remarks.get(one.id, NO_ANNOTATIONS)) for one in found]


T = TypeVar("T")


class AcknowledgeRequest(msgspec.Struct, forbid_unknown_fields=True):
    """That somebody takes care of an incident: there is nothing else to say."""


class NoteRequest(msgspec.Struct, forbid_unknown_fields=True):
    """What is to be remembered of an incident."""

    text: Annotated[str, Meta(min_length=1, max_length=MAX_NOTE_CHARS, pattern=r"\S")]


class LabelRequest(msgspec.Struct, forbid_unknown_fields=True):
    """Whether it was a loop; null takes back what was said."""

    label: Label | None


class AnnotationApi(Api):
    """Answers what is said under `/api/v1/incidents/{id}`, with the incident as it is then."""

    def routes(self) -> list[web.RouteDef]:
        """Return what is answered, and how."""
        return [
            web.post(INCIDENTS_PATH + "/{id}/acknowledge", self._acknowledge),
            web.post(INCIDENTS_PATH + "/{id}/notes", self._note),
            web.put(INCIDENTS_PATH + "/{id}/label", self._label),
        ]

    async def _acknowledge(self, request: web.Request) -> web.Response:
        await _read_request(request, AcknowledgeRequest, "{}")
        incident, remarks = await self._found(request)
        if remarks.acknowledged is None:
            await annotate(self._app, incident.id, "acknowledge")
            await record_change(self._app, request, "incident.acknowledge", incident.id)
        return await self._shown(incident)

    async def _note(self, request: web.Request) -> web.Response:
        given = await _read_request(request, NoteRequest, '{"text": "…"}')
        incident, remarks = await self._found(request)
        if len(remarks.notes) >= MAX_NOTES:
            message = f"There are {MAX_NOTES} notes on this incident, and room for no more."
            return error_response(409, "too_many_notes", message)
        await annotate(self._app, incident.id, "note", given.text)
        await record_change(
            self._app, request, "incident.note", incident.id, after={"text": given.text}
        )
        return await self._shown(incident)

    async def _label(self, request: web.Request) -> web.Response:
        given = await _read_request(request, LabelRequest, '{"label": "false_alarm"}')
        incident, remarks = await self._found(request)
        if given.label != remarks.label:
            await annotate(self._app, incident.id, "label", given.label or "")
            before, after = {"label": remarks.label}, {"label": given.label}
            await record_change(self._app, request, "incident.label", incident.id, before, after)
        return await self._shown(incident)

    async def _found(self, request: web.Request) -> tuple[Incident, Annotations]:
        """Return the incident that is meant, and what was said of it so far."""
        found = await find_incident(self._app, request.match_info["id"])
        if found is None:
            raise ApiError(404, "not_found", UNKNOWN_INCIDENT)
        remarks = await query_history(partial(self._app.desk.history.remarks, [found.id]))
        return found, remarks.get(found.id, NO_ANNOTATIONS)

    async def _shown(self, incident: Incident) -> web.Response:
        return json_response(await load_incident_detail(self._app, incident))


async def annotate(app: App, incident: str, kind: AnnotationKind, text: str = "") -> None:
    """Keep what an operator says of an incident, for all instances."""
    remark = Annotation(
        id=token_hex(8),
        incident=incident,
        time=app.gateway.clock(),
        by=ADMIN_NAME,
        kind=kind,
        text=text,
    )
    try:
        await app.desk.remark(remark)
    except (sqlite3.Error, OSError) as why:
        raise HistoryUnavailable(str(why)) from None


async def _read_request(request: web.Request, kind: type[T], example: str) -> T:
    try:
        return msgspec.json.decode(await read_body(request), type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as why:
        raise ApiError(400, "bad_request", f"Send {example}: {why}.") from None
