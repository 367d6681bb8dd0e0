"""Incidents for operators: list, show, follow and annotate them."""

from __future__ import annotations

from collections.abc import Sequence
from secrets import token_hex
from typing import Annotated, Any, NotRequired, TypedDict, get_args

import msgspec
from msgspec import Meta

from looptrap.admin.api import (
    CURSOR,
    LIMIT,
    ApiError,
    ApiRequest,
    Instant,
    field,
    fields,
    history_errors,
    iso_time,
    query_history,
    query_page,
    view_of,
)
from looptrap.admin.audit import operator_name, record_change
from looptrap.admin.incident_view import (
    IncidentDetail,
    IncidentSummary,
    incident_detail,
    incident_summary,
)
from looptrap.admin.operation import Api, get, post, put, struct_body
from looptrap.gateway.app import App
from looptrap.incident.history import IncidentHistory
from looptrap.incident.history.incident_table import (
    IncidentGrouping,
    IncidentOrder,
    IncidentState,
)
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
from looptrap.schema import Choice, Flag, Number, Text

INCIDENTS_PATH = "/api/v1/incidents"

FILTER_FIELDS = (
    field("state", Choice(get_args(IncidentState)), "open, closed, or both", "open"),
    field("caller", Text(), "of this caller only"),
    field("project", Text(), "of this project only"),
    field("session", Text(), "of this session only"),
    field("rule", Text(), "that this rule tripped"),
    field("model", Text(), "of this model only"),
    field("since", Instant(), "with a call since then"),
    field("until", Instant(), "opened before then"),
    field("label", Choice(LABELS), "with this label"),
    field("acknowledged", Flag(), "whether somebody takes care of them"),
    field("q", Text(), "a piece of their id, caller, session, rule or model"),
)
ORDER = field(
    "order",
    Choice(get_args(IncidentOrder)),
    "the latest opened, or the most expensive, frequent or saving first",
    "newest",
)

LIST_PARAMETERS = fields(
    *FILTER_FIELDS,
    ORDER,
    field("group", Choice(get_args(IncidentGrouping)), "list groups in place of incidents"),
    LIMIT,
    CURSOR,
)

CHANGES_PARAMETERS = fields(
    field("after", Number(low=0, high=1 << 62, whole=True), "where to go on"), LIMIT
)


class IncidentGroupView(TypedDict):
    """Incidents with the same caller, project, rule or model: how many, and their sums."""

    by: dict[str, str]
    incidents: int
    open: int
    callers: int
    opened: str
    last: str
    hits: int
    refused: int
    spent_usd: float | None
    saved_usd: float | None


class IncidentPage(TypedDict):
    """A page of incidents, or of groups of them, in the order asked for."""

    incidents: list[IncidentSummary]
    groups: NotRequired[list[IncidentGroupView]]
    next: str | None


class IncidentChanges(TypedDict):
    """Incidents that changed, and the number to go on with."""

    incidents: list[IncidentSummary]
    last: int


class AcknowledgeRequest(msgspec.Struct, forbid_unknown_fields=True):
    """Somebody takes care of an incident."""


class NoteRequest(msgspec.Struct, forbid_unknown_fields=True):
    """A note on an incident."""

    text: Annotated[str, Meta(min_length=1, max_length=MAX_NOTE_CHARS, pattern=r"\S")]


class LabelRequest(msgspec.Struct, forbid_unknown_fields=True):
    """Whether it was a loop; null removes the label."""

    label: Label | None


