"""Incidents for operators: listed, shown with all that is known, and followed as they change."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, TypedDict

from aiohttp import web

from looptrap.admin.answer import Api, answer, error
from looptrap.admin.history import CURSOR, LIMIT, Instant, ask, parameters, wrong_cursor
from looptrap.admin.incident_view import IncidentListed, IncidentShown, listed, shown
from looptrap.gateway.app import App
from looptrap.incident.history import History
from looptrap.incident.model import Incident
from looptrap.incident.remark import LABELS, NO_REMARKS
from looptrap.schema import Choice, Field, Flag, Number, Table, Text

PATH = "/api/v1/incidents"

UNKNOWN = "No incident has this id, or more than one has an id that begins so."

LISTED: Table[dict[str, Any]] = Table(
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

CHANGED: Table[dict[str, Any]] = Table(
    build=dict,
    fields=[
        Field(name="after", kind=Number(low=0, high=1 << 62, whole=True), doc="where to go on"),
        LIMIT,
    ],
)


class IncidentsShown(TypedDict):
    """A page of incidents, the latest opened first."""

    incidents: list[IncidentListed]
    next: str | None


class ChangesShown(TypedDict):
    """What changed, and the number to go on with."""

    incidents: list[IncidentListed]
    last: int


class IncidentApi(Api):
    """Answers under `/api/v1/incidents`."""

    def routes(self) -> list[web.RouteDef]:
        """Return what is answered, and how."""
        return [
            web.get(PATH, self._list),
            web.get(PATH + "/changes", self._changes),
            web.get(PATH + "/{id}", self._show),
        ]

    async def _list(self, request: web.Request) -> web.Response:
        wanted = parameters(request, LISTED)
        try:
            return answer(await ask(partial(_page, self._app.desk.history, wanted)))
        except ValueError:
            return wrong_cursor()

    async def _show(self, request: web.Request) -> web.Response:
        found = await incident_of(self._app, request.match_info["id"])
        if found is None:
            return error(404, "not_found", UNKNOWN)
        return answer(await shown_to_operator(self._app, found))

    async def _changes(self, request: web.Request) -> web.Response:
        wanted = parameters(request, CHANGED)
        history, after = self._app.desk.history, wanted["after"]
        found: list[IncidentListed] = []
        if after is not None:
            found, after = await ask(partial(changes, history, after, wanted["limit"]))
        if not found:
            # Also of a history that began anew, whose changes are numbered from 1 again.
            latest = await ask(history.last_change)
            after = latest if after is None else min(after, latest)
        told: ChangesShown = {"incidents": found, "last": after}
        return answer(told)


def changes(history: History, after: int, limit: int) -> tuple[list[IncidentListed], int]:
    """Return what changed after that number, and the number to go on with; waits for the disk."""
    found, last = history.changes(after, limit)
    return _all(history, found), last


async def incident_of(app: App, wanted: str) -> Incident | None:
    """Return the incident of that id, or the only one whose id begins so."""
    return await ask(partial(app.desk.history.incident, wanted))


async def shown_to_operator(app: App, incident: Incident) -> IncidentShown:
    """Return all that is known of an incident right now."""
    remarks = await ask(partial(app.desk.history.remarks, [incident.id]))
    until = await _cooldown_until(app, incident)
    config = app.gateway.runtime.config
    return shown(incident, remarks.get(incident.id, NO_REMARKS), config, until)


async def _cooldown_until(app: App, incident: Incident) -> float | None:
    """Return until when calls of an incident are refused; None where they may pass."""
    now = app.gateway.clock()
    try:
        left = await app.gateway.judge.cooldowns(incident.fingerprints, now)
    except (OSError, ValueError):  # nobody knows while the store is away
        return None
    longest = max(left, default=0.0)
    return now + longest if longest > 0 else None


def _page(history: History, wanted: dict[str, Any]) -> IncidentsShown:
    page = history.incidents(**wanted)
    return {"incidents": _all(history, page.items), "next": page.next_cursor}


def _all(history: History, found: Sequence[Incident]) -> list[IncidentListed]:
    remarks = history.remarks(one.id for one in found)
    return [listed(one, remarks.get(one.id, NO_REMARKS)) for one in found]
