"""The audit for operators: who changed what at this address, and what it was before."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from functools import partial
from typing import Any, TypedDict

from aiohttp import web

from looptrap.admin.api import (
    CURSOR,
    LIMIT,
    Api,
    bad_cursor_response,
    iso_time,
    json_response,
    query_history,
    read_parameters,
)
from looptrap.gateway.app import App
from looptrap.incident.history.audit import AuditEntry
from looptrap.schema import Table

AUDIT_PATH = "/api/v1/audit"

ADMIN_NAME = "admin"
"""Whoever may change something: the address knows one token for that, and no names."""

SOURCE_HEADER = "X-Looptrap-Source"
"""In which the listener of several workers says who asks; nobody else reaches a worker's own."""

ENTRY_PARAMETERS: Table[dict[str, Any]] = Table(build=dict, fields=[LIMIT, CURSOR])

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

    def routes(self) -> list[web.RouteDef]:
        """Return what is answered, and how."""
        return [web.get(AUDIT_PATH, self._list)]

    async def _list(self, request: web.Request) -> web.Response:
        wanted = read_parameters(request, ENTRY_PARAMETERS)
        try:
            page = await query_history(partial(self._app.desk.history.audit.entries, **wanted))
        except ValueError:
            return bad_cursor_response()
        told: AuditPage = {"entries": list(map(_shown, page.items)), "next": page.next_cursor}
        return json_response(told)


async def record_change(
    app: App, request: web.Request, what: str, target: str, before: Any = None, after: Any = None
) -> None:
    """Write down a change that was made; it has been, also where that cannot be written."""
    add = partial(
        app.desk.history.audit.add,
        what,
        target,
        by=ADMIN_NAME,
        source=_source(app, request),
        before=before,
        after=after,
    )
    try:
        await asyncio.to_thread(add)
    except (sqlite3.Error, OSError) as error:
        log.error("the audit lacks a %s: %s", what, error)


def _source(app: App, request: web.Request) -> str:
    is_passed_on = app.config.gateway.workers > 1
    return (request.headers.get(SOURCE_HEADER) if is_passed_on else request.remote) or ""


def _shown(entry: AuditEntry) -> AuditEntryView:
    return {
        "time": iso_time(entry.time),
        "by": entry.by,
        "source": entry.source,
        "what": entry.what,
        "target": entry.target,
        "before": entry.before,
        "after": entry.after,
    }
