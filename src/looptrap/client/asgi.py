"""The middleware of a service that agents call: judges its requests before the service does."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from msgspec.structs import replace

from looptrap.admission import Guard, Ticket
from looptrap.answer.answer import Answer
from looptrap.answer.refuse import refusal
from looptrap.answer.stop import final_message
from looptrap.call.model import Outcome
from looptrap.client.configured import guard_of
from looptrap.client.inbound import Body, Receive, Requests, Scope
from looptrap.client.outbound import Send, Telling, give
from looptrap.config import load
from looptrap.policy.action import Action

log = logging.getLogger("looptrap")

PRESET = "service"
"""Where the rules come from, unless somebody says otherwise."""

MAX_BODY = 1 << 20
MOST_HELD = 256
"""Throttled requests that are held back at once; one more is refused."""

App = Callable[[Scope, Receive, Send], Awaitable[None]]


class LoopMiddleware:
    """Refuses what goes in circles, and passes everything else on as it came. Pure ASGI.

    By the preset `service`, another one, a configuration file, or a guard. Bodies are looked at up
    to `max_body` bytes; of larger ones only what their heads say is judged.
    """

    def __init__(
        self,
        app: App,
        guard: Guard | None = None,
        *,
        preset: str | None = None,
        config: str | Path | None = None,
        caller: Callable[[Scope], str] | None = None,
        max_body: int = MAX_BODY,
        block_status: int | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.app = app
        if sum(one is not None for one in (guard, preset, config)) > 1:
            raise TypeError("LoopMiddleware: takes one of guard, preset and config")
        if config is not None:
            settings = load(config, env=os.environ)
            guard, block_status = guard_of(settings), block_status or settings.block_status
        self.guard = guard or Guard.from_preset(preset or PRESET)
        self._requests = Requests(self.guard.session_headers, caller)
        self._block_status = block_status or 429
        self._max_body = max_body
        self._clock = clock
        self._held = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request that goes in circles; hand on all others, and what is no request."""
        # What a browser asks before a request is no request of an agent.
        if scope["type"] != "http" or scope["method"] == "OPTIONS":
            await self.app(scope, receive, send)
            return
        body = Body(scope, receive, self._max_body)
        await body.read()
        ticket = self._judged(scope, body)
        if ticket is None:
            await self.app(scope, body.receive, send)
            return
        action, is_full = ticket.verdict.action, self._held >= MOST_HELD
        if action.refuses or (action is Action.THROTTLE and is_full):
            await give(send, self._refused(ticket))
            return
        telling = Telling(send, ticket)
        try:
            if action is Action.THROTTLE:
                await self._hold_back(ticket.verdict.delay)
            await self.app(scope, body.receive, telling)
        finally:
            self.guard.conclude(ticket, Outcome(telling.status), self._clock())

    def _judged(self, scope: Scope, body: Body) -> Ticket | None:
        """Return the ticket of a request; None for one that is gone, or if we fail at it."""
        if body.is_gone:
            return None
        try:
            return self.guard.admit(self._requests.read(scope, body), self._clock())
        except Exception:
            log.exception("%s %r: could not be judged, and passes", scope["method"], scope["path"])
            return None

    async def _hold_back(self, delay: float) -> None:
        self._held += 1
        try:
            await asyncio.sleep(delay)
        finally:
            self._held -= 1

    def _refused(self, ticket: Ticket) -> Answer:
        call, verdict, shadow = ticket.call, ticket.verdict, ticket.shadow
        request_id, now = self._requests.id_of(call), self._clock()
        answer: Answer | None = None
        if verdict.action is Action.STOP:
            answer = final_message(call, verdict, shadow=shadow, request_id=request_id, now=now)
        if answer is None:
            answer = refusal(
                call,
                verdict,
                shadow=shadow,
                pace=ticket.pace,
                request_id=request_id,
                block_status=self._block_status,
            )
            ticket.verdict = replace(verdict, action=Action.BLOCK)
        self.guard.conclude(ticket, None, now)
        return answer
