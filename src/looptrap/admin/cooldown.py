"""Cooldowns for operators: what is refused right now, and for how long; and for longer."""

from __future__ import annotations

from functools import partial
from typing import Any, TypedDict

from aiohttp import web

from looptrap.admin.answer import Api, answer, error, mistakes, sent
from looptrap.admin.audit import record
from looptrap.admin.history import MOST, NOTHING, Iso, ask, moment, parameters
from looptrap.errors import ConfigError
from looptrap.incident.model import Incident
from looptrap.schema import Field, Number, Table, Text, read

PATH = "/api/v1/cooldowns"

FINGERPRINT = Text(form="a fingerprint, as an incident has it", pattern=r"1h?-[0-9a-f]{32}")

LONGEST = 86_400

EXTENDED: Table[dict[str, Any]] = Table(
    build=dict,
    fields=[
        Field(name="fingerprint", kind=FINGERPRINT, required=True, doc="what is refused"),
        Field(
            name="seconds",
            kind=Number(low=1, high=LONGEST, unit="seconds"),
            required=True,
            doc="from now on, for so long at least",
        ),
    ],
)

UNKNOWN = "No open incident was refused under this fingerprint."


class CooldownShown(TypedDict):
    """What is refused, until when, and because of which incident."""

    fingerprint: str
    until: Iso
    left_seconds: float
    incident: str
    caller: str
    rule: str
    message: str


class Cooldowns(TypedDict):
    """What is refused right now, of the latest open incidents."""

    cooldowns: list[CooldownShown]


class Extended(TypedDict):
    """Until when it is refused; `pending` while only this instance can know of it."""

    until: Iso
    pending: bool


class CooldownApi(Api):
    """Answers at `/api/v1/cooldowns`."""

    def routes(self) -> list[web.RouteDef]:
        """Return what is answered, and how."""
        return [web.get(PATH, self._list), web.post(PATH, self._extend)]

    async def _list(self, request: web.Request) -> web.Response:
        parameters(request, NOTHING)
        refused = await self._refused()
        now = self._app.gateway.clock()
        left = await self._app.gateway.judge.cooldowns(refused, now)
        pairs = zip(refused.items(), left, strict=True)
        found = [_shown(name, one, seconds, now) for (name, one), seconds in pairs if seconds > 0]
        told: Cooldowns = {"cooldowns": sorted(found, key=lambda one: -one["left_seconds"])}
        return answer(told)

    async def _extend(self, request: web.Request) -> web.Response:
        try:
            wanted = read(EXTENDED, await sent(request))
        except ConfigError as found:
            return mistakes(found)
        name = wanted["fingerprint"]
        incident = (await self._refused()).get(name)
        if incident is None:
            return error(404, "not_found", UNKNOWN)
        judge, now = self._app.gateway.judge, self._app.gateway.clock()
        judge.extend(name, wanted["seconds"], incident.count, now)
        [left] = await judge.cooldowns([name], now)
        seconds = {"seconds": wanted["seconds"]}
        await record(self._app, request, "cooldown.extend", name, after=seconds)
        told: Extended = {"until": moment(now + left), "pending": judge.is_degraded}
        return answer(told)

    async def _refused(self) -> dict[str, Incident]:
        """Return what open incidents were refused under lately; of very many, the latest."""
        history = self._app.desk.history
        page = await ask(partial(history.incidents, state="open", limit=MOST))
        return {name: one for one in reversed(page.items) for name in one.fingerprints}


def _shown(name: str, incident: Incident, left: float, now: float) -> CooldownShown:
    return {
        "fingerprint": name,
        "until": moment(now + left),
        "left_seconds": round(left, 3),
        "incident": incident.id,
        "caller": incident.caller,
        "rule": incident.rule,
        "message": incident.message,
    }
