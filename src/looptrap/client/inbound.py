"""Requests that a service gets over ASGI: their bodies, read and replayed, and who sends them."""

from __future__ import annotations

import secrets
from collections import deque
from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from hashlib import blake2b
from itertools import count
from typing import Any

from looptrap.call.header import PROGRESS, is_retry, session_of
from looptrap.call.model import Call, Request
from looptrap.call.read import read

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]

CREDENTIALS = (b"authorization", b"x-api-key", b"api-key", b"x-goog-api-key")
"""The headers that say who asks, the first one sent first."""

MOST_DIGITS = 15
"""No body is as long as a length with more of them."""


class Body:
    """The body of a request: looked at, up to a size, and given to the service all the same."""

    def __init__(self, scope: Scope, receive: Receive, most: int) -> None:
        sent = dict(scope["headers"])
        length = sent.get(b"content-length", b"")
        is_read = scope["method"] in ("GET", "HEAD") and not length
        is_long = length.isdigit() and (len(length) > MOST_DIGITS or int(length) > most)
        self._is_wanted = not is_read and not is_long
        self._receive = receive
        self._most = most
        self._read: deque[Message] = deque()
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

    async def receive(self) -> Message:
        """Give what was read, message by message, then what comes: the client's going away too."""
        return self._read.popleft() if self._read else await self._receive()


class Requests:
    """Reads requests as calls, each under whoever sent it."""

    def __init__(
        self, session_headers: Sequence[bytes], caller: Callable[[Scope], str] | None
    ) -> None:
        self._sessions = session_headers
        self._caller = caller or self._told_caller
        self._secret = secrets.token_bytes(32)
        self._prefix = secrets.token_hex(6)
        self._numbers = count(1)

    def read(self, scope: Scope, body: Body) -> Call:
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

    def id_of(self, call: Call) -> str:
        """Return the id of a request: the client's own, or a new one."""
        sent = call.request.header(b"x-request-id")
        return sent.decode("latin-1") if sent else f"lt-{self._prefix}-{next(self._numbers):x}"

    def _told_caller(self, scope: Scope) -> str:
        """Return who asks: by a digest of the credential, never by itself; else by the address."""
        sent = dict(scope["headers"])
        for name in CREDENTIALS:
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
