"""The status for operators: what runs, and what is not as it should be."""

from __future__ import annotations

from typing import Literal, NotRequired, TypedDict

from looptrap import __version__
from looptrap.admin.api import ApiRequest, IsoTime, iso_time
from looptrap.admin.auth import MAY_WRITE
from looptrap.admin.budget import recent_balances
from looptrap.admin.health_notice import HealthNotice, health_notices
from looptrap.admin.operation import Api, get
from looptrap.config import Config
from looptrap.config.kind import MEMORY, Address, StorePlace
from looptrap.gateway.app import App

STATUS_PATH = "/api/v1/status"

DetectionMode = Literal["enforce", "shadow", "mixed"]


class StoreView(TypedDict):
    """The store that counts."""

    kind: Literal["memory", "redis"]
    is_degraded: bool
    address: NotRequired[str]


class HistoryView(TypedDict):
    """The history of incidents and spending, and whether it can be written."""

    path: str
    is_writing: bool
    failed: int
    lost: int


class WorkersView(TypedDict):
    """Configured and serving workers."""

    size: int
    serving: int


class IndicatorView(TypedDict):
    """A leading indicator: its worst value."""

    name: str
    value: float
    threshold: float
    is_firing: bool


class SharedStatus(TypedDict):
    """The part of the status that is the same for every operator."""

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
    """The status for one operator."""

    workers: WorkersView | None
    can_write: bool


class StatusApi(Api):
    """Answers at `/api/v1/status`."""

    @get(STATUS_PATH, "what runs, and what is not as it should be")
    async def _show(self, request: ApiRequest) -> GatewayStatus:
        status = await gateway_status(self._app)
        return {**status, "workers": None, "can_write": request.http[MAY_WRITE]}


async def gateway_status(app: App) -> SharedStatus:
    """Return the status of a gateway that has been started."""
    config, numbers = app.gateway.runtime.config, app.desk.stats
    listen = app.listening[0][:2] if app.listening else None
    return {
        "version": __version__,
        "started": iso_time(app.started),
        "now": iso_time(app.gateway.clock()),
        "mode": detection_mode(config),
        "store": _store(app),
        "history": {
            "path": app.config.history,
            "is_writing": not app.desk.writer.is_failing,
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
    """Say whether policies enforce, only watch, or some of each."""
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
        for name, (value, is_firing) in app.desk.stats.indicators.items()
    ]
