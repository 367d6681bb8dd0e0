"""Somebody who gets webhooks on a real socket, and answers as a test wants it."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from aiohttp import web

Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass(frozen=True)
class Got:
    """One request that arrived."""

    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def id(self) -> str:
        return self.headers["webhook-id"]


@dataclass
class Receiver:
    """Answers 204 after what was put into `answers`; hears of every id once, like a good one."""

    answers: list[Answer] = field(default_factory=list)
    always: Answer | None = None
    got: list[Got] = field(default_factory=list)
    heard: list[str] = field(default_factory=list)
    """Ids of events that were accepted, without those accepted before."""
    port: int = 0
    scheme: str = "http"

    @property
    def url(self) -> str:
        return f"{self.scheme}://127.0.0.1:{self.port}/hook/secret-path?token=secret-token"

    @classmethod
    @asynccontextmanager
    async def running(
        cls, host: str = "127.0.0.1", port: int = 0, tls: ssl.SSLContext | None = None
    ) -> AsyncIterator[Receiver]:
        receiver = cls(scheme="https" if tls else "http")
        app = web.Application()
        app.router.add_route("*", "/{rest:.*}", receiver._handle)
        runner = web.AppRunner(app, shutdown_timeout=0.1, access_log=None)
        await runner.setup()
        await web.TCPSite(runner, host, port, ssl_context=tls).start()
        receiver.port = runner.addresses[0][1]
        try:
            yield receiver
        finally:
            await runner.cleanup()

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        headers = {name.lower(): value for name, value in request.headers.items()}
        self.got.append(Got(request.path_qs, headers, body))
        if self.answers:
            return await self.answers.pop(0)(request)
        if self.always is not None:
            return await self.always(request)
        event = headers.get("webhook-id", "")
        if event not in self.heard:
            self.heard.append(event)
        return web.Response(status=204)


def status(code: int, text: str = "", **headers: str) -> Answer:
    """Answer with a status."""
    fields = {name.replace("_", "-"): value for name, value in headers.items()}

    async def answer(_request: web.Request) -> web.StreamResponse:
        return web.Response(status=code, text=text, headers=fields)

    return answer


async def hangs(_request: web.Request) -> web.StreamResponse:
    """Never answer."""
    await asyncio.Event().wait()
    raise AssertionError("nobody waits so long")


async def closes(request: web.Request) -> web.StreamResponse:
    """Close the connection without a word."""
    assert request.transport is not None
    request.transport.abort()
    return web.Response()


async def never_ends(request: web.Request) -> web.StreamResponse:
    """Accept, and then send a body for ever."""
    response = web.StreamResponse(status=200)
    await response.prepare(request)
    while True:
        await response.write(b"x" * 65_536)
