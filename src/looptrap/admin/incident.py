"""Incidents for operators: list, show, follow and annotate them."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from secrets import token_hex
from typing import Annotated, Any, TypedDict

import msgspec
from msgspec import Meta

from looptrap.admin.api import (
    CURSOR,
    LIMIT,
    ApiError,
    ApiRequest,
    HistoryUnavailableError,
    Instant,
    query_history,
    query_page,
)
from looptrap.admin.audit import ADMIN_NAME, record_change
from looptrap.admin.incident_view import (
    IncidentDetail,
    IncidentSummary,
    incident_detail,
    incident_summary,
)
from looptrap.admin.operation import Api, get, post, put, struct_body
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
            doc="open, closed, or both",
        ),
        Field(name="caller", kind=Text(), doc="of this caller only"),
        Field(name="project", kind=Text(), doc="of this project only"),
        Field(name="session", kind=Text(), doc="of this session only"),
        Field(name="rule", kind=Text(), doc="that this rule tripped"),
        Field(name="since", kind=Instant(), doc="with a call since then"),
        Field(name="label", kind=Choice(LABELS), doc="with this label"),
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
    """Incidents that changed, and the number to go on with."""

    incidents: list[IncidentSummary]
    last: int


class IncidentApi(Api):
    """Answers under `/api/v1/incidents`."""

    @get(INCIDENTS_PATH, "incidents, a page of them", parameters=LIST_PARAMETERS)
    async def _list(self, request: ApiRequest) -> IncidentPage:
        return await query_page(_page, self._app.desk.history, request.query)

    @get(f"{INCIDENTS_PATH}/changes", "incidents that changed since", parameters=CHANGES_PARAMETERS)
    async def _changes(self, request: ApiRequest) -> IncidentChanges:
        history, after = self._app.desk.history, request.query["after"]
        found: list[IncidentSummary] = []
        if after is not None:
            found, after = await query_history(
                incident_changes, history, after, request.query["limit"]
            )
        if not found:
            # Also of a history that began anew, whose changes are numbered from 1 again.
            latest = await query_history(history.last_change)
            after = latest if after is None else min(after, latest)
        return {"incidents": found, "last": after}

    @get(f"{INCIDENTS_PATH}/{{id}}", "one incident, with all of it", errors=(404,))
    async def _show(self, request: ApiRequest) -> IncidentDetail:
        return await _load_detail(self._app, await _find_incident(self._app, request.name))


def incident_changes(
    history: IncidentHistory, after: int, limit: int
) -> tuple[list[IncidentSummary], int]:
    """Return incidents that changed after that number, and the next one; waits for the disk."""
    found, last = history.changes(after, limit)
    return _summaries(history, found), last


async def _find_incident(app: App, wanted: str) -> Incident:
    """Return the incident of that id, or the only one whose id begins so."""
    found = await query_history(app.desk.history.incident, wanted)
    if found is None:
        raise ApiError(404, "not_found", UNKNOWN_INCIDENT)
    return found


async def _find_annotations(app: App, incident: Incident) -> Annotations:
    found = await query_history(app.desk.history.annotations, [incident.id])
    return found.get(incident.id, NO_ANNOTATIONS)


async def _load_detail(app: App, incident: Incident) -> IncidentDetail:
    """Return all that is known of an incident right now."""
    annotations = await _find_annotations(app, incident)
    until = await _cooldown_until(app, incident)
    return incident_detail(incident, annotations, app.gateway.runtime.config, until)


async def _cooldown_until(app: App, incident: Incident) -> float | None:
    """Return until when calls of an incident are refused; None where they may pass."""
    now = app.gateway.clock()
    try:
        left = await app.gateway.judge.cooldowns(incident.fingerprints, now)
    except (OSError, ValueError):  # not known while the store is away
        return None
    longest = max(left, default=0.0)
    return now + longest if longest > 0 else None


def _page(history: IncidentHistory, query: dict[str, Any]) -> IncidentPage:
    page = history.incidents(**query)
    return {"incidents": _summaries(history, page.items), "next": page.next_cursor}


def _summaries(history: IncidentHistory, found: Sequence[Incident]) -> list[IncidentSummary]:
    annotations = history.annotations(one.id for one in found)
    return [incident_summary(one, annotations.get(one.id, NO_ANNOTATIONS)) for one in found]


class AcknowledgeRequest(msgspec.Struct, forbid_unknown_fields=True):
    """Somebody takes care of an incident."""


class NoteRequest(msgspec.Struct, forbid_unknown_fields=True):
    """A note on an incident."""

    text: Annotated[str, Meta(min_length=1, max_length=MAX_NOTE_CHARS, pattern=r"\S")]


class LabelRequest(msgspec.Struct, forbid_unknown_fields=True):
    """Whether it was a loop; null removes the label."""

    label: Label | None


class AnnotationApi(Api):
    """Annotates incidents; answers with the incident as it is then."""

    @post(
        f"{INCIDENTS_PATH}/{{id}}/acknowledge",
        "says that somebody takes care of it",
        body=struct_body(AcknowledgeRequest, "{}"),
        errors=(404,),
    )
    async def _acknowledge(self, request: ApiRequest) -> IncidentDetail:
        incident = await _find_incident(self._app, request.name)
        if (await _find_annotations(self._app, incident)).acknowledged is None:
            await annotate(self._app, incident.id, "acknowledge")
            await record_change(self._app, request, "incident.acknowledge", incident.id)
        return await _load_detail(self._app, incident)

    @post(
        f"{INCIDENTS_PATH}/{{id}}/notes",
        "writes something down about it",
        body=struct_body(NoteRequest, '{"text": "…"}'),
        errors=(404, 409),
    )
    async def _note(self, request: ApiRequest) -> IncidentDetail:
        incident, text = await _find_incident(self._app, request.name), request.body.text
        if len((await _find_annotations(self._app, incident)).notes) >= MAX_NOTES:
            message = f"There are {MAX_NOTES} notes on this incident, and room for no more."
            raise ApiError(409, "too_many_notes", message)
        await annotate(self._app, incident.id, "note", text)
        await record_change(self._app, request, "incident.note", incident.id, after={"text": text})
        return await _load_detail(self._app, incident)

    @put(
        f"{INCIDENTS_PATH}/{{id}}/label",
        "says whether it was a loop",
        body=struct_body(LabelRequest, '{"label": "false_alarm"}'),
        errors=(404,),
    )
    async def _label(self, request: ApiRequest) -> IncidentDetail:
        incident, label = await _find_incident(self._app, request.name), request.body.label
        known = (await _find_annotations(self._app, incident)).label
        if label != known:
            await annotate(self._app, incident.id, "label", label or "")
            before, after = {"label": known}, {"label": label}
            await record_change(self._app, request, "incident.label", incident.id, before, after)
        return await _load_detail(self._app, incident)


async def annotate(app: App, incident: str, kind: AnnotationKind, text: str = "") -> None:
    """Keep an operator's annotation of an incident, for all instances."""
    annotation = Annotation(
        id=token_hex(8),
        incident=incident,
        time=app.gateway.clock(),
        by=ADMIN_NAME,
        kind=kind,
        text=text,
    )
    try:
        await app.desk.annotate(annotation)
    except (sqlite3.Error, OSError) as error:
        raise HistoryUnavailableError(error) from None
