"""The feed: what happens, looked up once a second for all who listen, and not while nobody does."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from functools import partial
from itertools import count
from typing import Any

import msgspec

from looptrap.admin.history import HistoryUnavailable, ask, moment
from looptrap.admin.incident import changes
from looptrap.admin.status import status_of
from looptrap.admin.tide import Tide
from looptrap.gateway.app import App

EVERY = 1.0
"""Seconds between two looks: an incident is told no more often."""

SELDOM = 2
"""Looks between two that tell figures, and how the gateway is."""

MOST_LISTENERS = 50

MOST_WAITING = 8
"""Looks that wait for a listener to take them; one that is further behind is cut off."""

MOST_INCIDENTS = 500
"""Told of one look: of more that changed in one second, a list is a better picture."""

MOST_MISSED = 2_000
"""Incidents that a listener is told who was away."""

log = logging.getLogger("looptrap")


def frame(event: str, data: Any, number: int | None = None) -> bytes:
    """Return one event as it is sent."""
    named = b"" if number is None else b"id: %d\n" % number
    return b"%bevent: %b\ndata: %b\n\n" % (named, event.encode(), msgspec.json.encode(data))


class Listener:
    """What waits for somebody who listens; None at the end."""

    def __init__(self, cut: Callable[[], object]) -> None:
        self._cut = cut
        self._waiting: asyncio.Queue[bytes | None] = asyncio.Queue(MOST_WAITING)

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


class Feed:
    """Looks at the history and tells all listeners what it finds there."""

    def __init__(self, app: App, *, every: float = EVERY) -> None:
        self._app = app
        self._every = every
        self._listeners: set[Listener] = set()
        self._looking: asyncio.Task[None] | None = None
        self._has_begun = asyncio.Event()
        self._change = self._entry = 0
        self._tide: Tide | None = None
        self._status: dict[str, Any] = {}
        self._is_over = False

    @property
    def has_room(self) -> bool:
        """Whether one more may listen."""
        return len(self._listeners) < MOST_LISTENERS and not self._is_over

    async def join(self, listener: Listener) -> None:
        """Tell this one too, of all that changes once this has returned."""
        self._listeners.add(listener)
        if self._looking is None:
            self._looking = asyncio.get_running_loop().create_task(self._look_on())
        await self._has_begun.wait()

    def leave(self, listener: Listener) -> None:
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
        return await ask(partial(self._missed, after))

    async def _look_on(self) -> None:
        is_begun = await self._safely(self._begin)
        self._has_begun.set()  # also where it has not: nobody waits for what does not come
        for number in count(1):
            await asyncio.sleep(self._every)
            if not is_begun:
                is_begun = await self._safely(self._begin)
                continue
            await self._safely(self._look)
            if number % SELDOM == 0:
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
        self._change = await ask(history.last_change)
        self._entry = await ask(history.audit.last)
        self._tide = await ask(lambda: Tide(history.books, app.gateway.clock()))
        self._status = await self._known_status()

    async def _look(self) -> None:
        """Tell what changed: incidents, and what somebody did."""
        frames = await ask(self._changed)
        if frames:
            self._tell(frames)

    async def _look_around(self) -> None:
        """Tell what calls came to, and how the gateway is where that is another."""
        now = self._app.gateway.clock()
        if self._tide is not None:
            figures = await ask(partial(self._tide.look, now))
            self._tell(frame("stats", {"time": moment(now), **figures}))
        status = await self._known_status()
        if status != self._status:
            self._status = status
            self._tell(frame("status", {**status, "now": moment(now)}))

    async def _known_status(self) -> dict[str, Any]:
        """Return the status but for the time; of several workers, none can tell it for all."""
        if self._app.config.gateway.workers > 1:
            return {}
        return {**await status_of(self._app), "now": ""}

    def _tell(self, frames: bytes | None) -> None:
        for listener in list(self._listeners):
            listener.put(frames)

    # On a thread

    def _changed(self) -> bytes:
        history = self._app.desk.history
        found, last = changes(history, self._change, MOST_INCIDENTS)
        latest = history.last_change()
        # Behind the latest there is more than can be told; before it, a history that began anew.
        self._change = latest
        frames = [frame("incident", one) for one in found[:-1]]
        frames += [frame("incident", one, min(last, latest)) for one in found[-1:]]
        for entry in history.audit.since(self._entry):
            self._entry = entry.number
            frames.append(frame("change", {"what": entry.what, "target": entry.target}))
        return b"".join(frames)

    def _missed(self, after: int) -> bytes:
        history = self._app.desk.history
        latest = history.last_change()
        told: list[bytes] = []
        after = min(after, latest)
        while after < latest and len(told) < MOST_MISSED:
            found, after = changes(history, after, MOST_INCIDENTS)
            told += [frame("incident", one) for one in found[:-1]]
            told += [frame("incident", one, after) for one in found[-1:]]
        return b"".join(told)
