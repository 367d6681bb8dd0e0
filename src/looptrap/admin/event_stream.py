"""Events for operators, as they happen: looked up once a second for all, and sent as SSE."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from itertools import count
from typing import Any, TypedDict

import msgspec
from aiohttp import web

from looptrap.admin.api import (
    NO_PARAMETERS,
    HistoryUnavailable,
    error_response,
    iso_time,
    query_history,
    read_parameters,
)
from looptrap.admin.incident import incident_changes
from looptrap.admin.status import gateway_status
from looptrap.gateway.app import App
from looptrap.incident.history import UsageQuery
from looptrap.usage.model import MINUTE_S, UsageTotals
from looptrap.usage.savings import usd

LOOKBACK_S = 2 * MINUTE_S
"""Seconds that sums go back: what is counted is written some seconds later."""

WINDOW_RESET_S = 10 * MINUTE_S
"""Seconds after which sums begin later: so there is never much to add up."""

MAX_CLOCK_SKEW_S = 86_400
"""Seconds: no clock of another process is as far ahead."""


class LiveFigures(TypedDict):
    """What calls came to."""

    allowed: int
    warned: int
    refused: int
    shadowed: int
    cost_usd: float | None
    saved_usd: float


class LiveTotals:
    """Looks at the books now and then; waits for the disk."""

    def __init__(self, books: UsageQuery, now: float) -> None:
        self._books = books
        self._since = _window_start(now)
        self._sums = self._added_up(now)

    def look(self, now: float) -> LiveFigures:
        """Return what calls came to since the last look."""
        before, spent = self._sums, self._added_up(now)
        self._sums = spent
        if now - self._since > WINDOW_RESET_S:
            self._since = _window_start(now)
            self._sums = self._added_up(now)
        return _live_figures(
            UsageTotals(
                **{
                    name: max(getattr(spent, name) - getattr(before, name), 0)
                    for name in UsageTotals.__struct_fields__
                }
            )
        )

    def _added_up(self, now: float) -> UsageTotals:
        return self._books.totals(self._since, now + MAX_CLOCK_SKEW_S)


def _window_start(now: float) -> float:
    return now // MINUTE_S * MINUTE_S - LOOKBACK_S


def _live_figures(spent: UsageTotals) -> LiveFigures:
    return {
        "allowed": max(spent.calls - spent.warned - spent.refused, 0),
        "warned": spent.warned,
        "refused": spent.refused,
        "shadowed": spent.shadowed,
        "cost_usd": spent.cost_usd,
        "saved_usd": usd(spent.saved),
    }


POLL_INTERVAL_S = 1.0
"""Seconds between two looks: an incident is told no more often."""

POLLS_PER_STATS = 2
"""Looks between two that tell figures, and how the gateway is."""

MAX_SUBSCRIBERS = 50

MAX_QUEUED_FRAMES = 8
"""Looks that wait for a listener to take them; one that is further behind is cut off."""

MAX_INCIDENTS_PER_POLL = 500
"""Told of one look: of more that changed in one second, a list is a better picture."""

MAX_REPLAYED_INCIDENTS = 2_000
"""Incidents that a listener is told who was away."""

log = logging.getLogger("looptrap")


def sse_frame(event: str, data: Any, number: int | None = None) -> bytes:
    """Return one event as it is sent."""
    named = b"" if number is None else b"id: %d\n" % number
    return b"%bevent: %b\ndata: %b\n\n" % (named, event.encode(), msgspec.json.encode(data))


class EventSubscriber:
    """What waits for somebody who listens; None at the end."""

    def __init__(self, cut: Callable[[], object]) -> None:
        self._cut = cut
        self._waiting: asyncio.Queue[bytes | None] = asyncio.Queue(MAX_QUEUED_FRAMES)

    def put(self, frames: bytes | None) -> None:
        """Have something told; whoever does not keep up is cut off."""
        try:
            self._waiting.put_nowait(frames)
        except asyncio.QueueFull:
            self._cut()

    async def get(self, patience: float) -> bytes | None:
        """Return what is to be told next; raise TimeoutError where nothing is for so long."""
        async with asyncio.timeout(patience):
            return await self._waiting.get()


class EventFeed:
    """Looks at the history and tells all listeners what it finds there."""

    def __init__(self, app: App, *, every: float = POLL_INTERVAL_S) -> None:
        self._app = app
        self._every = every
        self._listeners: set[EventSubscriber] = set()
        self._looking: asyncio.Task[None] | None = None
        self._has_begun = asyncio.Event()
        self._change = self._entry = 0
        self._tide: LiveTotals | None = None
        self._status: dict[str, Any] = {}
        self._is_over = False

    @property
    def has_room(self) -> bool:
        """Whether one more may listen."""
        return len(self._listeners) < MAX_SUBSCRIBERS and not self._is_over

    async def join(self, listener: EventSubscriber) -> None:
        """Tell this one too, of all that changes once this has returned."""
        self._listeners.add(listener)
        if self._looking is None:
            self._looking = asyncio.get_running_loop().create_task(self._look_on())
        await self._has_begun.wait()

    def leave(self, listener: EventSubscriber) -> None:
        """Tell this one no more."""
        self._listeners.discard(listener)
        if not self._listeners and self._looking is not None:
            self._looking.cancel()
            self._looking = None
            self._has_begun.clear()

    def close(self) -> None:
        """Tell everybody that this is the end."""
        self._is_over = True
        self._tell(None)

    async def missed(self, after: int) -> bytes:
        """Return the incidents that changed after that number, each as it is now."""
        return await query_history(partial(self._missed, after))

    async def _look_on(self) -> None:
        is_begun = await self._safely(self._begin)
        self._has_begun.set()  # also where it has not: nobody waits for what does not come
        for number in count(1):
            await asyncio.sleep(self._every)
            if not is_begun:
                is_begun = await self._safely(self._begin)
                continue
            await self._safely(self._look)
            if number % POLLS_PER_STATS == 0:
                await self._safely(self._look_around)

    async def _safely(self, look: Callable[[], Awaitable[None]]) -> bool:
        """Look, and say whether that was possible; what is not now may be at the next look."""
        try:
            await look()
        except HistoryUnavailable:
            return False  # the status says so
        except Exception:
            log.exception("those who listen at the admin address miss something")
            return False
        return True

    async def _begin(self) -> None:
        app, history = self._app, self._app.desk.history
        self._change = await query_history(history.last_change)
        self._entry = await query_history(history.audit.last)
        self._tide = await query_history(lambda: LiveTotals(history.books, app.gateway.clock()))
        self._status = await self._known_status()

    async def _look(self) -> None:
        """Tell what changed: incidents, and what somebody did."""
        frames = await query_history(self._changed)
        if frames:
            self._tell(frames)

    async def _look_around(self) -> None:
        """Tell what calls came to, and how the gateway is where that is another."""
        now = self._app.gateway.clock()
        if self._tide is not None:
            figures = await query_history(partial(self._tide.look, now))
            self._tell(sse_frame("stats", {"time": iso_time(now), **figures}))
        status = await self._known_status()
        if status != self._status:
            self._status = status
            self._tell(sse_frame("status", {**status, "now": iso_time(now)}))

    async def _known_status(self) -> dict[str, Any]:
        """Return the status but for the time; of several workers, none can tell it for all."""
        if self._app.config.gateway.workers > 1:
            return {}
        return {**await gateway_status(self._app), "now": ""}

    def _tell(self, frames: bytes | None) -> None:
        for listener in list(self._listeners):
            listener.put(frames)

    # On a thread

    def _changed(self) -> bytes:
        history = self._app.desk.history
        found, last = incident_changes(history, self._change, MAX_INCIDENTS_PER_POLL)
        latest = history.last_change()
        # Behind the latest there is more than can be told; before it, a history that began anew.
        self._change = latest
        frames = [sse_frame("incident", one) for one in found[:-1]]
        frames += [sse_frame("incident", one, min(last, latest)) for one in found[-1:]]
        for entry in history.audit.since(self._entry):
            self._entry = entry.number
            frames.append(sse_frame("change", {"what": entry.what, "target": entry.target}))
        return b"".join(frames)

    def _missed(self, after: int) -> bytes:
        history = self._app.desk.history
        latest = history.last_change()
        told: list[bytes] = []
        after = min(after, latest)
        while after < latest and len(told) < MAX_REPLAYED_INCIDENTS:
            found, after = incident_changes(history, after, MAX_INCIDENTS_PER_POLL)
            told += [sse_frame("incident", one) for one in found[:-1]]
            told += [sse_frame("incident", one, after) for one in found[-1:]]
        return b"".join(told)


EVENTS_PATH = "/api/v1/events"

PING_INTERVAL_S = 15.0
"""Seconds of silence after which something is sent, so that nobody takes it for the end."""

WRITE_TIMEOUT_S = 20.0
"""Seconds for a listener to take what is sent."""

_NUMBER = re.compile(r"[0-9]{1,18}")

SSE_HEADERS = {
    "Content-Type": "text/event-stream; charset=utf-8",
    "Cache-Control": "no-store",
    # Proxies would wait for more.
    "X-Accel-Buffering": "no",
}


class EventStreamApi:
    """Answers at `/api/v1/events`."""

    def __init__(self, app: App, *, ping: float = PING_INTERVAL_S) -> None:
        self._app = app
        self._feed = EventFeed(app)
        self._ping = ping

    def routes(self) -> list[web.RouteDef]:
        """Return what is answered, and how."""
        return [web.get(EVENTS_PATH, self._tell)]

    async def close(self, _application: object = None) -> None:
        """End all streams."""
        self._feed.close()

    async def _tell(self, request: web.Request) -> web.StreamResponse:
        read_parameters(request, NO_PARAMETERS)
        if not self._feed.has_room:
            message = f"{MAX_SUBSCRIBERS} are listening already. Try again in a moment."
            told = error_response(503, "too_many_listeners", message)
            told.headers["Retry-After"] = "5"
            return told
        stream = _Stream(request)
        listener = EventSubscriber(stream.cut)
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

    async def _listen(
        self, request: web.Request, stream: _Stream, listener: EventSubscriber
    ) -> None:
        await stream.begin()
        await stream.send(sse_frame("hello", {"now": iso_time(self._app.gateway.clock())}))
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
        self.response = web.StreamResponse(headers=SSE_HEADERS)

    async def begin(self) -> None:
        async with asyncio.timeout(WRITE_TIMEOUT_S):
            await self.response.prepare(self._request)

    async def send(self, frames: bytes) -> None:
        """Send something; raise TimeoutError where it is not taken."""
        if frames:
            async with asyncio.timeout(WRITE_TIMEOUT_S):
                await self.response.write(frames)

    def cut(self) -> None:
        """Let go of a listener who does not keep up."""
        if self._request.transport is not None:
            self._request.transport.abort()
