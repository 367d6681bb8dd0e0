"""UpstreamConnection: requests out, answers in, one at a time."""

from __future__ import annotations

import asyncio
from math import inf
from typing import TYPE_CHECKING

import httptools

from looptrap.wire.exchange import AnswerSink, UpstreamError, UpstreamErrorKind, UpstreamExchange
from looptrap.wire.header_fields import (
    CONNECTION,
    CONTENT_LENGTH,
    TRANSFER_ENCODING,
    Field,
    announces_body,
    field_kinds,
    parse_token_list,
)
from looptrap.wire.write_queue import MAX_QUEUED_BYTES

if TYPE_CHECKING:
    from looptrap.wire.pool import Pool

_PERSISTENCE_TOKENS = {b"close", b"keep-alive"}
_UNUSED_PARSER = httptools.HttpResponseParser(object())


class AnswerError(Exception):
    """The upstream's answer breaks HTTP/1.1 or our limits."""


class UpstreamConnection:
    """Carries one exchange after another; its pool decides when it is used and closed."""

    __slots__ = (
        "_chunked", "_done", "_ends_at_close", "_fed", "_framing", "_has_surplus", "_headers",
        "_keep_alive", "_last", "_limits", "_max_head_bytes", "_max_headers", "_outgoing",
        "_parser", "_pool", "_reason", "_sink", "_started", "_undelivered", "deadline", "exchange",
        "is_reused", "transport",
    )  # fmt: skip

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
        self._outgoing = b""  # a request that is sent at the end of this turn of the loop
        self.exchange: UpstreamExchange | None = None
        self.is_reused = False
        self.deadline = inf
        # Never reset: such a connection is not used again.
        self._has_surplus = self._ends_at_close = False

    def start(self, exchange: UpstreamExchange, now: float) -> None:
        """Send a request; the connection belongs to the exchange until its answer has ended."""
        self.exchange = exchange
        self._sink = exchange.sink
        exchange.connection = self
        self.deadline = now + self._limits.first_byte_timeout
        self._undelivered = 0
        self._started = self._done = self._fed = False
        body = exchange.body
        if len(body) <= MAX_QUEUED_BYTES:
            self._outgoing = exchange.head + body
            if self._pool.in_flight > 1:
                self._pool.writes.add(self)
            else:
                self.send()
        else:  # joining them would cost more than a second buffer
            self.transport.writelines((exchange.head, body))
        if exchange.paused:
            self.pause()

    def send(self) -> None:
        """Send the request that waits for it."""
        data, self._outgoing = self._outgoing, b""
        if data and not self.transport.is_closing():
            self.transport.write(data)

    def detach(self) -> None:
        """Deliver nothing more to the exchange, and close the socket at once."""
        self.exchange = self._sink = None
        self._outgoing = b""
        self.transport.abort()

    def pause(self) -> None:
        """Stop reading; no timeout runs until `resume`."""
        self.transport.pause_reading()
        self.deadline = inf

    def resume(self) -> None:
        """Read on."""
        limits = self._limits
        wait = limits.idle_timeout if self._started else limits.first_byte_timeout
        self.deadline = self._pool.clock() + wait
        self.transport.resume_reading()

    def expire(self) -> None:
        """End the exchange that has passed its deadline with an error, or the idle connection."""
        limits = self._limits
        if self.exchange is None:
            self._pool.discard(self)
        elif self._started:
            self.fail("idle_timeout", f"nothing more of an answer for {limits.idle_timeout:g} s")
        else:
            missing = "complete head" if self._undelivered else "byte"
            within = f"within {limits.first_byte_timeout:g} s"
            self.fail("first_byte_timeout", f"no {missing} of an answer {within}")

    def fail(self, kind: UpstreamErrorKind, what: str) -> None:
        """End the exchange, if there is one, with an error, and the connection with it."""
        exchange = self.exchange
        if exchange is not None:
            error = UpstreamError(kind, f"{self._pool.origin}: {what}", started=self._started)
            self._pool.discard(self)
            self._pool.finish(exchange)
            exchange.sink.on_error(error)

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.Transport) -> None:
        self.transport = transport
        # Not before: it refers back to this connection until `connection_lost` deletes it.
        self._parser = httptools.HttpResponseParser(self)
        self._pool.on_connected(self)

    def data_received(self, data: bytes) -> None:
        exchange = self.exchange
        if exchange is None:
            # Bytes without a request: the next exchange would take them for its answer.
            self._pool.discard(self)
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
            self._has_surplus = True
        if self.exchange is not exchange:
            return  # cancelled by its sink
        if self._done:
            self._finish(exchange, data)
        elif self._fed:
            self._fed = False
            self._undelivered = 0
            if not exchange.paused:
                self.deadline = self._pool.clock() + self._limits.idle_timeout
            exchange.sink.flush()
        elif self._undelivered > self._max_head_bytes:
            self.fail("protocol", self._oversized())

    def eof_received(self) -> None:
        exchange = self.exchange
        if exchange is not None and self._ends_at_close:
            self._pool.discard(self)
            self._pool.finish(exchange)
            exchange.sink.on_end()
        else:
            self._on_lost("closed the connection")

    def pause_writing(self) -> None:
        """Do nothing: the whole request has been handed over."""

    def resume_writing(self) -> None:
        """Do nothing, likewise."""

    def connection_lost(self, exc: Exception | None) -> None:
        # Under TLS an end without close_notify comes here only: truncated, never complete.
        self._on_lost("cut the connection" if exc is None else str(exc))
        self._pool.on_closed(self)
        self._parser = _UNUSED_PARSER  # its own refers back to this connection

    # Callbacks of the parser

    def on_message_begin(self) -> None:
        if self._done:
            self._has_surplus = True
        self._headers = []
        self._framing = []
        self._reason = b""

    def on_status(self, reason: bytes) -> None:
        self._reason += reason

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._started:
            return  # trailers are dropped
        kind = field_kinds[name]
        if kind:
            self._framing.append((kind, value))
        else:
            self._headers.append((name, value))

    def on_headers_complete(self) -> None:
        exchange, sink, status = self.exchange, self._sink, self._parser.get_status_code()
        if exchange is None or sink is None or self._done:
            return
        if status < 200:
            if status == 101:
                raise AnswerError("switched protocols without being asked")
            if status < 100 or announces_body(self._framing):
                # The parser takes what follows for a body without a head.
                raise AnswerError(f"status {status:03} announces a body")
            return
        headers, framing = self._headers, self._framing
        length, chunked = None, False
        for kind, value in framing:
            if kind == CONTENT_LENGTH:
                length = int(value)
            elif kind == TRANSFER_ENCODING:
                # Anything beside chunked would reach the sink still encoded, and unlabelled.
                if chunked or value.lower() != b"chunked":
                    raise AnswerError(f"Transfer-Encoding is {value!r}, must be chunked")
                chunked = True
            elif kind == CONNECTION and (listed := parse_token_list(value) - _PERSISTENCE_TOKENS):
                headers = [field for field in headers if field[0].lower() not in listed]
        if len(headers) + len(framing) > self._max_headers or (
            self._undelivered > self._max_head_bytes
        ):
            self._check_size()
        has_body = status != 204 and status != 304 and not exchange.is_head
        self._started = self._fed = True
        self._last = b""
        self._chunked = chunked
        if exchange.is_head:
            self._done = True
            self._keep_alive = self._parser.should_keep_alive()
        elif length is None and not chunked and has_body:
            self._ends_at_close = True
        sink.on_head(status, self._reason, headers, length, has_body)

    def on_body(self, chunk: bytes) -> None:
        if self._done:
            self._has_surplus = True
        elif self._sink is not None:
            self._fed = True
            self._last = chunk
            self._sink.on_data(chunk)

    def on_message_complete(self) -> None:
        if self._started and not self._done:
            self._done = True
            self._keep_alive = self._parser.should_keep_alive()

    # Ending

    def _fail_to_parse(self, error: httptools.HttpParserCallbackError) -> None:
        """End an exchange with an invalid answer; raise again what its sink raised."""
        if isinstance(error.__context__, AnswerError):
            self.fail("protocol", str(error.__context__))
        else:
            raise error.__context__ or error from None  # the loop reports it and closes

    def _check_size(self) -> None:
        count = len(self._headers) + len(self._framing)
        if count > self._max_headers:
            raise AnswerError(f"{count} header fields, more than {self._max_headers}")
        # The segments so far may hold body bytes too: measure the head itself.
        size = sum(len(name) + len(value) + 4 for name, value in self._headers)
        if size + sum(len(value) for _, value in self._framing) > self._max_head_bytes:
            raise AnswerError(self._oversized())

    def _oversized(self) -> str:
        return f"a head or trailers of more than {self._max_head_bytes} bytes"

    def _finish(self, exchange: UpstreamExchange, data: bytes) -> None:
        pool = self._pool
        if (
            self._keep_alive
            and not self._has_surplus
            # A body that ends in other than a line end ends the segment, or there is a surplus.
            and ((self._last and data[-1] > 13) or self._ends_clean(exchange, data))
            and not self._outgoing  # an answer before the request is sent
            and not self.transport.get_write_buffer_size()
        ):
            if exchange.is_head:
                self._parser = httptools.HttpResponseParser(self)  # the old one awaits a body
            if exchange.paused:
                self.transport.resume_reading()
            self.exchange = self._sink = None
            self._last = b""
            self.is_reused = True
            pool.release(self, exchange)
        else:
            pool.discard(self)
            pool.finish(exchange)
        exchange.sink.on_end()

    def _ends_clean(self, exchange: UpstreamExchange, data: bytes) -> bool:
        """Return whether the answer ends with the segment: the parser skips line ends."""
        if self._last and not self._chunked:
            return data.endswith(self._last)
        if exchange.is_head and data.count(b"\r\n\r\n") != 1:
            return False
        return data.endswith(b"\r\n\r\n") and not data.endswith(b"\n\r\n\r\n")

    def _on_lost(self, what: str) -> None:
        exchange = self.exchange
        if exchange is None:
            self._pool.discard(self)
        elif self.is_reused and not self._started and not self._undelivered:
            self._pool.retry(exchange, self)
        else:
            self.fail("reset", what)
