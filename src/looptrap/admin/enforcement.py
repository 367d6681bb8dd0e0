"""Enforcement for operators: cooldowns, releases, kill switches."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any, Literal, NotRequired, TypedDict, cast

import msgspec

from looptrap.admin.api import (
    MAX_PAGE_SIZE,
    ApiError,
    ApiRequest,
    HistoryUnavailableError,
    IsoTime,
    iso_time,
    query_history,
)
from looptrap.admin.audit import record_change
from looptrap.admin.incident import UNKNOWN_INCIDENT, annotate
from looptrap.admin.json_schema import Schema, kind_schema, nullable, table_schema
from looptrap.admin.operation import Api, delete, get, json_body, post, struct_body, table_body
from looptrap.config.claim import doubts_of
from looptrap.gateway.shared_settings.kill_switch import RuntimeKillSwitch
from looptrap.incident.model import Incident
from looptrap.policy.policy import KILL_SWITCH
from looptrap.schema import Field, Number, Table, Text

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
            doc="from now on, at least",
        ),
    ],
)

UNKNOWN_FINGERPRINT = "No open incident was refused under this fingerprint."


class CooldownView(TypedDict):
    """A refused fingerprint, until when, and because of which incident."""

    fingerprint: str
    until: IsoTime
    left_seconds: float
    incident: str
    caller: str
    rule: str
    message: str


class CooldownList(TypedDict):
    """What is refused now, of the latest open incidents."""

    cooldowns: list[CooldownView]


class ExtendedCooldown(TypedDict):
    """The new end of a cooldown; `pending` while only this instance knows it."""

    until: IsoTime
    pending: bool


class CooldownApi(Api):
    """Answers at `/api/v1/cooldowns`."""

    @get(COOLDOWNS_PATH, "what is refused right now")
    async def _list(self, _request: ApiRequest) -> CooldownList:
        refused = await self._refused()
        now = self._app.gateway.clock()
        left = await self._app.gateway.judge.cooldowns(refused, now)
        pairs = zip(refused.items(), left, strict=True)
        found = [
            _cooldown_view(name, one, seconds, now) for (name, one), seconds in pairs if seconds > 0
        ]
        return {"cooldowns": sorted(found, key=lambda one: -one["left_seconds"])}

    @post(
        COOLDOWNS_PATH,
        "refuses something for longer",
        body=table_body(EXTEND_FIELDS),
        errors=(404,),
    )
    async def _extend(self, request: ApiRequest) -> ExtendedCooldown:
        name, seconds = request.body["fingerprint"], request.body["seconds"]
        incident = (await self._refused()).get(name)
        if incident is None:
            raise ApiError(404, "not_found", UNKNOWN_FINGERPRINT)
        judge, now = self._app.gateway.judge, self._app.gateway.clock()
        judge.extend(name, seconds, incident.count, now)
        [left] = await judge.cooldowns([name], now)
        await record_change(self._app, request, "cooldown.extend", name, after={"seconds": seconds})
        return {"until": iso_time(now + left), "pending": judge.is_degraded}

    async def _refused(self) -> dict[str, Incident]:
        """Return the latest open incidents by the fingerprints they were refused under."""
        history = self._app.desk.history
        page = await query_history(history.incidents, state="open", limit=MAX_PAGE_SIZE)
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
    """The new kill switch; `pending` while only this instance knows it."""

    pending: bool
    warnings: NotRequired[list[str]]


class KillSwitchEnded(TypedDict):
    """Whether a kill switch was ended."""

    ended: bool
    pending: bool


class KillSwitchApi(Api):
    """Answers under `/api/v1/kill-switches`."""

    @get(KILL_SWITCHES_PATH, "kill switches in force")
    async def _list(self, _request: ApiRequest) -> KillSwitchList:
        of_file = [
            cast(KillSwitchView, {"origin": "file", "id": None, **KILL_SWITCH.plain(one)})
            for one in self._app.config.kill_switches
        ]
        runtime = [_kill_switch_view(one) for one in self._app.agreed.kill_switches.in_force()]
        return {"kill_switches": [*of_file, *runtime]}

    @post(
        KILL_SWITCHES_PATH,
        "sets a kill switch",
        status=201,
        body=json_body(table_schema(KILL_SWITCH)),
    )
    async def _set(self, request: ApiRequest) -> KillSwitchCreated:
        one, is_shared = await self._app.agreed.kill_switches.add(request.body)
        view = _kill_switch_view(one)
        await record_change(self._app, request, "kill_switch.set", one.id, after=view)
        created = cast(KillSwitchCreated, {**view, "pending": not is_shared})
        names = [name for name, _ in one.switch.match]
        if warnings := list(doubts_of(names, "match", self._app.config.gateway.jwt)):
            created["warnings"] = warnings
        request.response_headers["Location"] = f"{KILL_SWITCHES_PATH}/{one.id}"
        return created

    @delete(
        f"{KILL_SWITCHES_PATH}/{{id}}",
        "ends a kill switch that was set at run time",
        errors=(404,),
    )
    async def _end(self, request: ApiRequest) -> KillSwitchEnded:
        switches = self._app.agreed.kill_switches
        known = {one.id: _kill_switch_view(one) for one in switches.in_force()}
        is_shared = await switches.drop(request.name)
        if is_shared is None:
            message = "No kill switch of this id was set at run time; the file's end with the file."
            raise ApiError(404, "not_found", message)
        before = known.get(request.name)
        await record_change(self._app, request, "kill_switch.end", request.name, before)
        return {"ended": True, "pending": not is_shared}


def _kill_switch_view(one: RuntimeKillSwitch) -> KillSwitchView:
    plain = KILL_SWITCH.plain(one.switch)
    view = {"origin": "run_time", "id": one.id, "created": one.created, **plain}
    return cast(KillSwitchView, view)


RELEASE_FORMS = '{"fingerprint": "1-…"}, {"caller": "key:ci"} or {"incident": "inc_…"}'


STRING: Schema = {"type": "string"}
NULL: Schema = {"type": "null"}


def _target(name: str, schema: Schema, **others: Schema) -> Schema:
    """Return the schema of an object that names a target, and possibly others."""
    return {
        "type": "object",
        "properties": {name: schema, **others},
        "required": [name],
        "additionalProperties": False,
    }


RELEASE_SCHEMA: Schema = {
    "anyOf": [
        _target("fingerprint", kind_schema(FINGERPRINT_KIND), caller=NULL, incident=NULL),
        _target("caller", STRING, incident=nullable(STRING), fingerprint=NULL),
        _target("incident", STRING, caller=nullable(STRING), fingerprint=NULL),
    ]
}


class ReleaseTarget(msgspec.Struct, forbid_unknown_fields=True):
    """Which refused calls to let pass."""

    fingerprint: str | None = None
    caller: str | None = None
    incident: str | None = None

    def __post_init__(self) -> None:
        of_incidents = self.caller is not None or self.incident is not None
        if (self.fingerprint is not None) == of_incidents:
            raise ValueError("one of them is needed")


class ReleaseResult(TypedDict):
    """Whether a fingerprint was known, or how many of an incident or a caller were."""

    released: bool | int
    fingerprints: NotRequired[list[str]]


class ReleaseApi(Api):
    """Answers at `/api/v1/release`."""

    @post(
        "/api/v1/release",
        "lets refused calls pass",
        body=struct_body(ReleaseTarget, RELEASE_FORMS, RELEASE_SCHEMA),
        errors=(404,),
    )
    async def _release(self, request: ApiRequest) -> ReleaseResult:
        wanted: ReleaseTarget = request.body
        if wanted.fingerprint is not None:
            try:
                released = await self._release_all([wanted.fingerprint])
            except ValueError as error:
                message = f"Send {RELEASE_FORMS}: {error}."
                raise ApiError(400, "bad_request", message) from None
            await self._record(request, released)
            return {"released": bool(released)}
        incidents = await self._find_incidents(wanted)
        names = dict.fromkeys(name for one in incidents for name in one.fingerprints)
        released = await self._release_all(names)
        await self._record(request, released)
        return {"released": len(released), "fingerprints": released}

    async def _record(self, request: ApiRequest, released: Sequence[str]) -> None:
        """Add a release to the audit and to the incidents; it stands even if that fails."""
        given = msgspec.structs.asdict(request.body)
        target = " ".join(f"{name}={value}" for name, value in given.items() if value)
        await record_change(self._app, request, "release", target, after={"released": released})
        with suppress(HistoryUnavailableError):
            under = self._app.desk.history.refused_under
            found = [await query_history(under, one) for one in released]
            for incident in sorted({one for some in found for one in some}):
                await annotate(self._app, incident, "release")

    async def _release_all(self, names: Iterable[str]) -> list[str]:
        """Release fingerprints; return those under which something was refused."""
        now, release = time.time(), self._app.gateway.judge.release
        names = list(names)
        known = await asyncio.gather(*(release(name, now) for name in names))
        return [name for name, is_known in zip(names, known, strict=True) if is_known]

    async def _find_incidents(self, wanted: ReleaseTarget) -> list[Incident]:
        """Return the incident of an id, or all open ones of a caller."""
        history = self._app.desk.history
        if wanted.incident is not None:
            one = await query_history(history.incident, wanted.incident)
            if one is None or wanted.caller not in (None, one.caller):
                raise ApiError(404, "not_found", UNKNOWN_INCIDENT)
            return [one]
        found: list[Incident] = []
        cursor: str | None = None
        while True:
            page = await query_history(
                history.incidents,
                state="open",
                caller=wanted.caller,
                limit=MAX_PAGE_SIZE,
                cursor=cursor,
            )
            found += page.items
            cursor = page.next_cursor
            if cursor is None:
                return found
