"""Slow clients of the admin address: the process that serves them has calls to guard as well."""

from __future__ import annotations

import asyncio
from typing import NamedTuple

from aiohttp import web

from looptrap.admin.answer import BadRequest


class Patience(NamedTuple):
    """How many seconds a client has."""

    body: float = 10.0
    """For the body of a request to arrive."""
    read_on: float = 30.0
    """To take an answer, or the next piece of a stream."""
    idle: float = 60.0
    """For the head of the next request."""

    async def arrive(self, request: web.Request) -> None:
        """Wait for the whole body of a request."""
        try:
            async with asyncio.timeout(self.body):
                await request.read()
        except TimeoutError:
            message = f"The request did not arrive within {self.body:g} s."
            raise BadRequest(408, "request_timeout", message) from None
        except web.RequestPayloadError:
            raise BadRequest(400, "bad_request", "The body of the request is broken.") from None

    async def deliver(self, request: web.Request, answer: web.StreamResponse) -> web.StreamResponse:
        """Send an answer that is there as a whole; whoever does not take it is cut off."""
        if not isinstance(answer, web.Response):
            return answer  # a stream, whose sender knows how long it waits
        try:
            async with asyncio.timeout(self.read_on):
                await answer.prepare(request)
                await answer.write_eof()
        except TimeoutError:
            if request.transport is not None:
                request.transport.abort()
        return answer
