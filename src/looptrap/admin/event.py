"""Events for operators: what happens, as it does, over a connection that stays open."""

from __future__ import annotations

import asyncio
import re
from contextlib import suppress

from aiohttp import web

from looptrap.admin.answer import error
from looptrap.admin.feed import MOST_LISTENERS, Feed, Listener, frame
from looptrap.admin.history import NOTHING, HistoryUnavailable, moment, parameters
from looptrap.gateway.app import App

PATH = "/api/v1/events"

PING = 15.0
"""Seconds of silence after which something is sent, so that nobody takes it for the end."""

PATIENCE = 20.0
"""Seconds for a listener to take what is sent."""

_NUMBER = re.compile(r"[0-9]{1,18}")

HEADERS = {
    "Content-Type": "text/event-stream; charset=utf-8",
    "Cache-Control": "no-store",
    # Proxies would wait for more.
    "X-Accel-Buffering": "no",
}


class EventApi:
    """Answers at `/api/v1/events`."""

    def __init__(self, app: App, *, ping: float = PING) -> None:
        self._app = app
        self._feed = Feed(app)
        self._ping = ping

    def routes(self) -> list[web.RouteDef]:
        """Return what is answered, and how."""
        return [web.get(PATH, self._tell)]

    async def close(self, _application: object = None) -> None:
        """End all streams."""
        self._feed.close()

    async def _tell(self, request: web.Request) -> web.StreamResponse:
        parameters(request, NOTHING)
        if not self._feed.has_room:
            message = f"{MOST_LISTENERS} are listening already. Try again in a moment."
            told = error(503, "too_many_listeners", message)
            told.headers["Retry-After"] = "5"
            return told
        stream = _Stream(request)
        listener = Listener(stream.cut)
        try:
            await self._feed.join(listener)
            await self._listen(request, stream, listener)
        except TimeoutError:
            stream.cut()
        except ConnectionError:
            pass  # who listened has left
        finally:
            self._feed.leave(listener)
        return stream.response

    async def _listen(self, request: web.Request, stream: _Stream, listener: Listener) -> None:
        await stream.begin()
        await stream.send(frame("hello", {"now": moment(self._app.gateway.clock())}))
        last = request.headers.get("Last-Event-ID", "")
        if _NUMBER.fullmatch(last):
            with suppress(HistoryUnavailable):
                await stream.send(await self._feed.missed(int(last)))
        while True:
            try:
                frames = await listener.get(self._ping)
            except TimeoutError:
                frames = b": ping\n\n"
            if frames is None:
                await stream.response.write_eof()
                return
            await stream.send(frames)


class _Stream:
    """An answer without end."""

    def __init__(self, request: web.Request) -> None:
        self._request = request
        self.response = web.StreamResponse(headers=HEADERS)

    async def begin(self) -> None:
        async with asyncio.timeout(PATIENCE):
            await self.response.prepare(self._request)

    async def send(self, frames: bytes) -> None:
        """Send something; raise TimeoutError where it is not taken."""
        if frames:
            async with asyncio.timeout(PATIENCE):
                await self.response.write(frames)

    def cut(self) -> None:
        """Let go of a listener who does not keep up."""
        if self._request.transport is not None:
            self._request.transport.abort()
