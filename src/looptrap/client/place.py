"""Places: where calls of tools are made that no session tells apart."""

from __future__ import annotations

import asyncio
from contextvars import ContextVar
from threading import current_thread
from weakref import ref

from looptrap.client.trail import Trail


class Place:
    """One thread or task; or all that is done for one call of a tool."""

    __slots__ = ("_runner", "session", "trails")

    def __init__(self, session: str, runner: object | None = None) -> None:
        self.session = session
        """In which it is; what is called in another belongs to that."""
        # Tasks inherit the place of whoever starts them, and may work for somebody else.
        self._runner = ref(runner) if runner is not None else None
        self.trails: dict[object, Trail] = {}
        """By who judges."""

    def holds(self, session: str) -> bool:
        """Say whether what is called now, in that session, is called there."""
        return self.session == session and (self._runner is None or self._runner() is runner())


here: ContextVar[Place | None] = ContextVar("looptrap_place", default=None)


def runner() -> object:
    """Return the task, or else the thread, in which this code runs."""
    try:
        task = asyncio.current_task()
    except RuntimeError:
        task = None
    return task or current_thread()
