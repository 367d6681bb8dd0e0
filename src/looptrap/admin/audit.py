"""The audit for operators: changes made at the admin address."""

from __future__ import annotations

import asyncio
import logging
from typing import Any, TypedDict
from urllib.parse import unquote

from looptrap.admin.api import CURSOR, LIMIT, ApiRequest, fields, iso_time, query_page, view_of
from looptrap.admin.auth import ADMIN, OPERATOR
from looptrap.admin.operation import Api, get
from looptrap.errors import DatabaseError
from looptrap.gateway.app import App

SOURCE_HEADER, OPERATOR_HEADER = "X-Looptrap-Source", "X-Looptrap-Operator"
"""In which the listener of several workers names the client's address and the operator, escaped;
only that listener can reach a worker's."""

ENTRY_PARAMETERS = fields(LIMIT, CURSOR)

log = logging.getLogger("looptrap")


class AuditEntryView(TypedDict):
    """One change: who made it, from which address, and what was there before and after."""

    time: str
    by: str
    source: str
    what: str
    target: str
    before: Any
    after: Any


class AuditPage(TypedDict):
    """A page of changes, the latest first."""

    entries: list[AuditEntryView]
    next: str | None


class AuditApi(Api):
    """Answers at `/api/v1/audit`."""

    @get("/api/v1/audit", "who changed what", parameters=ENTRY_PARAMETERS)
    async def _list(self, request: ApiRequest) -> AuditPage:
        page = await query_page(self._history.audit.entries, **request.query)
        entries = [view_of(AuditEntryView, one, time=iso_time(one.time)) for one in page.items]
        return {"entries": entries, "next": page.next_cursor}


def operator_name(app: App, request: ApiRequest) -> str:
    """Return the name of the operator who sent a request."""
    if app.config.gateway.workers > 1:
        return unquote(request.http.headers.get(OPERATOR_HEADER, "")) or ADMIN.name
    return request.http[OPERATOR].name


async def record_change(
    app: App, request: ApiRequest, what: str, target: str, before: Any = None, after: Any = None
) -> None:
    """Add a change to the audit; a failure is logged, as the change has been made."""
    is_proxied = app.config.gateway.workers > 1
    source = (request.http.headers.get(SOURCE_HEADER) if is_proxied else request.http.remote) or ""
    by = operator_name(app, request)
    change = {"by": by, "source": source, "before": before, "after": after}
    try:
        await asyncio.to_thread(app.recorder.history.audit.add, what, target, **change)
    except (DatabaseError, OSError) as error:
        log.error("the audit lacks a %s: %s", what, error)
