"""The status for operators: what runs, for whom, and what is not as it should be."""

from __future__ import annotations

from typing import Literal, NotRequired, TypedDict

from aiohttp import web

from looptrap import __version__
from looptrap.admin.api import NO_PARAMETERS, Api, IsoTime, iso_time, json_response, read_parameters
from looptrap.admin.auth import MAY_WRITE
from looptrap.admin.budget import recent_balances
from looptrap.admin.health_notice import HealthNotice, health_notices
from looptrap.config import Config
from looptrap.config.kind import MEMORY, Address, StorePlace
from looptrap.gateway.app import App

STATUS_PATH = "/api/v1/status"

DetectionMode = Literal["enforce", "shadow", "mixed"]


class StoreView(TypedDict):
    """Who counts."""

    kind: Literal["memory", "redis"]
    is_degraded: bool
    address: NotRequired[str]


class HistoryView(TypedDict):
    """Where incidents and spending are kept, and whether they are."""

    path: str
    is_writing: bool
    failed: int
    lost: int


class WorkersView(TypedDict):
    """How many processes should serve, and do."""

    size: int
    serving: int


class IndicatorView(TypedDict):
    """What tends to come before an incident: its worst value."""

    name: str
    value: float
    threshold: float
    is_firing: bool


class SharedStatus(TypedDict):
    """The status, as everybody is told."""

    version: str
    started: IsoTime
    now: IsoTime
    mode: DetectionMode
    store: StoreView
    history: HistoryView
    draining: bool
    listen: str
    upstream: str | None
    notices: list[HealthNotice]
    indicators: list[IndicatorView]
    open_incidents: int
    capture: Literal["off", "digests", "content"]


class GatewayStatus(SharedStatus):
    """The status, as one operator is told."""

    workers: WorkersView | None
    can_write: bool


class StatusApi(Api):
    """Answers at `/api/v1/status`."""

    def routes(self) -> list[web.RouteDef]:
        """Return what is answered, and how."""
        return [web.get(STATUS_PATH, self._tell)]

    async def _tell(self, request: web.Request) -> web.Response:
        read_parameters(request, NO_PARAMETERS)
        told = await gateway_status(self._app)
        status: GatewayStatus = {**told, "workers": None, "can_write": request[MAY_WRITE]}
        return json_response(status)


async def gateway_status(app: App) -> SharedStatus:
    """Return the status of a gateway that has been started."""
    config, numbers = app.gateway.runtime.config, app.desk.numbers
    listen = app.listening[0][:2] if app.listening else None
    return {
        "version": __version__,
        "started": iso_time(app.started),
        "now": iso_time(app.gateway.clock()),
        "mode": detection_mode(config),
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
        "notices": health_notices(app, await recent_balances(app)),
        "indicators": _indicators(app),
        "open_incidents": numbers.open,
        "capture": config.capture,
    }


def detection_mode(config: Config) -> DetectionMode:
    """Say whether rules act on calls, only watch them, or some this and some that."""
    modes = {policy.mode for policy in config.policies if policy.rules or policy.rates}
    if any(project.detection == "shadow" for project in config.projects):
        modes.add("shadow")
    if len(modes) == 2:
        return "mixed"
    return "shadow" if modes == {"shadow"} else "enforce"


def _store(app: App) -> StoreView:
    if app.config.store == MEMORY:
        return {"kind": "memory", "is_degraded": False}
    return {
        "kind": "redis",
        "is_degraded": app.gateway.judge.is_degraded,
        "address": StorePlace().plain(app.config.store),
    }


def _indicators(app: App) -> list[IndicatorView]:
    thresholds = app.desk.indicators.thresholds
    return [
        {"name": name, "value": value, "threshold": thresholds[name], "is_firing": is_firing}
        for name, (value, is_firing) in app.desk.numbers.indicators.items()
    ]
