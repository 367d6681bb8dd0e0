"""Events for operators as they happen: polled once a second for all, and sent as SSE."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import suppress
from itertools import count
from typing import Any, TypedDict

import msgspec
from aiohttp import web

from looptrap.admin.api import (
    ApiRequest,
    HistoryUnavailableError,
    error_response,
    iso_time,
    query_history,
    view_of,
)
from looptrap.admin.incident import incident_changes
from looptrap.admin.incident_view import IncidentSummary
from looptrap.admin.operation import Api, get
from looptrap.admin.status import gateway_status
from looptrap.gateway.app import App
from looptrap.incident.history import UsageQuery
from looptrap.usage.model import MINUTE_S, UsageTotals

LOOKBACK_S = 2 * MINUTE_S
"""Seconds before the start that are summed too: usage is written some seconds later."""

WINDOW_RESET_S = 10 * MINUTE_S
"""Seconds after which the sums begin anew, so that there is never much to add up."""

MAX_CLOCK_SKEW_S = 86_400
"""Seconds by which the clock of another process may be ahead."""


class LiveFigures(TypedDict):
    """Calls and costs since the last event of this kind."""

    allowed: int
    warned: int
    refused: int
    shadowed: int
    cost_usd: float | None
    saved_usd: float


class LiveTotals:
    """Reads how much usage grew between two polls; waits for the disk."""

    def __init__(self, usage: UsageQuery, now: float) -> None:
        self._usage = usage
        self._since = _window_start(now)
        self._totals = self._read(now)

    def poll(self, now: float) -> LiveFigures:
        """Return the usage since the last poll."""
        before, totals = self._totals, self._read(now)
        self._totals = totals
        if now - self._since > WINDOW_RESET_S:
            self._since = _window_start(now)
            self._totals = self._read(now)
        growth = {
            name: max(getattr(totals, name) - getattr(before, name), 0)
            for name in UsageTotals.__struct_fields__
        }
        grown = UsageTotals(**growth)
        allowed = max(grown.calls - grown.warned - grown.refused, 0)
        return view_of(LiveFigures, grown, allowed=allowed)

    def _read(self, now: float) -> UsageTotals:
        return self._usage.totals(self._since, now + MAX_CLOCK_SKEW_S)


def _window_start(now: float) -> float:
    return now // MINUTE_S * MINUTE_S - LOOKBACK_S


POLL_INTERVAL_S = 1.0

POLLS_PER_STATS = 2
"""Every so often a poll also reads figures and status."""

MAX_SUBSCRIBERS = 50

MAX_QUEUED_FRAMES = 8
"""Polls that wait for a subscriber; one that is further behind is disconnected."""

MAX_INCIDENTS_PER_POLL = 500
"""If more change in one second, the client reads the list instead."""

MAX_REPLAYED_INCIDENTS = 2_000
"""Incidents sent to a subscriber that reconnects."""

log = logging.getLogger("looptrap")


def sse_frame(event: str, data: Any, number: int | None = None) -> bytes:
    """Return one server-sent event."""
    named = b"" if number is None else b"id: %d\n" % number
    return b"%bevent: %b\ndata: %b\n\n" % (named, event.encode(), msgspec.json.encode(data))


class EventSubscriber:
    """The queue of one open stream; None ends it."""

    def __init__(self, disconnect: Callable[[], object]) -> None:
        self._disconnect = disconnect
        self._queue: asyncio.Queue[bytes | None] = asyncio.Queue(MAX_QUEUED_FRAMES)

    def put(self, frames: bytes | None) -> None:
        """Queue frames; a subscriber that does not keep up is disconnected."""
        try:
            self._queue.put_nowait(frames)
        except asyncio.QueueFull:
            self._disconnect()

    async def get(self, timeout: float) -> bytes | None:
        """Return the next frames; raise TimeoutError where there are none in time."""
        async with asyncio.timeout(timeout):
            return await self._queue.get()


class EventFeed:
    """Polls the history while there are subscribers, and sends them all what changed."""

    def __init__(self, app: App) -> None:
        self._app = app
        self._subscribers: set[EventSubscriber] = set()
        self._polling: asyncio.Task[None] | None = None
        self._has_started = asyncio.Event()
        self._last_change = self._last_entry = self._last_call = 0
        self._totals: LiveTotals | None = None
        self._status: dict[str, Any] = {}
        self._is_closed = False

    @property
    def has_room(self) -> bool:
        """Whether there may be one more subscriber."""
        return len(self._subscribers) < MAX_SUBSCRIBERS and not self._is_closed

    async def join(self, subscriber: EventSubscriber) -> None:
        """Add a subscriber; it gets every change after this has returned."""
        self._subscribers.add(subscriber)
        if self._polling is None:
            self._polling = asyncio.get_running_loop().create_task(self._poll_forever())
        await self._has_started.wait()

    def leave(self, subscriber: EventSubscriber) -> None:
        """Remove a subscriber; without any, polling stops."""
        self._subscribers.discard(subscriber)
        if not self._subscribers and self._polling is not None:
            self._polling.cancel()
            self._polling = None
            self._has_started.clear()

    def close(self) -> None:
        """End all streams."""
        self._is_closed = True
        self._send(None)

    async def _poll_forever(self) -> None:
        has_begun = await self._attempt(self._begin)
        self._has_started.set()  # even after a failure: a subscriber must not wait for it
        for number in count(1):
            await asyncio.sleep(POLL_INTERVAL_S)
            if not has_begun:
                has_begun = await self._attempt(self._begin)
                continue
            await self._attempt(self._poll_changes)
            if number % POLLS_PER_STATS == 0:
                await self._attempt(self._poll_figures)

    async def _attempt(self, poll: Callable[[], Awaitable[None]]) -> bool:
        """Poll, and say whether that was possible; the next poll may succeed."""
        try:
            await poll()
        except HistoryUnavailableError:
            return False  # the status says so
        except Exception:
            log.exception("subscribers at the admin address miss events")
            return False
        return True

    async def _begin(self) -> None:
        history = self._app.recorder.history
        self._last_change = await query_history(history.last_change)
        self._last_entry = await query_history(history.audit.last)
        self._last_call = await query_history(history.calls.last)
        now = self._app.gateway.clock()
        self._totals = await query_history(LiveTotals, history.usage, now)
        self._status = await self._read_status()

    async def _poll_changes(self) -> None:
        """Send changed incidents, new entries of the audit, and whether calls were logged."""
        if frames := await query_history(self._read_changes):
            self._send(frames)

    async def _poll_figures(self) -> None:
        """Send the figures, and the status where it changed."""
        now = self._app.gateway.clock()
        if self._totals is not None:
            figures = await query_history(self._totals.poll, now)
            self._send(sse_frame("stats", {"time": iso_time(now), **figures}))
        status = await self._read_status()
        if status != self._status:
            self._status = status
            self._send(sse_frame("status", {**status, "now": iso_time(now)}))

    async def _read_status(self) -> dict[str, Any]:
        """Return the status without the time; one of several workers cannot know that of all."""
        if self._app.config.gateway.workers > 1:
            return {}
        return {**await gateway_status(self._app), "now": ""}

    def _send(self, frames: bytes | None) -> None:
        for subscriber in list(self._subscribers):
            subscriber.put(frames)

    # On a thread

    def _read_changes(self) -> bytes:
        history = self._app.recorder.history
        found, last = incident_changes(history, self._last_change, MAX_INCIDENTS_PER_POLL)
        latest = history.last_change()
        # Past `last` is what has changed since, or more than one poll sends, which is left out;
        # before it, a history that began anew.
        is_whole = len(found) < MAX_INCIDENTS_PER_POLL
        self._last_change = min(last, latest) if is_whole else latest
        frames = _incident_frames(found, min(last, latest))
        for entry in history.audit.since(self._last_entry):
            self._last_entry = entry.number
            frames.append(sse_frame("change", {"what": entry.what, "target": entry.target}))
        last_call = history.calls.last()
        if last_call != self._last_call:
            # Not the calls themselves: few viewers want them, and those only some.
            self._last_call = last_call
            frames.append(sse_frame("calls", {"last": last_call}))
        return b"".join(frames)

    def read_missed(self, after: int) -> bytes:
        """Return the incidents that changed after that number, each as it is now."""
        history = self._app.recorder.history
        latest = history.last_change()
        frames: list[bytes] = []
        after = min(after, latest)
        while after < latest and len(frames) < MAX_REPLAYED_INCIDENTS:
            found, after = incident_changes(history, after, MAX_INCIDENTS_PER_POLL)
            frames += _incident_frames(found, after)
        return b"".join(frames)


def _incident_frames(incidents: Sequence[IncidentSummary], number: int) -> list[bytes]:
    """Return a frame for each incident; the last has the number to go on with."""
    return [
        *(sse_frame("incident", one) for one in incidents[:-1]),
        *(sse_frame("incident", one, number) for one in incidents[-1:]),
    ]


PING_INTERVAL_S = 15.0
"""Seconds of silence after which a comment is sent, so that no proxy closes the stream."""

WRITE_TIMEOUT_S = 20.0
"""Seconds for a subscriber to take what is sent."""

_NUMBER = re.compile(r"[0-9]{1,18}")

SSE_HEADERS = {
    "Content-Type": "text/event-stream; charset=utf-8",
    "Cache-Control": "no-store",
    # Proxies would wait for more.
    "X-Accel-Buffering": "no",
}


class EventStreamApi(Api):
    """Answers at `/api/v1/events`."""

    def __init__(self, app: App) -> None:
        super().__init__(app)
        self._feed = EventFeed(app)

    async def close(self, _application: object = None) -> None:
        """End all streams."""
        self._feed.close()

    @get(
        "/api/v1/events",
        "what happens, as it does; an id to go on after, where the connection broke",
        answer=str,
        headers=("Last-Event-ID",),
        content_type="text/event-stream",
    )
    async def _stream(self, request: ApiRequest) -> web.StreamResponse:
        if not self._feed.has_room:
            message = f"{MAX_SUBSCRIBERS} are listening already. Try again in a moment."
            refusal = error_response(503, "too_many_listeners", message)
            refusal.headers["Retry-After"] = "5"
            return refusal
        http, response = request.http, web.StreamResponse(headers=SSE_HEADERS)

        def disconnect() -> None:
            if http.transport is not None:
                http.transport.abort()

        subscriber = EventSubscriber(disconnect)
        try:
            await self._feed.join(subscriber)
            async for frames in self._frames(http, subscriber):
                async with asyncio.timeout(WRITE_TIMEOUT_S):
                    await response.prepare(http)  # does nothing after the first time
                    await response.write(frames)
            await response.write_eof()
        except TimeoutError:
            disconnect()
        except ConnectionError:
            pass  # the client has left
        finally:
            self._feed.leave(subscriber)
        return response

    async def _frames(
        self, request: web.Request, subscriber: EventSubscriber
    ) -> AsyncIterator[bytes]:
        yield sse_frame("hello", {"now": iso_time(self._now())})
        last = request.headers.get("Last-Event-ID", "")
        if _NUMBER.fullmatch(last):
            with suppress(HistoryUnavailableError):
                if missed := await query_history(self._feed.read_missed, int(last)):
                    yield missed
        while True:
            try:
                frames = await subscriber.get(PING_INTERVAL_S)
            except TimeoutError:
                frames = b": ping\n\n"
            if frames is None:
                return
            yield frames
