"""Answers of a service over ASGI: what is said in their heads, and those that are given for it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from looptrap.admission import Ticket
from looptrap.answer.answer import Answer
from looptrap.client.inbound import Message
from looptrap.policy.header import Headers, headers_of

Send = Callable[[Message], Awaitable[None]]


class Telling:
    """A `send` that adds to the answer's head what was decided."""

    def __init__(self, send: Send, ticket: Ticket) -> None:
        self._send = send
        self._told = _lowered(headers_of(ticket.verdict, ticket.shadow, ticket.pace))
        self.status = 0
        """The service's; 0 until it answers."""

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            message = {**message, "headers": [*message.get("headers", ()), *self._told]}
        await self._send(message)


async def give(send: Send, answer: Answer) -> None:
    """Send an answer in one piece."""
    length = (b"content-length", b"%d" % len(answer.body))
    headers = [*_lowered(answer.headers), length]
    await send({"type": "http.response.start", "status": answer.status, "headers": headers})
    await send({"type": "http.response.body", "body": answer.body})


def _lowered(headers: Headers) -> Headers:
    """Return headers as ASGI wants them."""
    return [(name.lower(), value) for name, value in headers]
