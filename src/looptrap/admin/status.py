"""The status for operators: what runs, for whom, and what is not as it should be."""

from __future__ import annotations

from typing import Literal, NotRequired, TypedDict

from aiohttp import web

from looptrap import __version__
from looptrap.admin.answer import Api, answer
from looptrap.admin.budget import balances_of
from looptrap.admin.door import MAY_WRITE
from looptrap.admin.history import NOTHING, Iso, moment, parameters
from looptrap.admin.notice import Notice, notices_of
from looptrap.config import Config
from looptrap.config.kind import MEMORY, Address, StorePlace
from looptrap.gateway.app import App

PATH = "/api/v1/status"

ModeShown = Literal["enforce", "shadow", "mixed"]


class StoreShown(TypedDict):
    """Who counts."""

    kind: Literal["memory", "redis"]
    is_degraded: bool
    address: NotRequired[str]


class HistoryShown(TypedDict):
    """Where incidents and spending are kept, and whether they are."""

    path: str
    is_writing: bool
    failed: int
    lost: int


class WorkersShown(TypedDict):
    """How many processes should serve, and do."""

    size: int
    serving: int


class IndicatorShown(TypedDict):
    """What tends to come before an incident: its worst value."""

    name: str
    value: float
    threshold: float
    is_firing: bool


class Told(TypedDict):
    """The status, as everybody is told."""

    version: str
    started: Iso
    now: Iso
    mode: ModeShown
    store: StoreShown
    history: HistoryShown
    draining: bool
    listen: str
    upstream: str | None
    notices: list[Notice]
    indicators: list[IndicatorShown]
    open_incidents: int
    capture: Literal["off", "digests", "content"]


class Status(Told):
    """The status, as one operator is told."""

    workers: WorkersShown | None
    can_write: bool


class StatusApi(Api):
    """Answers at `/api/v1/status`."""

    def routes(self) -> list[web.RouteDef]:
        """Return what is answered, and how."""
        return [web.get(PATH, self._tell)]

    async def _tell(self, request: web.Request) -> web.Response:
        parameters(request, NOTHING)
        told = await status_of(self._app)
        status: Status = {**told, "workers": None, "can_write": request[MAY_WRITE]}
        return answer(status)


async def status_of(app: App) -> Told:
    """Return the status of a gateway that has been started."""
    config, numbers = app.gateway.runtime.config, app.desk.numbers
    listen = app.listening[0][:2] if app.listening else None
    return {
        "version": __version__,
        "started": moment(app.started),
        "now": moment(app.gateway.clock()),
        "mode": mode_of(config),
        "store": _store(app),
        "history": {
            "path": app.config.history,
            "is_writing": not app.desk.writer.is_stuck,
            "failed": numbers.failed,
            "lost": numbers.lost,
        },
        "draining": app.server.draining,
        "listen": str(Address(*listen) if listen else config.gateway.listen),
        "upstream": config.gateway.upstream,
        "notices": notices_of(app, await balances_of(app)),
        "indicators": _indicators(app),
        "open_incidents": numbers.open,
        "capture": config.capture,
    }


def mode_of(config: Config) -> ModeShown:
    """Say whether rules act on calls, only watch them, or some this and some that."""
    modes = {policy.mode for policy in config.policies if policy.rules or policy.rates}
    if any(project.detection == "shadow" for project in config.projects):
        modes.add("shadow")
    if len(modes) == 2:
        return "mixed"
    return "shadow" if modes == {"shadow"} else "enforce"


def _store(app: App) -> StoreShown:
    if app.config.store == MEMORY:
        return {"kind": "memory", "is_degraded": False}
    return {
        "kind": "redis",
        "is_degraded": app.gateway.judge.is_degraded,
        "address": StorePlace().plain(app.config.store),
    }


def _indicators(app: App) -> list[IndicatorShown]:
    thresholds = app.desk.indicators.thresholds
    return [
        {"name": name, "value": value, "threshold": thresholds[name], "is_firing": is_firing}
        for name, (value, is_firing) in app.desk.numbers.indicators.items()
    ]
