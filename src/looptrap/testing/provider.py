"""The fake provider: listens, records requests, and answers by a script."""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from http.client import responses
from typing import Any, Self

import msgspec
import uvloop

from looptrap.dialect.answer import decode_body, failure_body
from looptrap.dialect.content import encode
from looptrap.dialect.dialect import ModelAnswer
from looptrap.dialect.model import BYTES_PER_TOKEN, Call, Json, Request, Usage
from looptrap.dialect.registry import DIALECTS, read
from looptrap.dialect.stream import EVENT_STREAM, JSON
from looptrap.testing.reply import ModelTurn, RenderedReply, Reply, Signal, StatusReply
from looptrap.wire.exchange import Exchange
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
        """Read a request from the wire."""
        headers: dict[str, str] = {}
        for name, value in fields:
            key, text = name.decode("latin-1"), value.decode("latin-1")
            headers[key] = f"{headers[key]}, {text}" if key in headers else text
        verb, place = method.decode("latin-1"), target.decode("latin-1")
        path, _, query = place.partition("?")
        request = Request(method=verb, path=path, query=query, headers=fields, body=body)
        return cls(verb, place, headers, body, read(request))


MODELS = ("gpt-5.3-codex", "claude-opus-4-7", "gemini-3.1-pro")

CREATED_AT = 1_750_000_000
"""The time of every answer, so that equal requests get equal answers."""


def render(
    received: Received, content: ModelTurn | StatusReply | RenderedReply, number: int
) -> RenderedReply:
    """Return the answer to `received`, the provider's `number`-th."""
    match content:
        case RenderedReply():
            return content
        case StatusReply(code, body, headers):
            return _status(received, code, body, headers)
        case ModelTurn():
            return render_without_model(received) or _render_turn(received, content, number)


def render_without_model(received: Received) -> RenderedReply | None:
    """Return the answer of an endpoint without a model: embeddings, token counts, models."""
    call = received.call
    if received.method == "GET":
        parent, _, name = call.request.path.rstrip("/").rpartition("/")
        if name == "models":
            return _whole({"object": "list", "data": [_model(model) for model in MODELS]})
        if parent.endswith("/models"):
            return _whole(_model(name))
    fake = DIALECTS[call.dialect].fake_without_model
    if fake is None or call.generates or call.is_opaque:
        return None
    return _whole(fake(call))


def _model(name: str) -> Json:
    return {"id": name, "object": "model", "created": CREATED_AT, "owned_by": "looptrap"}


def _render_turn(received: Received, turn: ModelTurn, number: int) -> RenderedReply:
    call = received.call
    dialect = DIALECTS[call.dialect]
    if dialect.writer is None:
        return _status(received, 404, None, {})
    answer = ModelAnswer(
        call,
        decode_body(call) or {},
        f"fake-{number}",
        CREATED_AT,
        re.findall(r"\S+\s*|\s+", turn.text),
        turn.calls,
        _usage(received, turn),
    )
    if not call.stream:
        return _whole(dialect.writer.body(answer))
    content_type = EVENT_STREAM if dialect.is_event_stream(call) else JSON
    return RenderedReply.stream(dialect.writer.stream(answer), content_type)