class IncidentApi(Api):
    """Answers under `/api/v1/incidents`; an annotation, with the incident as it is then."""

    @get(INCIDENTS_PATH, "incidents, a page of them", parameters=LIST_PARAMETERS)
    async def _list(self, request: ApiRequest) -> IncidentPage:
        return await query_page(_page, self._history, request.query)

    @get(f"{INCIDENTS_PATH}/changes", "incidents that changed since", parameters=CHANGES_PARAMETERS)
    async def _changes(self, request: ApiRequest) -> IncidentChanges:
        after, limit = request.query["after"], request.query["limit"]
        found: list[IncidentSummary] = []
        if after is not None:
            found, after = await query_history(incident_changes, self._history, after, limit)
        if not found:
            # Also of a history that began anew, whose changes are numbered from 1 again.
            latest = await query_history(self._history.last_change)
            after = latest if after is None else min(after, latest)
        return {"incidents": found, "last": after}

    @get(f"{INCIDENTS_PATH}/{{id}}", "one incident, with all of it", errors=(404,))
    async def _show(self, request: ApiRequest) -> IncidentDetail:
        return await _load_detail(self._app, await find_incident(self._app, request.name))

    @post(
        f"{INCIDENTS_PATH}/{{id}}/acknowledge",
        "says that somebody takes care of it",
        body=struct_body(AcknowledgeRequest, "{}"),
        errors=(404,),
    )
    async def _acknowledge(self, request: ApiRequest) -> IncidentDetail:
        incident, known = await self._find(request)
        if known.acknowledged is None:
            await self._annotate(request, incident.id, "acknowledge")
        return await _load_detail(self._app, incident)

    @post(
        f"{INCIDENTS_PATH}/{{id}}/notes",
        "writes something down about it",
        body=struct_body(NoteRequest, '{"text": "…"}'),
        errors=(404, 409),
    )
    async def _note(self, request: ApiRequest) -> IncidentDetail:
        (incident, known), text = await self._find(request), request.body.text
        if len(known.notes) >= MAX_NOTES:
            message = f"This incident has {MAX_NOTES} notes. No more can be added."
            raise ApiError(409, "too_many_notes", message)
        await self._annotate(request, incident.id, "note", text, after={"text": text})
        return await _load_detail(self._app, incident)

    @put(
        f"{INCIDENTS_PATH}/{{id}}/label",
        "says whether it was a loop",
        body=struct_body(LabelRequest, '{"label": "false_alarm"}'),
        errors=(404,),
    )
    async def _label(self, request: ApiRequest) -> IncidentDetail:
        (incident, known), label = await self._find(request), request.body.label
        if label != known.label:
            change = {"before": {"label": known.label}, "after": {"label": label}}
            await self._annotate(request, incident.id, "label", label or "", **change)
        return await _load_detail(self._app, incident)

    async def _find(self, request: ApiRequest) -> tuple[Incident, Annotations]:
        incident = await find_incident(self._app, request.name)
        return incident, await _find_annotations(self._app, incident)

    async def _annotate(
        self, request: ApiRequest, id: str, kind: AnnotationKind, text: str = "", **change: Any
    ) -> None:
        await annotate(self._app, request, id, kind, text)
        await record_change(self._app, request, f"incident.{kind}", id, **change)


def incident_changes(
    history: IncidentHistory, after: int, limit: int
) -> tuple[list[IncidentSummary], int]:
    """Return incidents that changed after that number, and the next one; waits for the disk."""
    found, last = history.changes(after, limit)
    return incident_summaries(history, found), last


async def find_incident(app: App, start: str) -> Incident:
    """Return the only incident whose id begins so."""
    found = await query_history(app.recorder.history.incident, start)
    if found is None:
        raise unknown_incident()
    return found


def unknown_incident() -> ApiError:
    """Return the error for an id that no incident has."""
    message = "No incident has this id, or more than one has an id that begins so."
    return ApiError(404, "not_found", message)


async def _find_annotations(app: App, incident: Incident) -> Annotations:
    found = await query_history(app.recorder.history.annotations, [incident.id])
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
    group = query.pop("group")
    if group is None:
        page = history.incidents(**query)
        return {"incidents": incident_summaries(history, page.items), "next": page.next_cursor}
    found = history.incident_groups(group, **query)
    return {
        "incidents": [],
        "groups": [
            view_of(IncidentGroupView, one, opened=iso_time(one.opened), last=iso_time(one.last))
            for one in found.items
        ],
        "next": found.next_cursor,
    }


def incident_summaries(
    history: IncidentHistory, found: Sequence[Incident]
) -> list[IncidentSummary]:
    """Return incidents as they are listed; waits for the disk."""
    annotations = history.annotations(one.id for one in found)
    return [incident_summary(one, annotations.get(one.id, NO_ANNOTATIONS)) for one in found]


async def annotate(
    app: App, request: ApiRequest, incident: str, kind: AnnotationKind, text: str = ""
) -> None:
    """Keep an operator's annotation of an incident, for all instances."""
    await annotate_all(app, request, [incident], kind, text)


async def annotate_all(
    app: App, request: ApiRequest, incidents: Sequence[str], kind: AnnotationKind, text: str = ""
) -> None:
    """Keep the same annotation of several incidents, for all instances."""
    now, by = app.gateway.clock(), operator_name(app, request)
    annotations = [
        Annotation(id=token_hex(8), incident=one, time=now, by=by, kind=kind, text=text)
        for one in incidents
    ]
    with history_errors():
        await app.recorder.annotate(annotations)
