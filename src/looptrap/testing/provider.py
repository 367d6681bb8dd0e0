"""The fake provider: listens, keeps what it received, answers by a script."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from http.client import responses
from types import TracebackType
from typing import Self

import uvloop

from looptrap.testing.gate import Signal
from looptrap.testing.received import Received
from looptrap.testing.render import Rendered, is_plain, render
from looptrap.testing.reply import Raw, Reply
from looptrap.wire.exchange import Exchange
from looptrap.wire.server import Server

Script = Callable[[Received], Reply | None] | Sequence[Reply]
"""A function of the request (None: the usual answer), or replies used in turn, then the last one
again. A list answers models only: embeddings, token counts and lists of models do not use it up."""


class FakeProvider:
    """A provider on 127.0.0.1 that answers every client as OpenAI, Anthropic or Gemini would."""

    def __init__(self, script: Script = ()) -> None:
        self.url = ""
        self.requests: list[Received] = []
        self.calls = 0
        """How many of the requests asked a model for an answer."""
        self.disconnects = 0
        """How many clients left before their answer was complete."""
        self._script = script
        self._used = 0
        self._server: Server | None = None
        self._errors: list[BaseException] = []
        self._deliveries: set[asyncio.Future[None]] = set()

    @classmethod
    @contextmanager
    def running(cls, script: Script = ()) -> Iterator[Self]:
        """Serve on a thread and loop of its own, for code that has none."""
        provider = cls(script)
        ready, over = Signal(), Signal()
        failures: list[BaseException] = []

        async def serve() -> None:
            try:
                async with provider:
                    ready.set()
                    await over.wait(timeout=None)
            except Exception as error:  # noqa: BLE001 - raised again by the thread that waits
                failures.append(error)
            finally:
                ready.set()

        def work() -> None:
            with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                runner.run(serve())

        thread = threading.Thread(target=work, name="fake-provider", daemon=True)
        thread.start()
        try:
            ready.wait_blocking()
            if not failures:
                yield provider
        finally:
            over.set()
            thread.join()
        if failures:
            raise failures[0]

    async def __aenter__(self) -> Self:
        server = self._server = Server(self, on_error=self._errors.append)
        [(host, port)] = await server.listen("127.0.0.1", 0)
        self.url = f"http://{host}:{port}"
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        assert self._server is not None
        await self._server.close(grace=0)
        await asyncio.gather(*self._deliveries, return_exceptions=True)
        # A script that failed fails whoever runs it, unless that has failed already.
        if self._errors and error is None:
            raise self._errors[0]

    # What the wire tells

    def on_head(self, exchange: Exchange) -> None:
        """Wait for the body."""

    def on_request(self, exchange: Exchange) -> None:
        """Answer by the script."""
        received = Received.of(exchange.method, exchange.target, exchange.headers, exchange.body)
        self.requests.append(received)
        self.calls += received.call.generates
        reply = self._choose(received)
        if isinstance(reply.content, Raw):
            _close(exchange, reply.content.data)
            return
        rendered = render(received, reply.content, len(self.requests))
        if not rendered.streams and not reply.pauses and reply.cut is None:
            exchange.answer(rendered.status, rendered.headers, b"".join(rendered.chunks))
            return
        exchange.state = task = asyncio.ensure_future(_deliver(exchange, rendered, reply))
        self._deliveries.add(task)
        task.add_done_callback(partial(self._delivered, exchange))

    def on_disconnect(self, exchange: Exchange) -> None:
        """Stop answering a client that went away, or whose script failed."""
        self.disconnects += not exchange.is_open
        if exchange.state is not None:
            exchange.state.cancel()

    def _delivered(self, exchange: Exchange, task: asyncio.Future[None]) -> None:
        self._deliveries.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None:
            self._errors.append(error)
            exchange.abort()

    def _choose(self, received: Received) -> Reply:
        if callable(self._script):
            return self._script(received) or Reply.text()
        if not self._script or is_plain(received):
            return Reply.text()
        reply = self._script[min(self._used, len(self._script) - 1)]
        self._used += 1
        return reply


async def _deliver(exchange: Exchange, rendered: Rendered, reply: Reply) -> None:
    """Send an answer chunk by chunk, with the interruptions that the reply asks for."""
    await _wait(reply, None)
    if reply.cut is not None and reply.cut.comes_first:
        _close(exchange)
        return
    length = None if rendered.streams else sum(map(len, rendered.chunks))
    reason = responses.get(rendered.status, "").encode()
    exchange.begin(rendered.status, reason, rendered.headers, length)
    exchange.flush()
    await _wait(reply, 0)
    chunks = rendered.chunks if reply.cut is None else reply.cut.leave(rendered.chunks)
    for sent, chunk in enumerate(chunks, start=1):
        exchange.write(chunk)
        exchange.flush()
        await _wait(reply, sent)
    if reply.cut is None:
        exchange.finish()
    else:
        _close(exchange)


async def _wait(reply: Reply, sent: int | None) -> None:
    for pause in reply.pauses:
        if pause.after_chunks == sent:
            await pause.gate.passed()


def _close(exchange: Exchange, data: bytes = b"") -> None:
    """Close the connection politely, after `data`: the client gets all that was sent, no more.

    An exchange would reset it instead, and what the client has not read yet would be lost.
    """
    connection = exchange._connection
    if connection.exchange is exchange:
        connection.transport.write(data)
        connection.release(keep_alive=False)