def _usage(received: Received, turn: ModelTurn) -> Usage:
    """Return the usage of the script, or an estimate from the sizes."""
    if (tokens := turn.tokens) is not None:
        return Usage(tokens.input, tokens.output, tokens.cached, tokens.reasoning)
    size = len(turn.text.encode()) + sum(len(encode(call)) for call in turn.calls)
    return Usage(max(1, len(received.body) // BYTES_PER_TOKEN), max(1, size // BYTES_PER_TOKEN))


def _whole(body: object) -> RenderedReply:
    return RenderedReply(200, [(b"Content-Type", JSON)], [encode(body)])


def _status(
    received: Received, code: int, body: object, headers: Mapping[str, str]
) -> RenderedReply:
    if body is None:
        message = f"The fake provider answers {code}."
        body = failure_body(received.call.dialect, code, "fake_error", message, "req_fake")
        body.pop("detail", None)  # which only Looptrap's own errors have
    fields = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()]
    if not any(name.lower() == b"content-type" for name, _ in fields):
        fields.insert(0, (b"Content-Type", JSON))
    return RenderedReply(code, fields, [body if isinstance(body, bytes) else encode(body)])


FakeExchange = Exchange[asyncio.Future[None]]

Script = Callable[[Received], Reply | None] | Sequence[Reply]
"""A function of the request (None: the default answer), or replies in order, the last one repeated.
Endpoints without a model (embeddings, token counts, lists of models) use none of the replies."""


class FakeProvider:
    """A provider on 127.0.0.1 that answers every client as OpenAI, Anthropic or Gemini would."""

    def __init__(self, script: Script = ()) -> None:
        self.url = ""
        self.requests: list[Received] = []
        self.calls = 0
        """The number of requests to a model."""
        self.disconnects = 0
        """The number of clients that left before their answer was complete."""
        self._script = script
        self._replies_used = 0
        self._server: Server | None = None
        self._errors: list[BaseException] = []
        self._deliveries: set[asyncio.Future[None]] = set()

    @classmethod
    @contextmanager
    def running(cls, script: Script = ()) -> Iterator[Self]:
        """Serve on a thread and a loop of its own, for code without a loop."""
        provider = cls(script)
        ready, done = Signal(), Signal()
        failures: list[BaseException] = []

        async def serve() -> None:
            try:
                async with provider:
                    ready.set()
                    await done.wait(timeout=None)
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
            done.set()
            thread.join()
        if failures:
            raise failures[0]

    async def __aenter__(self) -> Self:
        server = self._server = Server(self, on_error=self._errors.append)
        [(host, port)] = await server.listen("127.0.0.1", 0)
        self.url = f"http://{host}:{port}"
        return self

    async def __aexit__(self, kind: object, error: object, traceback: object) -> None:
        assert self._server is not None
        await self._server.close(grace=0)
        await asyncio.gather(*self._deliveries, return_exceptions=True)
        # The error of a script fails its test, unless the test has failed already.
        if self._errors and error is None:
            raise self._errors[0]

    # Events of the wire

    def on_head(self, exchange: FakeExchange) -> None:
        """Wait for the body."""

    def on_request(self, exchange: FakeExchange) -> None:
        """Answer with the script's reply."""
        received = Received.of(exchange.method, exchange.target, exchange.headers, exchange.body)
        self.requests.append(received)
        self.calls += received.call.generates
        reply = self._choose(received)
        if isinstance(reply.content, bytes):
            _close(exchange, reply.content)
            return
        rendered = render(received, reply.content, len(self.requests))
        if not rendered.streams and not reply.pauses and reply.cut is None:
            exchange.answer(rendered.status, rendered.headers, b"".join(rendered.chunks))
            return
        exchange.state = task = asyncio.ensure_future(_deliver(exchange, rendered, reply))
        self._deliveries.add(task)
        task.add_done_callback(partial(self._on_delivered, exchange))

    def on_disconnect(self, exchange: FakeExchange) -> None:
        """Stop the answer to a client that left, or whose script failed."""
        self.disconnects += not exchange.is_open
        if exchange.state is not None:
            exchange.state.cancel()

    def _on_delivered(self, exchange: FakeExchange, task: asyncio.Future[None]) -> None:
        self._deliveries.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None:
            self._errors.append(error)
            exchange.abort()

    def _choose(self, received: Received) -> Reply:
        if callable(self._script):
            return self._script(received) or Reply.text()
        if not self._script or render_without_model(received) is not None:
            return Reply.text()
        reply = self._script[min(self._replies_used, len(self._script) - 1)]
        self._replies_used += 1
        return reply


async def _deliver(exchange: FakeExchange, rendered: RenderedReply, reply: Reply) -> None:
    """Send an answer chunk by chunk, with the interruptions of the reply."""
    await _wait(reply, None)
    if reply.cut is not None and reply.cut.is_before_head:
        _close(exchange)
        return
    length = None if rendered.streams else sum(map(len, rendered.chunks))
    reason = responses.get(rendered.status, "").encode()
    exchange.begin(rendered.status, reason, rendered.headers, length)
    exchange.flush()
    await _wait(reply, 0)
    chunks = rendered.chunks if reply.cut is None else reply.cut.truncate(rendered.chunks)
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
    """Close the connection after `data`, so that the client receives all that was sent.

    An exchange would reset it instead, and unread data would be lost.
    """
    connection = exchange.connection
    if connection.exchange is exchange:
        connection.transport.write(data)
        connection.release(keep_alive=False)
