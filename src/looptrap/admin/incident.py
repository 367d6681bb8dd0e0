"""Incidents for operators: listed, shown with their steps, and followed as they change."""

from __future__ import annotations

from functools import partial
from typing import Any

import msgspec
from aiohttp import web

from looptrap.admin.answer import answer, error
from looptrap.admin.history import CURSOR, LIMIT, Instant, ask, moment, parameters, wrong_cursor
from looptrap.gateway.app import App
from looptrap.incident.model import Incident
from looptrap.schema import Choice, Field, Number, Table, Text

PATH = "/api/v1/incidents"

UNKNOWN = "No incident has this id, or more than one has an id that begins so."

TIMES = ("opened", "last", "closed", "alarmed")

INSIDE = ("key", "steps", "answered", "cost", "priced", "refused_tokens", "estimate", "estimated")
"""What is of use only to tell other things from it, or shown elsewhere."""

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


class IncidentApi:
    """Answers under `/api/v1/incidents`."""

    def __init__(self, app: App) -> None:
        self._app = app

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
            page = await ask(partial(self._app.desk.history.incidents, **wanted))
        except ValueError:
            return wrong_cursor()
        return answer({"incidents": list(map(_listed, page.items)), "next": page.next_cursor})

    async def _show(self, request: web.Request) -> web.Response:
        wanted = request.match_info["id"]
        found = await ask(partial(self._app.desk.history.incident, wanted))
        return error(404, "not_found", UNKNOWN) if found is None else answer(_shown(found))

    async def _changes(self, request: web.Request) -> web.Response:
        wanted = parameters(request, CHANGED)
        history, after = self._app.desk.history, wanted["after"]
        found: list[Incident] = []
        if after is not None:
            found, after = await ask(partial(history.changes, after, wanted["limit"]))
        if not found:
            # Also of a history that began anew, whose changes are numbered from 1 again.
            latest = await ask(history.last_change)
            after = latest if after is None else min(after, latest)
        return answer({"incidents": list(map(_listed, found)), "last": after})


def _listed(incident: Incident) -> dict[str, Any]:
    # Every field, also one that has its default and is left out where it is kept.
    told = msgspec.structs.asdict(incident)
    for name in INSIDE:
        del told[name]
    for name in TIMES:
        told[name] = moment(told[name])
    return {
        "id": told.pop("id"),
        "state": "open" if incident.closed is None else "closed",
        "instances": told.pop("instance").split(", "),
        "saved_tokens": incident.saved_tokens,
        "spent_usd": incident.spent_usd,
        "saved_usd": incident.saved_usd,
        "projected_usd_an_hour": incident.projected_usd_an_hour,
        # As rules counted it, or as it was seen, whichever is more.
        "hits": max(incident.calls + incident.before, incident.count),
        **told,
    }


def _shown(incident: Incident) -> dict[str, Any]:
    steps = [msgspec.structs.asdict(one) | {"time": moment(one.time)} for one in incident.steps]
    return {**_listed(incident), "steps": steps}
