"""Many incidents at once, for operators: acknowledge them, close them, export them."""

from __future__ import annotations

import asyncio
import csv
import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal, TypedDict

import msgspec
from aiohttp import web

from looptrap.admin.api import ApiError, ApiRequest, field, fields, query_history
from looptrap.admin.audit import record_change
from looptrap.admin.incident import (
    FILTER_FIELDS,
    INCIDENTS_PATH,
    ORDER,
    annotate_all,
    incident_summaries,
)
from looptrap.admin.incident_view import IncidentSummary
from looptrap.admin.operation import Api, get, post, table_body
from looptrap.errors import Problem
from looptrap.incident.history.incident_table import IncidentFilter
from looptrap.schema import Flag, Listing, Text

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

FILTER = fields(*FILTER_FIELDS)


def _target_problems(given: Mapping[str, Any]) -> Iterator[Problem]:
    if ("ids" in given) == ("filter" in given):
        yield Problem("", "needs either ids or filter: which incidents to change")
    if len(given.get("ids") or ()) > MAX_CHANGED:
        yield Problem("ids", f"has more than {MAX_CHANGED:,} ids: send them in several requests")


BULK_FIELDS = fields(
    field("ids", Listing(Text(), "ids"), "these incidents"),
    field("filter", FILTER, "all incidents that match, as the list takes it"),
    field("dry_run", Flag(), "change nothing, and say what would be changed", False),
    check=_target_problems,
)

EXPORT_PARAMETERS = fields(*FILTER_FIELDS, ORDER)


class BulkChange(TypedDict):
    """How many incidents there were to change, of how many callers, and how many were changed."""

    matching: int
    callers: int
    changed: int


class IncidentBulkApi(Api):
    """Answers under `/api/v1/incidents` for many of them."""

    @post(
        f"{INCIDENTS_PATH}/bulk/acknowledge",
        "says that somebody takes care of them",
        body=table_body(BULK_FIELDS),
    )
    async def _acknowledge(self, request: ApiRequest) -> BulkChange:
        wanted = _wanted(request.body)
        is_any = wanted.get("acknowledged") is not True
        return await self._change(request, "acknowledge", is_any, {**wanted, "acknowledged": False})

    @post(
        f"{INCIDENTS_PATH}/bulk/close",
        "ends them before they are quiet",
        body=table_body(BULK_FIELDS),
    )
    async def _close(self, request: ApiRequest) -> BulkChange:
        wanted = _wanted(request.body)
        is_any = wanted.get("state") != "closed"
        return await self._change(request, "close", is_any, {**wanted, "state": "open"})

    async def _change(
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
                await annotate_all(self._app, request, some, kind)
            await self._record(request, kind, ids)
        return {"matching": total.incidents, "callers": total.callers, "changed": len(ids)}

    async def _record(self, request: ApiRequest, kind: str, ids: Sequence[str]) -> None:
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


def _wanted(body: Mapping[str, Any]) -> IncidentFilter:
    if body["ids"] is not None:
        return {"state": "all", "ids": body["ids"]}
    wanted: IncidentFilter = body["filter"]
    return wanted


def _slices(ids: Sequence[str], size: int) -> Iterator[Sequence[str]]:
    return (ids[start : start + size] for start in range(0, len(ids), size))


CSV_COLUMNS = (
    "id", "state", "opened", "last", "closed", "caller", "project", "session", "agent", "model",
    "provider", "mode", "policy", "rule", "signal", "action", "tool", "hits", "calls", "refused",
    "input_tokens", "output_tokens", "saved_tokens", "spent_usd", "saved_usd", "acknowledged",
    "label", "message",
)  # fmt: skip

FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")
"""Characters with which spreadsheets begin a formula, or skip before one."""


def csv_pieces(pages: Iterator[list[IncidentSummary]]) -> Iterator[bytes]:
    """Yield a CSV file in pieces; no text in it is read as a formula."""
    yield _csv_lines([CSV_COLUMNS])
    for page in pages:
        yield _csv_lines([[_csv_cell(one, name) for name in CSV_COLUMNS] for one in page])


def _csv_lines(rows: Sequence[Sequence[object]]) -> bytes:
    text = io.StringIO()
    csv.writer(text).writerows(rows)
    return text.getvalue().encode()


def _csv_cell(incident: Mapping[str, Any], name: str) -> object:
    value = incident[name]
    if name == "acknowledged" and value is not None:
        value = value["time"]
    if isinstance(value, str) and value.startswith(FORMULA_STARTS):
        return f"'{value}"  # clients choose names: a spreadsheet must not run them
    return value


def json_pieces(pages: Iterator[list[IncidentSummary]]) -> Iterator[bytes]:
    """Yield a JSON array in pieces, an incident a line."""
    lead = b"["
    for page in pages:
        for_page = b",\n".join(map(msgspec.json.encode, page))
        yield lead + for_page
        lead = b",\n"
    yield b"[]\n" if lead == b"[" else b"]\n"
