"""Questions that take long: a few at once, each in a process of its own, while somebody waits."""

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
"""Seconds for an answer: twice the time in which calls are judged, as a busy machine needs it."""

DISCONNECT_POLL_S = 0.1
"""Seconds between two looks whether whoever asked is still there."""

log = logging.getLogger("looptrap")


class SubprocessJob:
    """Answers one kind of question, `most` of them at a time."""

    def __init__(self, task: TaskName, most: int = 1, patience: float = JOB_TIMEOUT_S) -> None:
        self._task = task
        self._most = most
        self._patience = patience
        self._asked = 0

    async def ask(self, request: web.Request, question: msgspec.Struct) -> Any:
        """Return the answer; what keeps it from coming is raised as an answer itself."""
        if self._asked >= self._most:
            raise ApiError(429, "busy", "Another such question is being answered. Ask again.")
        self._asked += 1
        try:
            return await self._present(
                request, run_in_subprocess(self._task, question, self._patience)
            )
        except CallError as error:
            raise ApiError(400, "unreadable", f"This cannot be read: {error}.") from None
        except TimeoutError:
            message = f"This would take more than {self._patience:g} s. Ask for less."
            raise ApiError(422, "too_slow", message) from None
        except OSError as error:
            # Its words say nothing of what was asked.
            log.error("%s could not be answered: %s", self._task, error)
            raise ApiError(500, "failed", "This could not be worked out.") from None
        finally:
            self._asked -= 1

    async def _present(self, request: web.Request, work: Any) -> Any:
        """Await some work; who leaves meanwhile takes it along."""
        working = asyncio.ensure_future(work)
        try:
            while not working.done():
                await asyncio.wait([working], timeout=DISCONNECT_POLL_S)
                if request.transport is None or request.transport.is_closing():
                    break
            if not working.done():
                raise ApiError(400, "gone", "Nobody waits for the answer any more.")
            return working.result()
        finally:
            if not working.done():
                working.cancel()
                await asyncio.gather(working, return_exceptions=True)
