"""Releases: calls that are refused may pass again, one fingerprint or all of an incident."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import partial

import msgspec
from aiohttp import web

from looptrap.admin.answer import Api, answer, body_of, error
from looptrap.admin.audit import record
from looptrap.admin.history import MOST, HistoryUnavailable, ask
from looptrap.admin.incident import UNKNOWN
from looptrap.admin.remark import say
from looptrap.call.content import UNREADABLE
from looptrap.incident.model import Incident

PATH = "/api/v1/release"

FORMS = '{"fingerprint": "1-…"}, {"caller": "key:ci"} or {"incident": "inc_…"}'


class ReleaseApi(Api):
    """Answers at `/api/v1/release`."""

    def routes(self) -> list[web.RouteDef]:
        """Return what is answered, and how."""
        return [web.post(PATH, self._release)]

    async def _release(self, request: web.Request) -> web.Response:
        body = await body_of(request)
        try:
            wanted = msgspec.json.decode(body, type=_Wanted)
            if wanted.fingerprint is not None:
                released = await self._app.gateway.judge.release(wanted.fingerprint, time.time())
                await self._remember(request, wanted, [wanted.fingerprint] if released else [])
                return web.json_response({"released": released})
        except UNREADABLE as why:
            return error(400, "bad_request", f"Send {FORMS}: {why}.")
        found = await self._incidents(wanted)
        if found is None:
            return error(404, "not_found", UNKNOWN)
        names = list(dict.fromkeys(name for one in found for name in one.fingerprints))
        known = await self._all(names)
        await self._remember(request, wanted, known)
        return answer({"released": len(known), "fingerprints": known})

    async def _remember(
        self, request: web.Request, wanted: _Wanted, released: Sequence[str]
    ) -> None:
        """Write down what was released, for the incidents too; also where it cannot be, it was."""
        given = {name: value for name, value in msgspec.structs.asdict(wanted).items() if value}
        target = " ".join(f"{name}={value}" for name, value in given.items())
        await record(self._app, request, "release", target, after={"released": released})
        with suppress(HistoryUnavailable):
            under = self._app.desk.history.refused_under
            found = [await ask(partial(under, one)) for one in released]
            for incident in sorted({one for some in found for one in some}):
                await say(self._app, incident, "release")

    async def _all(self, names: Iterable[str]) -> list[str]:
        """Release fingerprints; return those under which something was refused."""
        now, release = time.time(), self._app.gateway.judge.release
        names = list(names)
        known = await asyncio.gather(*(release(name, now) for name in names))
        return [name for name, is_known in zip(names, known, strict=True) if is_known]

    async def _incidents(self, wanted: _Wanted) -> list[Incident] | None:
        """Return the incidents that are meant; None where there is no such one."""
        history = self._app.desk.history
        if wanted.incident is not None:
            one = await ask(partial(history.incident, wanted.incident))
            is_theirs = one is not None and wanted.caller in (None, one.caller)
            return [one] if one is not None and is_theirs else None
        found: list[Incident] = []
        cursor: str | None = None
        while True:
            page = await ask(
                partial(
                    history.incidents,
                    state="open",
                    caller=wanted.caller,
                    limit=MOST,
                    cursor=cursor,
                )
            )
            found += page.items
            cursor = page.next_cursor
            if cursor is None:
                return found


class _Wanted(msgspec.Struct, forbid_unknown_fields=True):
    fingerprint: str | None = None
    caller: str | None = None
    incident: str | None = None

    def __post_init__(self) -> None:
        of_incidents = self.caller is not None or self.incident is not None
        if (self.fingerprint is not None) == of_incidents:
            raise ValueError("one of them is needed")
