"""Incidents for operators: list, show, follow, export and annotate them, one or many at once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from secrets import token_hex
from typing import Annotated, Any, Literal, NotRequired, TypedDict, get_args

import msgspec
from aiohttp import web
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
    csv_pieces,
    incident_detail,
    incident_summary,
    json_pieces,
)
from looptrap.admin.operation import Api, get, post, put, struct_body, table_body
from looptrap.errors import Problem
from looptrap.gateway.app import App
from looptrap.incident.history import IncidentHistory
from looptrap.incident.history.incident_table import (
    IncidentFilter,
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
from looptrap.schema import Choice, Flag, Listing, Number, Text

INCIDENTS_PATH = "/api/v1/incidents"

MAX_CHANGED = 5_000
"""Incidents that one request changes; the answer says how many are left."""

CHANGED_AT_A_TIME = 500
"""Incidents changed in one transaction: the history has other writers."""

MAX_AUDITED_IDS = 200
"""Ids in the audit; of more, their number and the filter."""

MAX_EXPORTED = 100_000
EXPORTED_AT_A_TIME = 500

WRITE_TIMEOUT_S = 30.0
"""Seconds for a client to take the next piece of an export."""

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


def _target_problems(given: Mapping[str, Any]) -> Iterator[Problem]:
    if ("ids" in given) == ("filter" in given):
        yield Problem("", "needs either ids or filter: which incidents to change")
    if len(given.get("ids") or ()) > MAX_CHANGED:
        yield Problem("ids", f"has more than {MAX_CHANGED:,} ids: send them in several requests")


BULK_FIELDS = fields(
    field("ids", Listing(Text(), "ids"), "these incidents"),
    field("filter", fields(*FILTER_FIELDS), "all incidents that match, as the list takes it"),
    field("dry_run", Flag(), "change nothing, and say what would be changed", False),
    check=_target_problems,
)

EXPORT_PARAMETERS = fields(*FILTER_FIELDS, ORDER)


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


class BulkChange(TypedDict):
    """How many incidents there were to change, of how many callers, and how many were changed."""

    matching: int
    callers: int
    changed: int


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

    @post(
        f"{INCIDENTS_PATH}/bulk/acknowledge",
        "says that somebody takes care of them",
        body=table_body(BULK_FIELDS),
    )
    async def _acknowledge_all(self, request: ApiRequest) -> BulkChange:
        wanted = _wanted(request.body)
        is_any = wanted.get("acknowledged") is not True
        return await self._annotate_all(
            request, "acknowledge", is_any, {**wanted, "acknowledged": False}
        )

    @post(
        f"{INCIDENTS_PATH}/bulk/close",
        "ends them before they are quiet",
        body=table_body(BULK_FIELDS),
    )
    async def _close_all(self, request: ApiRequest) -> BulkChange:
        wanted = _wanted(request.body)
        is_any = wanted.get("state") != "closed"
        return await self._annotate_all(request, "close", is_any, {**wanted, "state": "open"})

    async def _annotate_all(
        self,
        request: ApiRequest,
        kind: Literal["acknowledge", "close"],
        is_any: bool,
        wanted: IncidentFilter,
    ) -> BulkChange:
        """Annotate the incidents that match and are not annotated so yet."""
        found = await query_history(self._history.incident_groups, "all", **wanted)
        if not is_any or not found.items:
            return {"matching": 0, "callers": 0, "changed": 0}
        [total] = found.items
        ids: list[str] = []
        if not request.body["dry_run"]:
            ids = await query_history(self._history.incident_ids, MAX_CHANGED, **wanted)
            for some in _slices(ids, CHANGED_AT_A_TIME):
                await annotate(self._app, request, some, kind)
            await self._record_all(request, kind, ids)
        return {"matching": total.incidents, "callers": total.callers, "changed": len(ids)}

    async def _record_all(self, request: ApiRequest, kind: str, ids: Sequence[str]) -> None:
        given = request.body["filter"]
        after: dict[str, Any] = {"changed": len(ids)}
        if given is not None:
            after["filter"] = {
                one.name: one.kind.plain(given[one.name])
                for one in FILTER_FIELDS
                if given[one.name] is not None
            }
        if len(ids) <= MAX_AUDITED_IDS:
            after["ids"] = ids
        target = ids[0] if len(ids) == 1 else f"{len(ids):,} incidents"
        await record_change(self._app, request, f"incident.{kind}", target, after=after)

    @get(
        f"{INCIDENTS_PATH}/export.csv",
        "incidents as a spreadsheet",
        parameters=EXPORT_PARAMETERS,
        answer=str,
        content_type="text/csv",
        errors=(422,),
    )
    async def _export_csv(self, request: ApiRequest) -> web.StreamResponse:
        return await self._export(request, "text/csv; charset=utf-8", "csv", csv_pieces)

    @get(
        f"{INCIDENTS_PATH}/export.json",
        "incidents as one JSON array",
        parameters=EXPORT_PARAMETERS,
        answer=list[IncidentSummary],
        errors=(422,),
    )
    async def _export_json(self, request: ApiRequest) -> web.StreamResponse:
        return await self._export(request, "application/json", "json", json_pieces)

    async def _export(
        self,
        request: ApiRequest,
        content_type: str,
        ending: str,
        pieces: Callable[[Iterator[list[IncidentSummary]]], Iterator[bytes]],
    ) -> web.StreamResponse:
        history = self._history
        ids = await query_history(history.incident_ids, MAX_EXPORTED + 1, **request.query)
        if len(ids) > MAX_EXPORTED:
            message = f"More than {MAX_EXPORTED:,} incidents match: narrow it by since and until."
            raise ApiError(422, "too_many", message)
        response = web.StreamResponse(
            headers={
                "Content-Type": content_type,
                "Content-Disposition": f'attachment; filename="incidents.{ending}"',
                "Cache-Control": "no-store",
            }
        )
        reading = (
            incident_summaries(history, history.incidents_of(some))
            for some in _slices(ids, EXPORTED_AT_A_TIME)
        )
        written = pieces(reading)
        await response.prepare(request.http)
        try:
            while (piece := await query_history(next, written, None)) is not None:
                async with asyncio.timeout(WRITE_TIMEOUT_S):
                    await response.write(piece)
        except (TimeoutError, ApiError):
            # What was sent is not the whole: the client must notice.
            raise ConnectionResetError("an export ended early") from None
        await response.write_eof()
        return response

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
        await annotate(self._app, request, [id], kind, text)
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


def _wanted(body: Mapping[str, Any]) -> IncidentFilter:
    if body["ids"] is not None:
        return {"state": "all", "ids": body["ids"]}
    wanted: IncidentFilter = body["filter"]
    return wanted


def _slices(ids: Sequence[str], size: int) -> Iterator[Sequence[str]]:
    return (ids[start : start + size] for start in range(0, len(ids), size))
