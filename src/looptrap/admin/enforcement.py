"""Enforcement for operators: cooldowns, releases, kill switches."""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import Sequence
from contextlib import suppress
from itertools import compress
from typing import Literal, NotRequired, TypedDict, cast

import msgspec

from looptrap.admin.api import (
    CURSOR,
    LIMIT,
    MAX_PAGE_SIZE,
    ApiError,
    ApiRequest,
    HistoryUnavailableError,
    IsoTime,
    all_items,
    field,
    fields,
    iso_time,
    query_history,
    query_page,
    view_of,
)
from looptrap.admin.audit import record_change
from looptrap.admin.incident import annotate, find_incident, unknown_incident
from looptrap.admin.operation import (
    Api,
    Schema,
    delete,
    get,
    json_body,
    kind_schema,
    nullable,
    object_schema,
    post,
    struct_body,
    table_body,
)
from looptrap.config.check import claim_warnings
from looptrap.database.database import Page
from looptrap.gateway.shared_settings.runtime_override import RuntimeKillSwitch
from looptrap.incident.history.incident_table import cursor_of
from looptrap.incident.model import Incident
from looptrap.policy.policy import KILL_SWITCH
from looptrap.schema import Number, Text
from looptrap.schema.wording import toml_table

COOLDOWNS_PATH = "/api/v1/cooldowns"
KILL_SWITCHES_PATH = "/api/v1/kill-switches"

FINGERPRINT_KIND = Text(form="a fingerprint, as an incident has it", pattern=r"1h?-[0-9a-f]{32}")

MAX_COOLDOWN_S = 86_400

SECONDS_KIND = Number(low=1, high=MAX_COOLDOWN_S, unit="seconds")

COOLDOWN_PARAMETERS = fields(LIMIT, CURSOR)

MAX_SCANNED_PAGES = 4
"""Pages of open incidents that one request reads; most of them may refuse nothing."""

EXTEND_FIELDS = fields(
    field("fingerprint", FINGERPRINT_KIND, "what is refused", required=True),
    field("seconds", SECONDS_KIND, "from now on, at least", required=True),
)


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
    """What is refused now: a page of open incidents, the latest opened first."""

    cooldowns: list[CooldownView]
    next: str | None


class ExtendedCooldown(TypedDict):
    """The new end of a cooldown; `pending` while only this instance knows it."""

    until: IsoTime
    pending: bool


class KillSwitchView(TypedDict):
    """A kill switch: whom it refuses, why, and until when."""

    origin: Literal["file", "run_time"]
    id: str | None
    match: dict[str, str]
    reason: str
    created: NotRequired[IsoTime]
    toml: NotRequired[str]
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


RELEASE_FORMS = '{"fingerprint": "1-…"}, {"caller": "key:ci"} or {"incident": "inc_…"}'


def _release_schema() -> Schema:
    """Return the schema of one target, or of a caller and an incident together."""
    string, null, fingerprint = {"type": "string"}, {"type": "null"}, kind_schema(FINGERPRINT_KIND)
    of_fingerprint = {"fingerprint": fingerprint, "caller": null, "incident": null}
    of_caller = {"caller": string, "incident": nullable(string), "fingerprint": null}
    of_incident = {"incident": string, "caller": nullable(string), "fingerprint": null}
    targets = (of_fingerprint, of_caller, of_incident)
    return {"anyOf": [object_schema(target, list(target)[:1]) for target in targets]}


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


