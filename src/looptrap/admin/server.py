"""The admin listener: health, metrics, the dashboard, and what else there is to ask."""

from __future__ import annotations

import asyncio
import logging
from typing import NamedTuple

from aiohttp import web
from aiohttp.typedefs import Handler

from looptrap.admin.alert import AlertApi
from looptrap.admin.api import (
    NO_PARAMETERS,
    ApiError,
    error_response,
    http_exception_response,
    read_parameters,
)
from looptrap.admin.audit import AuditApi
from looptrap.admin.auth import SECURITY_HEADERS, AdminAuth
from looptrap.admin.budget import BudgetApi
from looptrap.admin.config import ConfigApi, KeyApi, PolicyApi
from looptrap.admin.dashboard_files import dashboard_routes as page_routes
from looptrap.admin.dashboard_files import is_dashboard_path
from looptrap.admin.enforcement import CooldownApi, KillSwitchApi, ReleaseApi
from looptrap.admin.event_stream import EventStreamApi
from looptrap.admin.incident import AnnotationApi, IncidentApi
from looptrap.admin.metrics import exposition
from looptrap.admin.openapi import OpenApiDocumentApi, takes_parameters
from looptrap.admin.provider import ProviderApi
from looptrap.admin.runtime_override import ProjectApi, ToolApi
from looptrap.admin.status import StatusApi
from looptrap.admin.try_it import TryApi, with_larger_body_limit
from looptrap.admin.usage import SpendingApi, StatsApi
from looptrap.admin.what_if import WhatIfApi
from looptrap.config.kind import Address
from looptrap.errors import ConfigError, Problem
from looptrap.gateway.app import App


class ClientTimeouts(NamedTuple):
    """How many seconds a client has."""

    body: float = 10.0
    """For the body of a request to arrive."""
    read_on: float = 30.0
    """To take an answer, or the next piece of a stream."""
    idle: float = 60.0
    """For the head of the next request."""

    async def arrive(self, request: web.Request) -> None:
        """Wait for the whole body of a request."""
        try:
            async with asyncio.timeout(self.body):
                await request.read()
        except TimeoutError:
            message = f"The request did not arrive within {self.body:g} s."
            raise ApiError(408, "request_timeout", message) from None
        except web.RequestPayloadError:
            raise ApiError(400, "bad_request", "The body of the request is broken.") from None

    async def deliver(self, request: web.Request, answer: web.StreamResponse) -> web.StreamResponse:
        """Send an answer that is there as a whole; whoever does not take it is cut off."""
        if not isinstance(answer, web.Response):
            return answer  # a stream, whose sender knows how long it waits
        try:
            async with asyncio.timeout(self.read_on):
                await answer.prepare(request)
                await answer.write_eof()
        except TimeoutError:
            if request.transport is not None:
                request.transport.abort()
        return answer


APIS = (
    StatusApi, StatsApi, SpendingApi, ProviderApi, KeyApi, ConfigApi, PolicyApi, BudgetApi,
    IncidentApi, AnnotationApi, CooldownApi, ReleaseApi, KillSwitchApi, ProjectApi, ToolApi,
    AlertApi, AuditApi, EventStreamApi, WhatIfApi, TryApi, OpenApiDocumentApi,
)  # fmt: skip
"""All that answers under `/api/v1`."""

DEFAULT_TIMEOUTS = ClientTimeouts()

MAX_BODY_BYTES = 1 << 20
"""Bytes of a request's body, but for texts that are tried."""

log = logging.getLogger("looptrap")


class AdminServer:
    """Serves operators of one gateway."""

    def __init__(
        self,
        app: App,
        address: Address,
        token: str = "",
        read_token: str = "",
        *,
        patience: ClientTimeouts = DEFAULT_TIMEOUTS,
    ) -> None:
        self._app = app
        self._patience = patience
        self._address = address
        self._door = AdminAuth(address.host, token, read_token)
        self._runner: web.AppRunner | None = None

    async def start(self) -> tuple[str, int]:
        """Listen; return the address, with the port found for 0."""
        application = web.Application(middlewares=[self._guard], client_max_size=MAX_BODY_BYTES)
        application.on_response_prepare.append(_add_security_headers)
        apis = [api(self._app) for api in APIS]
        # Streams end before those who have asked for something else are waited for.
        application.on_shutdown.extend(api.close for api in apis if isinstance(api, EventStreamApi))
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
            told = await self._answered(with_larger_body_limit(request), handler)
        return await self._patience.deliver(request, told)

    async def _answered(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Return what a request is answered; what is raised is an answer too."""
        try:
            await self._patience.arrive(request)
            if request.query and not _takes_parameters(request):
                read_parameters(request, NO_PARAMETERS)
            return await handler(request)
        except web.HTTPException as raised:
            if is_dashboard_path(request.path):
                raise
            return http_exception_response(raised)
        except ConnectionError:
            raise  # who asked has left
        except Exception:
            log.exception("a question of an operator failed")
            return error_response(500, "internal_error", "This failed inside; the log says why.")

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


async def _add_security_headers(_request: web.Request, answer: web.StreamResponse) -> None:
    for name, value in SECURITY_HEADERS.items():
        answer.headers.setdefault(name, value)
