"""For services that agents call: `app = LoopMiddleware(app)` in front of any ASGI application."""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import time
from collections import deque
from collections.abc import Awaitable, Callable, MutableMapping
from hashlib import blake2b
from pathlib import Path
from typing import Any

from looptrap.client.enforcer import Enforcer, GuardedCall, guard_from_config
from looptrap.config import load
from looptrap.dialect.agent import AUTO, BlockStatus
from looptrap.dialect.answer import Answer, Headers
from looptrap.dialect.model import Outcome, Request
from looptrap.engine import Guard, Transaction

__all__ = ["LoopMiddleware"]

Scope = MutableMapping[str, Any]
AsgiMessage = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[AsgiMessage]]
Send = Callable[[AsgiMessage], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

CREDENTIAL_HEADERS = (b"authorization", b"x-api-key", b"api-key", b"x-goog-api-key")
"""Headers that identify a caller; the first one that is sent does."""

DEFAULT_PRESET = "service"
MAX_LENGTH_DIGITS = 15
"""No body is as long as a length with more of them."""
MAX_BODY_BYTES = 1 << 20
MAX_DELAYED_REQUESTS = 256
"""Throttled requests that are delayed at the same time; one more is refused."""

log = logging.getLogger("looptrap")


class LoopMiddleware:
    """Refuses what goes in circles, and passes everything else on unchanged. Pure ASGI.

    Rules come from the preset `service`, another one, a configuration file, or a guard. Of a body
    longer than `max_body` bytes, only the head of its request is judged.
    """

    def __init__(
        self,
        app: App,
        guard: Guard | None = None,
        *,
        preset: str | None = None,
        config: str | Path | None = None,
        caller: Callable[[Scope], str] | None = None,
        max_body: int = MAX_BODY_BYTES,
        block_status: BlockStatus | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.app = app
        if sum(one is not None for one in (guard, preset, config)) > 1:
            raise TypeError("LoopMiddleware: takes one of guard, preset and config")
        if config is not None:
            settings = load(config, env=os.environ)
            guard, block_status = guard_from_config(settings), block_status or settings.block_status
        self.guard = guard or Guard.from_preset(preset or DEFAULT_PRESET)
        self._enforcer = Enforcer(self.guard, block_status=block_status or AUTO, clock=clock)
        self._caller = caller or self._credential_digest
        self._secret = secrets.token_bytes(32)
        self._max_body = max_body
        self._delayed = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request that goes in circles; pass on all others, and what is no request."""
        # A browser's preflight is no request of an agent.
        if scope["type"] != "http" or scope["method"] == "OPTIONS":
            await self.app(scope, receive, send)
            return
        body = RequestBody(scope, receive, self._max_body)
        await body.read()
        guarded_call = self._judge(scope, body)
        if guarded_call is None:
            await self.app(scope, body.receive, send)
            return
        if guarded_call.answer is not None:
            guarded_call.settle_unsent()
            await send_answer(send, guarded_call.answer)
            return
        sender = VerdictSender(send, guarded_call)
        try:
            if guarded_call.delay:
                await self._delay(guarded_call.delay)
            await self.app(scope, body.receive, sender)
        finally:
            self._enforcer.settle(guarded_call, Outcome(sender.status))

    def _judge(self, scope: Scope, body: RequestBody) -> GuardedCall | None:
        """Judge a request; None if its client has disconnected, or if judging fails."""
        if body.is_disconnected:
            return None
        try:
            guarded_call = self._enforcer.begin(self._request(scope, body))
            guarded_call.enforce(self._enforcer.clock(), can_nudge=False)
            if guarded_call.delay and self._delayed >= MAX_DELAYED_REQUESTS:
                guarded_call.skip_delay()
        except Exception:
            log.exception("%s %r: could not be judged, and passes", scope["method"], scope["path"])
            return None
        return guarded_call

    def _request(self, scope: Scope, body: RequestBody) -> Request:
        headers = [(bytes(name).lower(), bytes(value)) for name, value in scope["headers"]]
        return Request(
            scope["method"],
            scope["path"],
            scope.get("query_string", b"").decode("latin-1"),
            headers,
            body.content,
            self._caller(scope),
            address=_address(scope),
            # Each session of MCP numbers its messages from 1: equal ones mean nothing.
            lacks_body=body.is_missing or _is_mcp(dict(headers), body.content),
        )

    def _credential_digest(self, scope: Scope) -> str:
        """Return the caller: a digest of its credential, else its address."""
        sent = dict(scope["headers"])
        for name in CREDENTIAL_HEADERS:
            if credential := sent.get(name):
                # "Bearer k" and "bearer  k" are one credential.
                scheme, *rest = credential.split(None, 1) or [b""]
                credential = b" ".join([scheme.lower(), *rest]) if rest else credential
                keyed = blake2b(credential, digest_size=8, key=self._secret)
                return f"cred:{keyed.hexdigest()}"
        return f"addr:{_address(scope)}"

    async def _delay(self, seconds: float) -> None:
        self._delayed += 1
        try:
            await asyncio.sleep(seconds)
        finally:
            self._delayed -= 1


class RequestBody:
    """The body of a request: read up to a size for judging, then passed to the service."""

    def __init__(self, scope: Scope, receive: Receive, max_bytes: int) -> None:
        length = dict(scope["headers"]).get(b"content-length", b"")
        is_empty = scope["method"] in ("GET", "HEAD") and not length
        is_long = length.isdigit() and (len(length) > MAX_LENGTH_DIGITS or int(length) > max_bytes)
        self._is_readable = not is_empty and not is_long
        self._receive = receive
        self._max_bytes = max_bytes
        self._messages: deque[AsgiMessage] = deque()
        self.content = b""
        self.is_missing = is_long
        """Whether it is too long to be judged."""
        self.is_disconnected = False
        """Whether the client disconnected while it was read."""

    async def read(self) -> None:
        """Read the body, unless it is too long."""
        parts, size, has_more = [], 0, self._is_readable
        while has_more:
            message = await self._receive()
            self._messages.append(message)
            if message["type"] != "http.request":
                self.is_disconnected = True
                return
            parts.append(message.get("body", b""))
            size += len(parts[-1])
            has_more = message.get("more_body", False)
            if size > self._max_bytes:
                self.is_missing = True
                return
        self.content = b"".join(parts)

    async def receive(self) -> AsgiMessage:
        """Return the messages that were read, one by one, then those that follow."""
        return self._messages.popleft() if self._messages else await self._receive()


class VerdictSender:
    """A `send` that adds the verdict to the head of the answer."""

    def __init__(self, send: Send, transaction: Transaction) -> None:
        self._send = send
        self._headers = _lowercase_names(transaction.headers)
        self.status = 0
        """The service's; 0 until it answers."""

    async def __call__(self, message: AsgiMessage) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            message = {**message, "headers": [*message.get("headers", ()), *self._headers]}
        await self._send(message)


async def send_answer(send: Send, answer: Answer) -> None:
    """Send a complete answer."""
    length = (b"content-length", b"%d" % len(answer.body))
    headers = [*_lowercase_names(answer.headers), length]
    await send({"type": "http.response.start", "status": answer.status, "headers": headers})
    await send({"type": "http.response.body", "body": answer.body})


def _lowercase_names(headers: Headers) -> Headers:
    return [(name.lower(), value) for name, value in headers]  # as ASGI requires


def _address(scope: Scope) -> str:
    client = scope.get("client")
    return str(client[0]) if client else ""


def _is_mcp(sent: dict[bytes, bytes], body: bytes) -> bool:
    """Return whether a request is part of MCP, whose clients must accept a stream."""
    if b"mcp-session-id" in sent:
        return True
    return b'"jsonrpc"' in body and b"text/event-stream" in sent.get(b"accept", b"")
