"""The fake provider: listens, keeps what it received, answers by a script."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from http.client import responses
from types import TracebackType
from typing import Any, Self

import msgspec
import uvloop

from looptrap.dialect.content import encode
from looptrap.dialect.fake_answer import CREATED_AT, ModelAnswer, estimate_tokens
from looptrap.dialect.model import Call, Json, Request
from looptrap.dialect.registry import DIALECTS, read
from looptrap.dialect.stream import EVENT_STREAM, JSON
from looptrap.testing.reply import EventsReply, ModelTurn, RawReply, Reply, Signal, StatusReply
from looptrap.wire.exchange import Exchange
from looptrap.wire.header_fields import Field
from looptrap.wire.server import Server


@dataclass(frozen=True, slots=True)
class Received:
    """A request; header names are lower-case, repeated headers joined by commas."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes
    call: Call
    """The same in neutral form: dialect, model, messages."""

    def json(self) -> Any:
        """Decode the body."""
        return msgspec.json.decode(self.body)

    @classmethod
    def of(
        cls, method: bytes, target: bytes, fields: Sequence[tuple[bytes, bytes]], body: bytes
    ) -> Received:
        """Take in a request as the wire delivers it."""
        headers: dict[str, str] = {}
        for name, value in fields:
            key, text = name.decode("latin-1"), value.decode("latin-1")
            headers[key] = f"{headers[key]}, {text}" if key in headers else text
        path, _, query = target.decode("latin-1").partition("?")
        request = Request(
            method=method.decode("latin-1"), path=path, query=query, headers=fields, body=body
        )
        return cls(request.method, target.decode("latin-1"), headers, body, read(request))


MODELS = ("gpt-5.3-codex", "claude-opus-4-7", "gemini-3.1-pro")


@dataclass(frozen=True, slots=True)
class RenderedReply:
    """An answer ready for the wire; one that streams has no length."""

    status: int
    headers: list[Field]
    chunks: list[bytes]
    streams: bool = False


def render(
    received: Received, content: ModelTurn | StatusReply | EventsReply, number: int
) -> RenderedReply:
    """Return the answer to `received`, the provider's `number`-th."""
    match content:
        case EventsReply(chunks):
            return _stream(chunks, EVENT_STREAM)
        case StatusReply(code, body, headers):
            return _status(received, code, body, list(headers.items()))
        case ModelTurn():
            return _turn(received, content, number)


def is_fixed_endpoint(received: Received) -> bool:
    """Is it an endpoint with an answer of its own: embeddings, token counts, lists of models?"""
    return _fixed_reply(received) is not None


def _fixed_reply(received: Received) -> RenderedReply | None:
    call = received.call
    if received.method == "GET":
        before, _, name = call.request.path.rstrip("/").rpartition("/")
        if name == "models":
            return _whole({"object": "list", "data": [_model(one) for one in MODELS]})
        if before.endswith("/models"):
            return _whole(_model(name))
    fixed = DIALECTS[call.dialect].fake_fixed
    if fixed is None or call.generates or call.opaque:
        return None
    return _whole(fixed(call))


def _model(name: str) -> Json:
    return {"id": name, "object": "model", "created": CREATED_AT, "owned_by": "looptrap"}


def _turn(received: Received, turn: ModelTurn, number: int) -> RenderedReply:
    """Let the model speak; where no dialect is spoken, there is nothing to be found."""
    plain = _fixed_reply(received)
    if plain is not None:
        return plain
    call = received.call
    dialect = DIALECTS[call.dialect]
    if dialect.fake is None:
        return _status(received, 404, None, [])
    tokens = turn.tokens or estimate_tokens(received.body, turn.text, turn.calls)
    answer = ModelAnswer(number, call.model, turn.text, turn.calls, tokens)
    if not call.stream:
        return _whole(dialect.fake.body(answer, call))
    kind = EVENT_STREAM if dialect.is_event_stream(call) else JSON
    return _stream(dialect.fake.stream(answer, call), kind)


def _whole(body: object) -> RenderedReply:
    return RenderedReply(200, [(b"Content-Type", JSON)], [encode(body)])


def _stream(chunks: Iterable[bytes], kind: bytes) -> RenderedReply:
    headers = [(b"Content-Type", kind), (b"Cache-Control", b"no-cache")]
    return RenderedReply(200, headers, list(chunks), streams=True)


def _status(
    received: Received, code: int, body: object, extra: list[tuple[str, str]]
) -> RenderedReply:
    if body is None:
        body = DIALECTS[received.call.dialect].fake_error(code)
    given = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in extra]
    if not any(name.lower() == b"content-type" for name, _ in given):
        given.insert(0, (b"Content-Type", JSON))
    return RenderedReply(code, given, [body if isinstance(body, bytes) else encode(body)])


FakeExchange = Exchange[asyncio.Future[None]]

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
        # A script that failed fails the test that runs it, unless that has failed already.
        if self._errors and error is None:
            raise self._errors[0]

    # Events of the wire

    def on_head(self, exchange: FakeExchange) -> None:
        """Wait for the body."""

    def on_request(self, exchange: FakeExchange) -> None:
        """Answer by the script."""
        received = Received.of(exchange.method, exchange.target, exchange.headers, exchange.body)
        self.requests.append(received)
        self.calls += received.call.generates
        reply = self._choose(received)
        if isinstance(reply.content, RawReply):
            _close(exchange, reply.content.data)
            return
        rendered = render(received, reply.content, len(self.requests))
        if not rendered.streams and not reply.pauses and reply.cut is None:
            exchange.answer(rendered.status, rendered.headers, b"".join(rendered.chunks))
            return
        exchange.state = task = asyncio.ensure_future(_deliver(exchange, rendered, reply))
        self._deliveries.add(task)
        task.add_done_callback(partial(self._delivered, exchange))

    def on_disconnect(self, exchange: FakeExchange) -> None:
        """Stop answering a client that went away, or whose script failed."""
        self.disconnects += not exchange.is_open
        if exchange.state is not None:
            exchange.state.cancel()

    def _delivered(self, exchange: FakeExchange, task: asyncio.Future[None]) -> None:
        self._deliveries.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None:
            self._errors.append(error)
            exchange.abort()

    def _choose(self, received: Received) -> Reply:
        if callable(self._script):
            return self._script(received) or Reply.text()
        if not self._script or is_fixed_endpoint(received):
            return Reply.text()
        reply = self._script[min(self._used, len(self._script) - 1)]
        self._used += 1
        return reply


async def _deliver(exchange: FakeExchange, rendered: RenderedReply, reply: Reply) -> None:
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


def _close(exchange: FakeExchange, data: bytes = b"") -> None:
    """Close the connection politely, after `data`: the client gets all that was sent, no more.

    An exchange would reset it instead, and what the client has not read yet would be lost.
    """
    connection = exchange._connection
    if connection.exchange is exchange:
        connection.transport.write(data)
        connection.release(keep_alive=False)
