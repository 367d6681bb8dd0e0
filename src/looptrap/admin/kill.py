"""Kill switches for operators: listed, set and ended while the gateway runs."""

from __future__ import annotations

from typing import Any

from aiohttp import web

from looptrap.admin.answer import Api, answer, error, mistakes, sent
from looptrap.admin.audit import record
from looptrap.config.claim import doubts_of
from looptrap.errors import ConfigError
from looptrap.gateway.agreement.kill import SetSwitch
from looptrap.policy.setting.policy import KILL_SWITCH

PATH = "/api/v1/kill-switches"


class KillSwitchApi(Api):
    """Answers under `/api/v1/kill-switches`."""

    def routes(self) -> list[web.RouteDef]:
        """Return what is answered, and how."""
        return [
            web.get(PATH, self._list),
            web.post(PATH, self._set),
            web.delete(PATH + "/{id}", self._end),
        ]

    async def _list(self, _request: web.Request) -> web.Response:
        of_file = [
            {"origin": "file", "id": None, **KILL_SWITCH.plain(one)}
            for one in self._app.config.kill_switches
        ]
        set_here = [_plain(one) for one in self._app.agreed.kill_switches.in_force()]
        return answer({"kill_switches": [*of_file, *set_here]})

    async def _set(self, request: web.Request) -> web.Response:
        given = await sent(request)
        try:
            one, is_shared = await self._app.agreed.kill_switches.add(given)
        except ConfigError as found:
            return mistakes(found)
        await record(self._app, request, "kill_switch.set", one.id, after=_plain(one))
        told: dict[str, Any] = {**_plain(one), "pending": not is_shared}
        names = [name for name, _ in one.switch.match]
        if warnings := list(doubts_of(names, "match", self._app.config.gateway.jwt)):
            told["warnings"] = warnings
        return answer(told, 201, Location=f"{PATH}/{one.id}")

    async def _end(self, request: web.Request) -> web.Response:
        switch_id, switches = request.match_info["id"], self._app.agreed.kill_switches
        before = next((_plain(one) for one in switches.in_force() if one.id == switch_id), None)
        is_shared = await switches.drop(switch_id)
        if is_shared is None:
            message = "No kill switch of this id was set at run time; the file's end with the file."
            return error(404, "not_found", message)
        await record(self._app, request, "kill_switch.end", switch_id, before)
        return answer({"ended": True, "pending": not is_shared})


def _plain(one: SetSwitch) -> dict[str, Any]:
    plain = KILL_SWITCH.plain(one.switch)
    return {"origin": "run_time", "id": one.id, "created": one.created, **plain}