class EnforcementApi(Api):
    """Answers at `/api/v1/cooldowns`, `/api/v1/release` and under `/api/v1/kill-switches`."""

    @get(COOLDOWNS_PATH, "what is refused right now", parameters=COOLDOWN_PARAMETERS)
    async def _list_cooldowns(self, request: ApiRequest) -> CooldownList:
        limit, cursor = request.query["limit"], request.query["cursor"]
        found: dict[str, list[CooldownView]] = {}
        for _ in range(MAX_SCANNED_PAGES):
            page = await query_page(
                self._history.incidents, state="open", limit=MAX_PAGE_SIZE, cursor=cursor
            )
            in_force = await self._in_force(page.items)
            for one in page.items:
                if one.id in in_force:
                    found[one.id] = in_force[one.id]
                    if len(found) == limit:
                        page = Page([], cursor_of(one.opened, one.id))
                        break
            cursor = page.next_cursor
            if cursor is None or len(found) == limit:
                break
        return {"cooldowns": [one for some in found.values() for one in some], "next": cursor}

    async def _in_force(self, incidents: Sequence[Incident]) -> dict[str, list[CooldownView]]:
        """Return the cooldowns of incidents that are not over, by incident."""
        # The latest incident of a fingerprint has its cooldown.
        refused = {name: one for one in reversed(incidents) for name in one.fingerprints}
        now = self._now()
        left = await self._app.gateway.judge.cooldowns(refused, now)
        found: dict[str, list[CooldownView]] = defaultdict(list)
        for (name, one), seconds in zip(refused.items(), left, strict=True):
            if seconds > 0:
                view = view_of(
                    CooldownView,
                    one,
                    fingerprint=name,
                    until=iso_time(now + seconds),
                    left_seconds=round(seconds, 3),
                    incident=one.id,
                )
                found[one.id].append(view)
        return found

    @post(
        COOLDOWNS_PATH,
        "refuses something for longer",
        body=table_body(EXTEND_FIELDS),
        errors=(404,),
    )
    async def _extend_cooldown(self, request: ApiRequest) -> ExtendedCooldown:
        name, seconds = request.body["fingerprint"], request.body["seconds"]
        found = await query_history(self._history.refused_under, name)
        if not found:
            message = "No open incident was refused under this fingerprint."
            raise ApiError(404, "not_found", message)
        judge, now = self._app.gateway.judge, self._now()
        [incident, *_] = await query_history(self._history.incidents_of, found)
        judge.extend(name, seconds, incident.count, now)
        [left] = await judge.cooldowns([name], now)
        await record_change(self._app, request, "cooldown.extend", name, after={"seconds": seconds})
        return {"until": iso_time(now + left), "pending": judge.is_degraded}

    @get(KILL_SWITCHES_PATH, "kill switches in force")
    async def _list_kill_switches(self, _request: ApiRequest) -> KillSwitchList:
        of_file = [
            cast(KillSwitchView, {"origin": "file", "id": None, **KILL_SWITCH.plain(one)})
            for one in self._app.config.kill_switches
        ]
        runtime = [
            _kill_switch_view(one) for one in self._app.shared_settings.kill_switches.in_force()
        ]
        return {"kill_switches": [*of_file, *runtime]}

    @post(KILL_SWITCHES_PATH, "sets a kill switch", status=201, body=json_body(KILL_SWITCH))
    async def _set_kill_switch(self, request: ApiRequest) -> KillSwitchCreated:
        one, is_shared = await self._app.shared_settings.kill_switches.add(request.body)
        view = _kill_switch_view(one)
        after = {name: value for name, value in view.items() if name != "toml"}
        await record_change(self._app, request, "kill_switch.set", one.id, after=after)
        created = cast(KillSwitchCreated, {**view, "pending": not is_shared})
        names = [name for name, _ in one.switch.match]
        if warnings := list(claim_warnings(names, "match", self._app.config.gateway.jwt)):
            created["warnings"] = warnings
        request.response_headers["Location"] = f"{KILL_SWITCHES_PATH}/{one.id}"
        return created

    @delete(
        f"{KILL_SWITCHES_PATH}/{{id}}",
        "ends a kill switch that was set at run time",
        errors=(404,),
    )
    async def _end_kill_switch(self, request: ApiRequest) -> KillSwitchEnded:
        switches = self._app.shared_settings.kill_switches
        known = {one.id: _kill_switch_view(one) for one in switches.in_force()}
        is_shared = await switches.drop(request.name)
        if is_shared is None:
            message = "No kill switch of this id was set at run time; the file's end with the file."
            raise ApiError(404, "not_found", message)
        before = known.get(request.name)
        await record_change(self._app, request, "kill_switch.end", request.name, before)
        return {"ended": True, "pending": not is_shared}

    @post(
        "/api/v1/release",
        "lets refused calls pass",
        body=struct_body(ReleaseTarget, RELEASE_FORMS, _release_schema()),
        errors=(404,),
    )
    async def _release(self, request: ApiRequest) -> ReleaseResult:
        target: ReleaseTarget = request.body
        if target.fingerprint is not None:
            names = [target.fingerprint]
        else:
            found = await self._find_incidents(target)
            names = list(dict.fromkeys(name for one in found for name in one.fingerprints))
        now, release = time.time(), self._app.gateway.judge.release
        try:
            is_known = await asyncio.gather(*(release(name, now) for name in names))
        except ValueError as error:
            raise ApiError(400, "bad_request", f"Send {RELEASE_FORMS}: {error}.") from None
        released = list(compress(names, is_known))
        await self._record_release(request, released)
        if target.fingerprint is not None:
            return {"released": bool(released)}
        return {"released": len(released), "fingerprints": released}

    async def _record_release(self, request: ApiRequest, released: Sequence[str]) -> None:
        """Add a release to the audit and to the incidents; it stands even if that fails."""
        targets = msgspec.structs.asdict(request.body)
        target = " ".join(f"{name}={value}" for name, value in targets.items() if value)
        await record_change(self._app, request, "release", target, after={"released": released})
        with suppress(HistoryUnavailableError):
            found = [await query_history(self._history.refused_under, one) for one in released]
            for incident in sorted({one for some in found for one in some}):
                await annotate(self._app, request, [incident], "release")

    async def _find_incidents(self, target: ReleaseTarget) -> list[Incident]:
        """Return the incident of an id, or all open ones of a caller."""
        if target.incident is not None:
            one = await find_incident(self._app, target.incident)
            if target.caller not in (None, one.caller):
                raise unknown_incident()
            return [one]
        pages = all_items(self._history.incidents, state="open", caller=target.caller)
        return await query_history(list, pages)


def _kill_switch_view(one: RuntimeKillSwitch) -> KillSwitchView:
    plain = KILL_SWITCH.plain(one.switch)
    toml = toml_table("[[kill_switches]]", plain)
    view = {"origin": "run_time", "id": one.id, "created": one.created, "toml": toml, **plain}
    return cast(KillSwitchView, view)
