"""The admin listener: health, metrics, the dashboard, and the API."""

from __future__ import annotations

import asyncio
import logging
from functools import cache
from hashlib import blake2b
from pathlib import Path
from typing import Any, Literal, NamedTuple

from aiohttp import web
from aiohttp.typedefs import Handler
from aiohttp.web_response import ContentCoding

from looptrap.admin.alert import AlertApi
from looptrap.admin.api import ApiError, ApiRequest, error_response, http_exception_response
from looptrap.admin.audit import AuditApi
from looptrap.admin.auth import (
    DASHBOARD_PREFIX,
    EVERYBODY_HERE,
    SECURITY_HEADERS,
    AdminAccess,
    AdminAuth,
    is_dashboard_path,
)
from looptrap.admin.budget import BreachApi, BudgetApi
from looptrap.admin.call import CallApi
from looptrap.admin.config import ConfigApi, ProjectApi, RuleApi, ToolApi
from looptrap.admin.demo import DemoApi
from looptrap.admin.enforcement import EnforcementApi
from looptrap.admin.event_stream import EventStreamApi
from looptrap.admin.incident import IncidentApi
from looptrap.admin.key import KeyApi
from looptrap.admin.metrics import exposition
from looptrap.admin.operation import Api, Schema, get, openapi_document
from looptrap.admin.provider import ProviderApi
from looptrap.admin.rule_trial import RuleTrialApi
from looptrap.admin.status import StatusApi
from looptrap.admin.usage import UsageApi
from looptrap.config.kind import Address
from looptrap.gateway.app import App, listen_error


@cache
def document() -> Schema:
    """Return the OpenAPI document of the admin API; it takes a while to make, and is made once."""
    return openapi_document(OPERATIONS)


class OpenApiDocumentApi(Api):
    """Answers at `/api/v1/openapi.json`."""

    @get("/api/v1/openapi.json", "this document")
    async def _show(self, _request: ApiRequest) -> dict[str, Any]:
        return await asyncio.to_thread(document)


APIS: tuple[type[Api], ...] = (
    StatusApi, UsageApi, CallApi, ProviderApi, KeyApi, ConfigApi, BudgetApi, BreachApi,
    IncidentApi, EnforcementApi, ProjectApi, ToolApi, RuleApi, AlertApi,
    AuditApi, EventStreamApi, RuleTrialApi, DemoApi, OpenApiDocumentApi,
)  # fmt: skip
"""Everything under `/api/v1`."""

OPERATIONS = [operation for api in APIS for operation in api.operations]

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


DASHBOARD_DIR = Path(__file__).with_name("dashboard")

CONTENT_TYPES = {
    ".html": "text/html",
    ".js": "text/javascript",
    ".css": "text/css",
    ".svg": "image/svg+xml",
}
"""Served suffixes; other files of the folder are for developers."""

CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:;"
    " connect-src 'self'; font-src 'self'; base-uri 'none'; form-action 'none';"
    " frame-ancestors 'none'"
)
"""Nothing inline, nothing from elsewhere, and no frame around the page."""

DASHBOARD_HEADERS = {
    "Content-Security-Policy": CONTENT_SECURITY_POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",
}


class StaticFile(NamedTuple):
    """A file, its content type and its ETag."""

    content_type: str
    content: bytes
    etag: str


def dashboard_routes() -> list[web.RouteDef]:
    """Return the routes of the dashboard."""
    static_files()  # now, so that no request waits for the disk later
    return [web.get("/", _page), web.get(DASHBOARD_PREFIX + "{name:.+}", _file)]


async def _page(request: web.Request) -> web.Response:
    return _file_response(request, static_files()["index.html"])


async def _file(request: web.Request) -> web.Response:
    # A name among the files read at the start: no path leads out of the folder.
    found = static_files().get(request.match_info["name"])
    if found is None:
        raise web.HTTPNotFound(text="There is no such file.\n", headers=DASHBOARD_HEADERS)
    return _file_response(request, found)


def _file_response(request: web.Request, file: StaticFile) -> web.Response:
    headers = {**DASHBOARD_HEADERS, "ETag": f'"{file.etag}"', "Vary": "Accept-Encoding"}
    if any(tag.value in (file.etag, "*") for tag in request.if_none_match or ()):
        return web.Response(status=304, headers=headers)
    response = web.Response(
        body=file.content, content_type=file.content_type, charset="utf-8", headers=headers
    )
    if "gzip" in request.headers.get("Accept-Encoding", ""):
        response.enable_compression(ContentCoding.gzip)
    return response


@cache
def static_files() -> dict[str, StaticFile]:
    """Return the files of the dashboard by name, read once."""
    found: dict[str, StaticFile] = {}
    for path in DASHBOARD_DIR.rglob("*"):
        if path.suffix in CONTENT_TYPES and path.is_file():
            content, name = path.read_bytes(), path.relative_to(DASHBOARD_DIR).as_posix()
            etag = blake2b(content, digest_size=12).hexdigest()
            found[name] = StaticFile(CONTENT_TYPES[path.suffix], content, etag)
    return found
