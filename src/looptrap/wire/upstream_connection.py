"""One HTTP/1.1 connection to an upstream: requests out, answers in, one at a time."""

from __future__ import annotations

import asyncio
from math import inf
from typing import TYPE_CHECKING, cast

import httptools

from looptrap.wire.header_fields import (
    CONNECTION,
    CONTENT_LENGTH,
    TRANSFER_ENCODING,
    Field,
    announces_body,
    field_kinds,
    parse_token_list,
)
from looptrap.wire.upstream_exchange import (
    AnswerSink,
    UpstreamError,
    UpstreamErrorKind,
    UpstreamExchange,
)

if TYPE_CHECKING:
    from looptrap.wire.pool import Pool

MAX_JOINED_BODY_BYTES = 65_536
"""Up to this size a body is joined to its head; above, joining costs more than a second buffer."""


_PERSISTENCE_TOKENS = {b"close", b"keep-alive"}


class AnswerError(Exception):
    """The upstream sent something that HTTP/1.1 or our limits do not allow."""


class UpstreamConnection(asyncio.Protocol):
    """Carries one flight after another; its pool decides when it is used and when it ends."""

    __slots__ = (
        "_chunked",
        "_done",
        "_fed",
        "_framing",
        "_headers",
        "_keep_alive",
        "_last",
        "_limits",
        "_max_head_bytes",
        "_max_headers",
        "_parser",
        "_pool",
        "_reason",
        "_sink",
        "_started",
        "_surplus",
        "_undelivered",
        "_until_close",
        "deadline",
        "flight",
        "transport",
        "used",
    )

    transport: asyncio.Transport

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._limits = pool.limits
        self._max_headers = pool.limits.max_headers
        self._max_head_bytes = pool.limits.max_head_bytes
        self._sink: AnswerSink | None = None
        self._headers: list[Field] = []
        self._framing: list[tuple[int, bytes]] = []
        self._reason = b""
        self.flight: UpstreamExchange | None = None
        self.used = False
        self.deadline = inf
        # Never reset: a connection that has seen either is not used again.
        self._surplus = self._until_close = False

    def launch(self, flight: UpstreamExchange, now: float) -> None:
        """Send a flight's request; this connection is its own until the answer has ended."""
        self.flight = flight
        self._sink = flight.sink
        flight.connection = self
        self.deadline = now + self._limits.first_byte_timeout
        self._undelivered = 0
        self._started = self._done = self._fed = False
        body = flight.body
        if len(body) <= MAX_JOINED_BODY_BYTES:
            self.transport.write(flight.head + body)
        else:
            self.transport.writelines((flight.head, body))
        if flight.paused:
            self.pause()

    def detach(self) -> None:
        """Deliver nothing more to the flight and close the socket at once."""
        self.flight = self._sink = None
        self.transport.abort()

    def pause(self) -> None:
        """Stop reading; the time until `resume` is not the upstream's."""
        self.transport.pause_reading()
        self.deadline = inf

    def resume(self) -> None:
        """Read on."""
        limits = self._limits
        wait = limits.idle_timeout if self._started else limits.first_byte_timeout
        self.deadline = self._pool.clock() + wait
        self.transport.resume_reading()

    def expire(self) -> None:
        """End what has passed its deadline: the flight with an error, or the idle connection."""
        limits = self._limits
        if self.flight is None:
            self._pool.drop(self)
        elif self._started:
            self.fail("idle_timeout", f"nothing more of an answer for {limits.idle_timeout:g} s")
        elif self._undelivered:
            self.fail(
                "first_byte_timeout",
                f"no complete head of an answer within {limits.first_byte_timeout:g} s",
            )
        else:
            self.fail(
                "first_byte_timeout",
                f"no byte of an answer within {limits.first_byte_timeout:g} s",
            )

    def fail(self, kind: UpstreamErrorKind, what: str) -> None:
        """End the flight, if there is one, with an error, and this connection with it."""
        flight = self.flight
        if flight is not None:
            error = UpstreamError(kind, f"{self._pool.origin}: {what}", started=self._started)
            self._pool.drop(self)
            self._pool.end(flight)
            flight.sink.on_error(error)

    # asyncio's side

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        # Not before: it refers back to this connection, and `connection_lost` is what parts them.
        self._parser = httptools.HttpResponseParser(self)
        self._pool.track(self)

    def data_received(self, data: bytes) -> None:
        flight = self.flight
        if flight is None:
            # Bytes that nobody asked for: whoever used this connection next would read them.
            self._pool.drop(self)
            return
        self._undelivered += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserCallbackError as error:
            self._fail_to_parse(error)
            return
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            if not self._done:
                self.fail("protocol", f"not HTTP/1.1: {error}")
                return
            self._surplus = True
        if self.flight is not flight:
            return  # cancelled by its sink
        if self._done:
            self._finish(flight, data)
        elif self._fed:
            self._fed = False
            self._undelivered = 0
            if not flight.paused:
                self.deadline = self._pool.clock() + self._limits.idle_timeout
            flight.sink.flush()
        elif self._undelivered > self._max_head_bytes:
            self.fail("protocol", self._oversized())

    def eof_received(self) -> None:
        flight = self.flight
        if flight is not None and self._until_close:
            self._pool.drop(self)
            self._pool.end(flight)
            flight.sink.on_end()
        else:
            self._lose("closed the connection")

    def connection_lost(self, exc: Exception | None) -> None:
        # Under TLS an end without close_notify comes here only: truncated, never complete.
        self._lose("cut the connection" if exc is None else str(exc))
        self._pool.forget(self)
        del self._parser  # it refers back to this connection

    # the parser's side

    def on_message_begin(self) -> None:
        if self._done:
            self._surplus = True
        self._headers = []
        self._framing = []
        self._reason = b""

    def on_status(self, reason: bytes) -> None:
        self._reason += reason

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._started:
            return  # trailers are dropped
        fate = field_kinds[name]
        if fate:
            self._framing.append((fate, value))
        else:
            self._headers.append((name, value))

    def on_headers_complete(self) -> None:
        flight, sink, status = self.flight, self._sink, self._parser.get_status_code()
        if flight is None or sink is None or self._done:
            return
        if status < 200:
            if status == 101:
                raise AnswerError("switched protocols without being asked")
            if status < 100 or announces_body(self._framing):
                # The parser takes what follows for a body, and no head has come for it.
                raise AnswerError(f"status {status:03} announces a body")
            return
        headers, framing = self._headers, self._framing
        length, chunked = None, False
        for fate, value in framing:
            if fate == CONTENT_LENGTH:
                length = int(value)
            elif fate == TRANSFER_ENCODING:
                # Anything beside chunked would reach the sink still encoded, and unlabelled.
                if chunked or value.lower() != b"chunked":
                    raise AnswerError(f"Transfer-Encoding is {value!r}, must be chunked")
                chunked = True
            elif fate == CONNECTION and (listed := parse_token_list(value) - _PERSISTENCE_TOKENS):
                headers = [field for field in headers if field[0].lower() not in listed]
        if len(headers) + len(framing) > self._max_headers or (
            self._undelivered > self._max_head_bytes
        ):
            self._check_size()
        has_body = status != 204 and status != 304 and not flight.is_head
        self._started = self._fed = True
        self._last = b""
        self._chunked = chunked
        if flight.is_head:
            self._done = True
            self._keep_alive = self._parser.should_keep_alive()
        elif length is None and not chunked and has_body:
            self._until_close = True
        sink.on_head(status, self._reason, headers, length, has_body)

    def on_body(self, chunk: bytes) -> None:
        if self._done:
            self._surplus = True
        elif self._sink is not None:
            self._fed = True
            self._last = chunk
            self._sink.on_data(chunk)

    def on_message_complete(self) -> None:
        if self._started and not self._done:
            self._done = True
            self._keep_alive = self._parser.should_keep_alive()

    # ends

    def _fail_to_parse(self, error: httptools.HttpParserCallbackError) -> None:
        """End a flight whose answer could not be taken; raise what its sink raised."""
        if isinstance(error.__context__, AnswerError):
            self.fail("protocol", str(error.__context__))
        else:
            raise error.__context__ or error from None  # the loop reports it and closes

    def _check_size(self) -> None:
        count = len(self._headers) + len(self._framing)
        if count > self._max_headers:
            raise AnswerError(f"{count} header fields, more than {self._max_headers}")
        # The segments so far may hold body bytes too: the head itself decides.
        size = sum(len(name) + len(value) + 4 for name, value in self._headers)
        if size + sum(len(value) for _, value in self._framing) > self._max_head_bytes:
            raise AnswerError(self._oversized())

    def _oversized(self) -> str:
        return f"a head or trailers of more than {self._max_head_bytes} bytes"

    def _finish(self, flight: UpstreamExchange, data: bytes) -> None:
        pool = self._pool
        if (
            self._keep_alive
            and not self._surplus
            # A body that ends in other than a line end ends the segment, or there is a surplus.
            and ((self._last and data[-1] > 13) or self._ends_clean(flight, data))
            and not self.transport.get_write_buffer_size()
        ):
            if flight.is_head:
                self._parser = httptools.HttpResponseParser(self)  # the old one awaits a body
            if flight.paused:
                self.transport.resume_reading()
            self.flight = self._sink = None
            self._last = b""
            self.used = True
            pool.release(self, flight)
        else:
            pool.drop(self)
            pool.end(flight)
        flight.sink.on_end()

    def _ends_clean(self, flight: UpstreamExchange, data: bytes) -> bool:
        """Tell whether the answer ends where the segment does: the parser skips line ends."""
        if self._last and not self._chunked:
            return data.endswith(self._last)
        if flight.is_head and data.count(b"\r\n\r\n") != 1:
            return False
        return data.endswith(b"\r\n\r\n") and not data.endswith(b"\n\r\n\r\n")

    def _lose(self, what: str) -> None:
        flight = self.flight
        if flight is None:
            self._pool.drop(self)
        elif self.used and not self._started and not self._undelivered:
            self._pool.retry(flight, self)
        else:
            self.fail("reset", what)
