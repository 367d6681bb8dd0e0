"""What is refused right now, for operators: cooldowns, releases, kill switches."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Literal, NotRequired, TypedDict

import msgspec
from aiohttp import web

from looptrap.admin.api import (
    MAX_PAGE_SIZE,
    NO_PARAMETERS,
    Api,
    HistoryUnavailable,
    IsoTime,
    error_response,
    iso_time,
    json_response,
    problems_response,
    query_history,
    read_body,
    read_json,
    read_parameters,
)
from looptrap.admin.audit import record_change
from looptrap.admin.incident import UNKNOWN_INCIDENT, annotate
from looptrap.config.claim import doubts_of
from looptrap.dialect.content import UNREADABLE
from looptrap.errors import ConfigError
from looptrap.gateway.shared_settings.kill_switch import RuntimeKillSwitch
from looptrap.incident.model import Incident
from looptrap.policy.setting.policy import KILL_SWITCH
from looptrap.schema import Field, Number, Table, Text, read

COOLDOWNS_PATH = "/api/v1/cooldowns"

FINGERPRINT_KIND = Text(form="a fingerprint, as an incident has it", pattern=r"1h?-[0-9a-f]{32}")

MAX_COOLDOWN_S = 86_400

EXTEND_FIELDS: Table[dict[str, Any]] = Table(
    build=dict,
    fields=[
        Field(name="fingerprint", kind=FINGERPRINT_KIND, required=True, doc="what is refused"),
        Field(
            name="seconds",
            kind=Number(low=1, high=MAX_COOLDOWN_S, unit="seconds"),
            required=True,
            doc="from now on, for so long at least",
        ),
    ],
)

UNKNOWN_FINGERPRINT = "No open incident was refused under this fingerprint."


class CooldownView(TypedDict):
    """What is refused, until when, and because of which incident."""

    fingerprint: str
    until: IsoTime
    left_seconds: float
    incident: str
    caller: str
    rule: str
    message: str


class CooldownList(TypedDict):
    """What is refused right now, of the latest open incidents."""

    cooldowns: list[CooldownView]


class ExtendedCooldown(TypedDict):
    """Until when it is refused; `pending` while only this instance can know of it."""

    until: IsoTime
    pending: bool


class CooldownApi(Api):
    """Answers at `/api/v1/cooldowns`."""

    def routes(self) -> list[web.RouteDef]:
        """Return what is answered, and how."""
        return [web.get(COOLDOWNS_PATH, self._list), web.post(COOLDOWNS_PATH, self._extend)]

    async def _list(self, request: web.Request) -> web.Response:
        read_parameters(request, NO_PARAMETERS)
        refused = await self._refused()
        now = self._app.gateway.clock()
        left = await self._app.gateway.judge.cooldowns(refused, now)
        pairs = zip(refused.items(), left, strict=True)
        found = [
            _cooldown_view(name, one, seconds, now) for (name, one), seconds in pairs if seconds > 0
        ]
        told: CooldownList = {"cooldowns": sorted(found, key=lambda one: -one["left_seconds"])}
        return json_response(told)

    async def _extend(self, request: web.Request) -> web.Response:
        try:
            wanted = read(EXTEND_FIELDS, await read_json(request))
        except ConfigError as found:
            return problems_response(found)
        name = wanted["fingerprint"]
        incident = (await self._refused()).get(name)
        if incident is None:
            return error_response(404, "not_found", UNKNOWN_FINGERPRINT)
        judge, now = self._app.gateway.judge, self._app.gateway.clock()
        judge.extend(name, wanted["seconds"], incident.count, now)
        [left] = await judge.cooldowns([name], now)
        seconds = {"seconds": wanted["seconds"]}
        await record_change(self._app, request, "cooldown.extend", name, after=seconds)
        told: ExtendedCooldown = {"until": iso_time(now + left), "pending": judge.is_degraded}
        return json_response(told)

    async def _refused(self) -> dict[str, Incident]:
        """Return what open incidents were refused under lately; of very many, the latest."""
        history = self._app.desk.history
        page = await query_history(partial(history.incidents, state="open", limit=MAX_PAGE_SIZE))
        return {name: one for one in reversed(page.items) for name in one.fingerprints}


def _cooldown_view(name: str, incident: Incident, left: float, now: float) -> CooldownView:
    return {
        "fingerprint": name,
        "until": iso_time(now + left),
        "left_seconds": round(left, 3),
        "incident": incident.id,
        "caller": incident.caller,
        "rule": incident.rule,
        "message": incident.message,
    }


KILL_SWITCHES_PATH = "/api/v1/kill-switches"


class KillSwitchApi(Api):
    """Answers under `/api/v1/kill-switches`."""

    def routes(self) -> list[web.RouteDef]:
        """Return what is answered, and how."""
        return [
            web.get(KILL_SWITCHES_PATH, self._list),
            web.post(KILL_SWITCHES_PATH, self._set),
            web.delete(KILL_SWITCHES_PATH + "/{id}", self._end),
        ]

    async def _list(self, _request: web.Request) -> web.Response:
        of_file = [
            {"origin": "file", "id": None, **KILL_SWITCH.plain(one)}
            for one in self._app.config.kill_switches
        ]
        set_here = [_kill_switch_view(one) for one in self._app.agreed.kill_switches.in_force()]
        return json_response({"kill_switches": [*of_file, *set_here]})

    async def _set(self, request: web.Request) -> web.Response:
        given = await read_json(request)
        try:
            one, is_shared = await self._app.agreed.kill_switches.add(given)
        except ConfigError as found:
            return problems_response(found)
        await record_change(
            self._app, request, "kill_switch.set", one.id, after=_kill_switch_view(one)
        )
        told: dict[str, Any] = {**_kill_switch_view(one), "pending": not is_shared}
        names = [name for name, _ in one.switch.match]
        if warnings := list(doubts_of(names, "match", self._app.config.gateway.jwt)):
            told["warnings"] = warnings
        return json_response(told, 201, Location=f"{KILL_SWITCHES_PATH}/{one.id}")

    async def _end(self, request: web.Request) -> web.Response:
        switch_id, switches = request.match_info["id"], self._app.agreed.kill_switches
        before = next(
            (_kill_switch_view(one) for one in switches.in_force() if one.id == switch_id), None
        )
        is_shared = await switches.drop(switch_id)
        if is_shared is None:
            message = "No kill switch of this id was set at run time; the file's end with the file."
            return error_response(404, "not_found", message)
        await record_change(self._app, request, "kill_switch.end", switch_id, before)
        return json_response({"ended": True, "pending": not is_shared})


def _kill_switch_view(one: RuntimeKillSwitch) -> dict[str, Any]:
    plain = KILL_SWITCH.plain(one.switch)
    return {"origin": "run_time", "id": one.id, "created": one.created, **plain}


RELEASE_PATH = "/api/v1/release"

RELEASE_FORMS = '{"fingerprint": "1-…"}, {"caller": "key:ci"} or {"incident": "inc_…"}'


class ReleaseApi(Api):
    """Answers at `/api/v1/release`."""

    def routes(self) -> list[web.RouteDef]:
        """Return what is answered, and how."""
        return [web.post(RELEASE_PATH, self._release)]

    async def _release(self, request: web.Request) -> web.Response:
        body = await read_body(request)
        try:
            wanted = msgspec.json.decode(body, type=_ReleaseRequest)
            if wanted.fingerprint is not None:
                released = await self._app.gateway.judge.release(wanted.fingerprint, time.time())
                await self._remember(request, wanted, [wanted.fingerprint] if released else [])
                return web.json_response({"released": released})
        except UNREADABLE as why:
            return error_response(400, "bad_request", f"Send {RELEASE_FORMS}: {why}.")
        found = await self._incidents(wanted)
        if found is None:
            return error_response(404, "not_found", UNKNOWN_INCIDENT)
        names = list(dict.fromkeys(name for one in found for name in one.fingerprints))
        known = await self._all(names)
        await self._remember(request, wanted, known)
        return json_response({"released": len(known), "fingerprints": known})

    async def _remember(
        self, request: web.Request, wanted: _ReleaseRequest, released: Sequence[str]
    ) -> None:
        """Write down what was released, for the incidents too; also where it cannot be, it was."""
        given = {name: value for name, value in msgspec.structs.asdict(wanted).items() if value}
        target = " ".join(f"{name}={value}" for name, value in given.items())
        await record_change(self._app, request, "release", target, after={"released": released})
        with suppress(HistoryUnavailable):
            under = self._app.desk.history.refused_under
            found = [await query_history(partial(under, one)) for one in released]
            for incident in sorted({one for some in found for one in some}):
                await annotate(self._app, incident, "release")

    async def _all(self, names: Iterable[str]) -> list[str]:
        """Release fingerprints; return those under which something was refused."""
        now, release = time.time(), self._app.gateway.judge.release
        names = list(names)
        known = await asyncio.gather(*(release(name, now) for name in names))
        return [name for name, is_known in zip(names, known, strict=True) if is_known]

    async def _incidents(self, wanted: _ReleaseRequest) -> list[Incident] | None:
        """Return the incidents that are meant; None where there is no such one."""
        history = self._app.desk.history
        if wanted.incident is not None:
            one = await query_history(partial(history.incident, wanted.incident))
            is_theirs = one is not None and wanted.caller in (None, one.caller)
            return [one] if one is not None and is_theirs else None
        found: list[Incident] = []
        cursor: str | None = None
        while True:
            page = await query_history(
                partial(
                    history.incidents,
                    state="open",
                    caller=wanted.caller,
                    limit=MAX_PAGE_SIZE,
                    cursor=cursor,
                )
            )
            found += page.items
            cursor = page.next_cursor
            if cursor is None:
                return found


class _ReleaseRequest(msgspec.Struct, forbid_unknown_fields=True):
    fingerprint: str | None = None
    caller: str | None = None
    incident: str | None = None

    def __post_init__(self) -> None:
        of_incidents = self.caller is not None or self.incident is not None
        if (self.fingerprint is not None) == of_incidents:
            raise ValueError("one of them is needed")


class KillSwitchView(TypedDict):
    """A kill switch: whom it refuses, why, and until when."""

    origin: Literal["file", "run_time"]
    id: str | None
    match: dict[str, str]
    reason: str
    created: NotRequired[IsoTime]
    expires: NotRequired[IsoTime]
    path_exact: NotRequired[str]
    path_prefix: NotRequired[str]


class KillSwitchList(TypedDict):
    """The kill switches of the file, and those set at run time that are in force."""

    kill_switches: list[KillSwitchView]


class KillSwitchCreated(KillSwitchView):
    """The kill switch that was set; `pending` while only this instance can know of it."""

    pending: bool
    warnings: NotRequired[list[str]]


class KillSwitchEnded(TypedDict):
    """That a kill switch was ended."""

    ended: bool
    pending: bool


class ReleaseResult(TypedDict):
    """Whether a fingerprint was known, or how many of an incident or a caller were."""

    released: bool | int
    fingerprints: NotRequired[list[str]]
