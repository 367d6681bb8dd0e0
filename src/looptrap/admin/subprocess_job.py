"""Slow questions: a few at once, each in a process of its own, while the client waits."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import msgspec
from aiohttp import web

from looptrap.admin.api import ApiError
from looptrap.errors import CallError
from looptrap.replay.subprocess_worker import TaskName, run_in_subprocess

JOB_TIMEOUT_S = 15.0
"""Twice the time in which calls are judged, as a busy machine needs it."""

DISCONNECT_POLL_S = 0.1
"""Seconds between two checks whether the client is still connected."""

log = logging.getLogger("looptrap")


class SubprocessJob:
    """Answers one kind of question, `limit` of them at a time."""

    def __init__(self, task: TaskName, limit: int = 1, timeout: float = JOB_TIMEOUT_S) -> None:
        self._task = task
        self._limit = limit
        self._timeout = timeout
        self._running = 0

    async def run(self, request: web.Request, question: msgspec.Struct) -> Any:
        """Return the answer; raise ApiError where there is none."""
        if self._running >= self._limit:
            raise ApiError(429, "busy", "Another such question is being answered. Ask again.")
        self._running += 1
        try:
            work = run_in_subprocess(self._task, question, self._timeout)
            return await self._while_connected(request, work)
        except CallError as error:
            raise ApiError(400, "unreadable", f"This cannot be read: {error}.") from None
        except TimeoutError:
            message = f"This would take more than {self._timeout:g} s. Ask for less."
            raise ApiError(422, "too_slow", message) from None
        except OSError as error:
            # The message contains nothing of the question.
            log.error("%s could not be answered: %s", self._task, error)
            raise ApiError(500, "failed", "This could not be worked out.") from None
        finally:
            self._running -= 1

    async def _while_connected(self, request: web.Request, work: Any) -> Any:
        """Await some work; cancel it when the client disconnects."""
        task = asyncio.ensure_future(work)
        try:
            while not task.done():
                await asyncio.wait([task], timeout=DISCONNECT_POLL_S)
                if request.transport is None or request.transport.is_closing():
                    break
            if not task.done():
                raise ApiError(400, "gone", "The client has disconnected.")
            return task.result()
        finally:
            if not task.done():
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
