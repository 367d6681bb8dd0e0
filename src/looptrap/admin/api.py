"""The admin listener: health, metrics, the dashboard, and what else there is to ask."""

from __future__ import annotations

import logging

from aiohttp import web
from aiohttp.typedefs import Handler

from looptrap.admin.alert import AlertApi
from looptrap.admin.answer import error, in_words
from looptrap.admin.audit import AuditApi
from looptrap.admin.budget import BudgetApi
from looptrap.admin.config import ConfigApi
from looptrap.admin.cooldown import CooldownApi
from looptrap.admin.door import HEADERS, Door
from looptrap.admin.event import EventApi
from looptrap.admin.history import NOTHING, parameters
from looptrap.admin.incident import IncidentApi
from looptrap.admin.key import KeyApi
from looptrap.admin.kill import KillSwitchApi
from looptrap.admin.metrics import exposition
from looptrap.admin.openapi import OpenApi, takes_parameters
from looptrap.admin.page import is_page
from looptrap.admin.page import routes as page_routes
from looptrap.admin.patience import Patience
from looptrap.admin.policy import PolicyApi
from looptrap.admin.project import ProjectApi
from looptrap.admin.provider import ProviderApi
from looptrap.admin.release import ReleaseApi
from looptrap.admin.remark import RemarkApi
from looptrap.admin.spending import SpendingApi
from looptrap.admin.stats import StatsApi
from looptrap.admin.status import StatusApi
from looptrap.admin.tool import ToolApi
from looptrap.admin.try_it import TryApi, roomy
from looptrap.admin.what_if import WhatIfApi
from looptrap.config.kind import Address
from looptrap.errors import ConfigError, Problem
from looptrap.gateway.app import App

APIS = (
    StatusApi, StatsApi, SpendingApi, ProviderApi, KeyApi, ConfigApi, PolicyApi, BudgetApi,
    IncidentApi, RemarkApi, CooldownApi, ReleaseApi, KillSwitchApi, ProjectApi, ToolApi, AlertApi,
    AuditApi, EventApi, WhatIfApi, TryApi, OpenApi,
)  # fmt: skip
"""All that answers under `/api/v1`."""

PATIENCE = Patience()

LARGEST = 1 << 20
"""Bytes of a request's body, but for texts that are tried."""

log = logging.getLogger("looptrap")


class Admin:
    """Serves operators of one gateway."""

    def __init__(
        self,
        app: App,
        address: Address,
        token: str = "",
        read_token: str = "",
        *,
        patience: Patience = PATIENCE,
    ) -> None:
        self._app = app
        self._patience = patience
        self._address = address
        self._door = Door(address.host, token, read_token)
        self._runner: web.AppRunner | None = None

    async def start(self) -> tuple[str, int]:
        """Listen; return the address, with the port found for 0."""
        application = web.Application(middlewares=[self._guard], client_max_size=LARGEST)
        application.on_response_prepare.append(_protect)
        apis = [api(self._app) for api in APIS]
        # Streams end before those who have asked for something else are waited for.
        application.on_shutdown.extend(api.close for api in apis if isinstance(api, EventApi))
        application.add_routes(
            [
                web.get("/livez", self._livez),
                web.get("/readyz", self._readyz),
                web.get("/metrics", self._metrics),
                *page_routes(),
                *(route for api in apis for route in api.routes()),
            ]
        )
        idle = self._patience.idle
        self._runner = web.AppRunner(application, access_log=None, keepalive_timeout=idle)
        await self._runner.setup()
        site = web.TCPSite(self._runner, self._address.host, self._address.port)
        try:
            await site.start()
        except OSError as failure:
            await self._runner.cleanup()
            why = (failure.strerror or str(failure)).lower()
            raise ConfigError(
                [Problem("gateway.admin", f"cannot listen at {self._address}: {why}")]
            ) from None
        host, port = self._runner.addresses[0][:2]
        return host, port

    async def stop(self) -> None:
        """Close the listener."""
        if self._runner is not None:
            await self._runner.cleanup()

    @web.middleware
    async def _guard(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Let in who may come in; answer in words and in time, whatever happens."""
        told: web.StreamResponse | None = await self._door.judge(request)
        if told is None:
            told = await self._answered(roomy(request), handler)
        return await self._patience.deliver(request, told)

    async def _answered(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Return what a request is answered; what is raised is an answer too."""
        try:
            await self._patience.arrive(request)
            if request.query and not _takes_parameters(request):
                parameters(request, NOTHING)
            return await handler(request)
        except web.HTTPException as raised:
            if is_page(request.path):
                raise
            return in_words(raised)
        except ConnectionError:
            raise  # who asked has left
        except Exception:
            log.exception("a question of an operator failed")
            return error(500, "internal_error", "This failed inside; the log says why.")

    async def _livez(self, _request: web.Request) -> web.Response:
        return web.json_response({"status": "alive"})

    async def _readyz(self, _request: web.Request) -> web.Response:
        if self._app.server.draining:
            return web.json_response({"status": "stopping"}, status=503)
        is_degraded = self._app.gateway.judge.is_degraded
        return web.json_response({"status": "degraded" if is_degraded else "ready"})

    async def _metrics(self, _request: web.Request) -> web.Response:
        body = exposition(self._app)
        kind = "text/plain; version=0.0.4; charset=utf-8"
        return web.Response(body=body, headers={"Content-Type": kind})


def _takes_parameters(request: web.Request) -> bool:
    resource = request.match_info.route.resource
    if resource is None or not request.path.startswith("/api/"):
        return True
    return takes_parameters(request.method, resource.canonical)


async def _protect(_request: web.Request, answer: web.StreamResponse) -> None:
    for name, value in HEADERS.items():
        answer.headers.setdefault(name, value)
