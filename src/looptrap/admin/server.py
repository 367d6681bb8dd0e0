"""The admin listener: health, metrics, the dashboard, and the API."""

from __future__ import annotations

import asyncio
import logging
from typing import Literal, NamedTuple

from aiohttp import web
from aiohttp.typedefs import Handler

from looptrap.admin.api import ApiError, error_response, http_exception_response
from looptrap.admin.auth import SECURITY_HEADERS, AdminAuth
from looptrap.admin.dashboard_files import dashboard_routes, is_dashboard_path
from looptrap.admin.event_stream import EventStreamApi
from looptrap.admin.metrics import exposition
from looptrap.admin.openapi import APIS, OPERATIONS
from looptrap.admin.operator import EVERYBODY_HERE, AdminAccess
from looptrap.config.kind import Address
from looptrap.gateway.app import App, listen_error

MAX_BODY_BYTES = 1 << 20
LARGER_BODIES = {one.path: one.max_body_bytes for one in OPERATIONS if one.max_body_bytes}
"""Bytes of a body, where an operation allows more."""

READ_ONLY_PATHS = frozenset(one.path for one in OPERATIONS if one.read_only)

METRICS_CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

Readiness = Literal["starting", "ready", "degraded", "stopping"]

log = logging.getLogger("looptrap")


class ClientTimeouts(NamedTuple):
    """Seconds that a client has."""

    body: float = 10.0
    """For the body of a request to arrive."""
    write: float = 30.0
    """To take a response, or the next piece of a stream."""
    idle: float = 60.0
    """For the head of the next request."""

    async def read_body(self, request: web.Request) -> None:
        """Wait for the whole body of a request."""
        try:
            async with asyncio.timeout(self.body):
                await request.read()
        except TimeoutError:
            message = f"The request did not arrive within {self.body:g} s."
            raise ApiError(408, "request_timeout", message) from None
        except web.RequestPayloadError:
            raise ApiError(400, "bad_request", "The body of the request is broken.") from None

    async def send(self, request: web.Request, response: web.StreamResponse) -> web.StreamResponse:
        """Send a whole response; a client that does not take it is disconnected."""
        if not isinstance(response, web.Response):
            return response  # a stream, whose sender knows how long it waits
        try:
            async with asyncio.timeout(self.write):
                await response.prepare(request)
                await response.write_eof()
        except TimeoutError:
            if request.transport is not None:
                request.transport.abort()
        return response


DEFAULT_TIMEOUTS = ClientTimeouts()


class AdminServer:
    """Serves operators of one gateway."""

    def __init__(
        self,
        app: App,
        address: Address,
        access: AdminAccess = EVERYBODY_HERE,
        *,
        timeouts: ClientTimeouts = DEFAULT_TIMEOUTS,
    ) -> None:
        self._app = app
        self._timeouts = timeouts
        self._address = address
        self._auth = AdminAuth(address.host, access, READ_ONLY_PATHS)
        self._runner: web.AppRunner | None = None

    async def start(self) -> tuple[str, int]:
        """Listen; return the address, with the port found for 0."""
        application = web.Application(middlewares=[self._guard], client_max_size=MAX_BODY_BYTES)
        application.on_response_prepare.append(_add_security_headers)
        apis = [api(self._app) for api in APIS]
        # Streams are ended before the other requests are waited for.
        application.on_shutdown.extend(api.close for api in apis if isinstance(api, EventStreamApi))
        application.router.add_get("/livez", self._livez)
        application.router.add_get("/readyz", self._readyz)
        application.router.add_get("/metrics", self._metrics)
        application.add_routes(dashboard_routes())
        application.add_routes([route for api in apis for route in api.routes()])
        idle = self._timeouts.idle
        self._runner = web.AppRunner(application, access_log=None, keepalive_timeout=idle)
        await self._runner.setup()
        site = web.TCPSite(self._runner, self._address.host, self._address.port)
        try:
            await site.start()
        except OSError as failure:
            await self._runner.cleanup()
            raise listen_error("admin", self._address, failure) from None
        host, port = self._runner.addresses[0][:2]
        return host, port

    async def stop(self) -> None:
        """Close the listener."""
        if self._runner is not None:
            await self._runner.cleanup()

    @web.middleware
    async def _guard(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Check who asks, then answer: in words and in time, whatever happens."""
        try:
            response: web.StreamResponse | None = await self._auth.judge(request)
            if response is None:
                limit = LARGER_BODIES.get(request.path)
                sized = request.clone(client_max_size=limit) if limit else request
                response = await self._respond(sized, handler)
            return await self._timeouts.send(request, response)
        except ConnectionError:  # the client has left, or is cut off: aiohttp would log a traceback
            if request.transport is not None:
                request.transport.abort()
            return web.Response()

    async def _respond(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Return the response to a request; an exception becomes one too."""
        try:
            await self._timeouts.read_body(request)
            return await handler(request)
        except web.HTTPException as raised:
            if is_dashboard_path(request.path):
                raise
            return http_exception_response(raised)
        except ConnectionError:
            raise  # the client has left
        except Exception:
            log.exception("a question of an operator failed")
            return error_response(500, "internal_error", "This failed inside; the log says why.")

    async def _livez(self, _request: web.Request) -> web.Response:
        return web.json_response({"status": "alive"})

    async def _readyz(self, _request: web.Request) -> web.Response:
        status = await self._readiness()
        is_serving = status in ("ready", "degraded")
        return web.json_response({"status": status}, status=200 if is_serving else 503)

    async def _readiness(self) -> Readiness:
        if self._app.server.draining:
            return "stopping"
        is_degraded = self._app.gateway.judge.is_degraded or self._app.recorder.writer.is_failing
        return "degraded" if is_degraded else "ready"

    async def _metrics(self, _request: web.Request) -> web.Response:
        body = await self._exposition()
        return web.Response(body=body, headers={"Content-Type": METRICS_CONTENT_TYPE})

    async def _exposition(self) -> bytes:
        return exposition(self._app)


async def _add_security_headers(_request: web.Request, answer: web.StreamResponse) -> None:
    for name, value in SECURITY_HEADERS.items():
        answer.headers.setdefault(name, value)
