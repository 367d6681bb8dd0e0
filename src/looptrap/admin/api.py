"""The admin listener: who is let in, health, metrics, and what else there is to ask."""

from __future__ import annotations

from hmac import compare_digest

from aiohttp import web
from aiohttp.typedefs import Handler

from looptrap.admin.alert import AlertApi
from looptrap.admin.answer import error
from looptrap.admin.incident import IncidentApi
from looptrap.admin.kill import KillSwitchApi
from looptrap.admin.metrics import exposition
from looptrap.admin.page import is_page
from looptrap.admin.page import routes as page_routes
from looptrap.admin.project import ProjectApi
from looptrap.admin.release import ReleaseApi
from looptrap.admin.spending import SpendingApi
from looptrap.admin.try_it import TryApi, roomy
from looptrap.admin.what_if import WhatIfApi
from looptrap.config.kind import Address
from looptrap.errors import ConfigError, Problem
from looptrap.gateway.app import App
from looptrap.gateway.auth import is_loopback

OPEN_PATHS = ("/livez", "/readyz")
"""Asked by orchestrators, which have no token; they tell nothing but health."""


class Admin:
    """Serves operators of one gateway."""

    def __init__(self, app: App, address: Address, token: str = "") -> None:
        if not token and not is_loopback(address.host):
            raise ConfigError(
                [
                    Problem(
                        "gateway.admin",
                        f"{address.host} can be reached by others: name a variable with a token"
                        " in admin_token_env, or listen on 127.0.0.1",
                    )
                ]
            )
        self._app = app
        self._address = address
        self._token = token
        self._runner: web.AppRunner | None = None

    async def start(self) -> tuple[str, int]:
        """Listen; return the address, with the port found for 0."""
        application = web.Application(middlewares=[self._guard], client_max_size=1 << 20)
        application.add_routes(
            [
                web.get("/livez", self._livez),
                web.get("/readyz", self._readyz),
                web.get("/metrics", self._metrics),
                *page_routes(),
                *KillSwitchApi(self._app).routes(),
                *ProjectApi(self._app).routes(),
                *IncidentApi(self._app).routes(),
                *ReleaseApi(self._app).routes(),
                *SpendingApi(self._app).routes(),
                *AlertApi(self._app).routes(),
                *WhatIfApi(self._app).routes(),
                *TryApi(self._app).routes(),
            ]
        )
        self._runner = web.AppRunner(application, access_log=None)
        await self._runner.setup()
        site = web.TCPSite(self._runner, self._address.host, self._address.port)
        try:
            await site.start()
        except OSError as error:
            await self._runner.cleanup()
            why = (error.strerror or str(error)).lower()
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
        """Let in who has the token, and no page of another site that was pointed at us."""
        if request.path in OPEN_PATHS:
            return await handler(request)
        if self._token:
            given = request.headers.get("Authorization", "").removeprefix("Bearer ")
            # Bytes that are no text arrive as surrogates, which have an encoding only this way.
            is_right = compare_digest(given.encode(errors="surrogateescape"), self._token.encode())
            # A browser asks for the page before anybody can tell it a token.
            if not is_right and not is_page(request.path):
                return error(401, "missing_token", "Send Authorization: Bearer <admin token>.")
        elif not is_loopback(_host(request)):
            return error(403, "foreign_host", "Use 127.0.0.1 or localhost to reach this address.")
        try:
            return await handler(roomy(request))
        except web.HTTPRequestEntityTooLarge:
            return error(413, "too_large", "This is more than is taken here.")

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


def _host(request: web.Request) -> str:
    host, _, port = request.host.rpartition(":")
    return host if port.isdigit() and host else request.host
