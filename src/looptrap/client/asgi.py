"""The middleware of a service that agents call: judges its requests before the service does."""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import time
from collections import deque
from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Any

from looptrap.client.guard_factory import guard_from_config
from looptrap.config import load
from looptrap.dialect.answer import Answer, Headers
from looptrap.dialect.header import PROGRESS, is_retry, session_of
from looptrap.dialect.model import Call, Outcome, Request
from looptrap.dialect.registry import read
from looptrap.engine import Guard, RequestIds, Transaction

Scope = MutableMapping[str, Any]
AsgiMessage = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[AsgiMessage]]

CREDENTIAL_HEADERS = (b"authorization", b"x-api-key", b"api-key", b"x-goog-api-key")
"""The headers that say who asks, the first one sent first."""

MAX_LENGTH_DIGITS = 15
"""No body is as long as a length with more of them."""


class RequestBody:
    """The body of a request: looked at, up to a size, and given to the service all the same."""

    def __init__(self, scope: Scope, receive: Receive, most: int) -> None:
        sent = dict(scope["headers"])
        length = sent.get(b"content-length", b"")
        is_read = scope["method"] in ("GET", "HEAD") and not length
        is_long = length.isdigit() and (len(length) > MAX_LENGTH_DIGITS or int(length) > most)
        self._is_wanted = not is_read and not is_long
        self._receive = receive
        self._most = most
        self._read: deque[AsgiMessage] = deque()
        self.content = b""
        self.is_missing = is_long
        """It is larger than what is looked at."""
        self.is_gone = False
        """The client went away while it was read."""

    async def read(self) -> None:
        """Read the body, unless it is larger than what is looked at."""
        parts, size, has_more = [], 0, self._is_wanted
        while has_more:
            message = await self._receive()
            self._read.append(message)
            if message["type"] != "http.request":
                self.is_gone = True
                return
            parts.append(message.get("body", b""))
            size += len(parts[-1])
            has_more = message.get("more_body", False)
            if size > self._most:
                self.is_missing = True
                return
        self.content = b"".join(parts)

    async def receive(self) -> AsgiMessage:
        """Give what was read, message by message, then what comes: the client's going away too."""
        return self._read.popleft() if self._read else await self._receive()


class RequestReader:
    """Reads requests as calls, each under whoever sent it."""

    def __init__(
        self, session_headers: Sequence[bytes], caller: Callable[[Scope], str] | None
    ) -> None:
        self._sessions = session_headers
        self._caller = caller or self._told_caller
        self._secret = secrets.token_bytes(32)

    def read(self, scope: Scope, body: RequestBody) -> Call:
        """Return a request in neutral form."""
        headers = [(bytes(name).lower(), bytes(value)) for name, value in scope["headers"]]
        sent = dict(headers)
        return read(
            Request(
                scope["method"],
                scope["path"],
                scope.get("query_string", b"").decode("latin-1"),
                headers,
                body.content,
                self._caller(scope),
                session=session_of(sent, self._sessions),
                address=_address(scope),
                is_retry=is_retry(sent),
                progress=sent.get(PROGRESS, b"").decode("latin-1"),
                # In each session of MCP messages are numbered anew: equal ones mean nothing.
                lacks_body=body.is_missing or _is_mcp(sent, body.content),
            )
        )

    def _told_caller(self, scope: Scope) -> str:
        """Return who asks: by a digest of the credential, never by itself; else by the address."""
        sent = dict(scope["headers"])
        for name in CREDENTIAL_HEADERS:
            if credential := sent.get(name):
                # "Bearer k" and "bearer  k" are one credential.
                scheme, *rest = credential.split(None, 1) or [b""]
                credential = b" ".join([scheme.lower(), *rest]) if rest else credential
                keyed = blake2b(credential, digest_size=8, key=self._secret)
                return f"cred:{keyed.hexdigest()}"
        return f"addr:{_address(scope)}"


def _address(scope: Scope) -> str:
    client = scope.get("client")
    return str(client[0]) if client else ""


def _is_mcp(sent: dict[bytes, bytes], body: bytes) -> bool:
    """Say whether it is part of MCP, whose clients have to take a stream for an answer."""
    if b"mcp-session-id" in sent:
        return True
    return b'"jsonrpc"' in body and b"text/event-stream" in sent.get(b"accept", b"")


Send = Callable[[AsgiMessage], Awaitable[None]]


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
    """Send an answer in one piece."""
    length = (b"content-length", b"%d" % len(answer.body))
    headers = [*_lowercase_names(answer.headers), length]
    await send({"type": "http.response.start", "status": answer.status, "headers": headers})
    await send({"type": "http.response.body", "body": answer.body})


def _lowercase_names(headers: Headers) -> Headers:
    """Return headers as ASGI wants them."""
    return [(name.lower(), value) for name, value in headers]


log = logging.getLogger("looptrap")

DEFAULT_PRESET = "service"
"""Where the rules come from, unless somebody says otherwise."""

MAX_BODY_BYTES = 1 << 20
MAX_DELAYED_REQUESTS = 256
"""Throttled requests that are delayed at the same time; one more is refused."""

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
        max_body: int = MAX_BODY_BYTES,
        block_status: int | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.app = app
        if sum(one is not None for one in (guard, preset, config)) > 1:
            raise TypeError("LoopMiddleware: takes one of guard, preset and config")
        if config is not None:
            settings = load(config, env=os.environ)
            guard, block_status = guard_from_config(settings), block_status or settings.block_status
        self.guard = guard or Guard.from_preset(preset or DEFAULT_PRESET)
        self._requests = RequestReader(self.guard.session_headers, caller)
        self._block_status = block_status or 429
        self._max_body = max_body
        self._clock = clock
        self._ids = RequestIds()
        self._delayed = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request that goes in circles; hand on all others, and what is no request."""
        # What a browser asks before a request is no request of an agent.
        if scope["type"] != "http" or scope["method"] == "OPTIONS":
            await self.app(scope, receive, send)
            return
        body = RequestBody(scope, receive, self._max_body)
        await body.read()
        transaction = self._judge(scope, body)
        if transaction is None:
            await self.app(scope, body.receive, send)
            return
        if transaction.answer is not None:
            self.guard.conclude(transaction.ticket, None, self._clock())
            await send_answer(send, transaction.answer)
            return
        sender = VerdictSender(send, transaction)
        try:
            if transaction.delay:
                await self._delay(transaction.delay)
            await self.app(scope, body.receive, sender)
        finally:
            self.guard.conclude(transaction.ticket, Outcome(sender.status), self._clock())

    def _judge(self, scope: Scope, body: RequestBody) -> Transaction | None:
        """Return a request's transaction; None if its client is gone, or if judging fails."""
        if body.is_gone:
            return None
        try:
            call, now = self._requests.read(scope, body), self._clock()
            transaction = Transaction(
                self.guard,
                call,
                request_id=call.request.header(b"x-request-id") or b"",
                ids=self._ids,
                block_status=self._block_status,
            )
            self.guard.begin(transaction, now)
            transaction.enforce(now, can_nudge=False)
            if transaction.delay and self._delayed >= MAX_DELAYED_REQUESTS:
                transaction.skip_delay()
        except Exception:
            log.exception("%s %r: could not be judged, and passes", scope["method"], scope["path"])
            return None
        return transaction

    async def _delay(self, seconds: float) -> None:
        self._delayed += 1
        try:
            await asyncio.sleep(seconds)
        finally:
            self._delayed -= 1
