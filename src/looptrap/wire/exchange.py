"""Exchange: one request of a client and its one answer; UpstreamExchange: one to a provider."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Generic, Literal, Protocol, TypeVar

from looptrap.wire.header_fields import Field, encode_head

if TYPE_CHECKING:
    from looptrap.wire.pool import Pool
    from looptrap.wire.request import Head, RequestRefused
    from looptrap.wire.server_connection import ServerConnection
    from looptrap.wire.upstream_connection import UpstreamConnection

_CLOSE = (b"Connection: close",)
_KEEP_ALIVE = (b"Connection: keep-alive",)


StateT = TypeVar("StateT")


class Handler(Protocol[StateT]):
    """Answers requests; every call is synchronous, on the loop.

    For an exchange that the server itself refuses after `on_head` (its body is too large, malformed
    or too slow) nothing more is called. `state` and `source` are dropped when it is over.
    """

    def on_head(self, exchange: Exchange[StateT]) -> None:
        """Handle the headers, before the body is complete; answering now ends the exchange."""

    def on_request(self, exchange: Exchange[StateT]) -> None:
        """Handle the complete request; must lead to exactly one answer, now or later."""

    def on_disconnect(self, exchange: Exchange[StateT]) -> None:
        """Handle an answer that will not be completed: the client left, or the handler raised.

        If `exchange.is_open`, the client is still there and gets a 500 or a reset.
        """


class Pausable(Protocol):
    """The source of a relayed answer; paused while the client reads slowly."""

    def pause(self) -> None:
        """Stop delivering."""

    def resume(self) -> None:
        """Continue."""


class Exchange(Generic[StateT]):
    """One request and its one answer; calls after the client went away do nothing."""

    __slots__ = (
        "_chunked", "_head_bytes", "_held", "_missing", "_silent", "body", "connection", "head",
        "headers", "keep_alive", "method", "source", "started", "state", "target",
    )  # fmt: skip

    source: Pausable | None

    # Set by `begin`.
    _held: list[bytes]
    _head_bytes: bytes
    _chunked: bool
    _missing: int | None
    _silent: bool

    def __init__(self, connection: ServerConnection, head: Head) -> None:
        self.connection = connection
        self.head = head
        """Equal heads, apart from Content-Length, are mostly the same object."""
        self.method = head.method
        self.target = head.target
        self.headers = head.headers
        """Names lower-cased; order and duplicates as sent; without Content-Length."""
        self.keep_alive = head.keep_alive
        self.body = b""
        self.started = False
        self.source = None
        self.state: StateT | None = None
        """What the handler keeps for this exchange."""

    @property
    def peer(self) -> str:
        """The client's address, without its port."""
        return self.connection.peer

    @property
    def is_open(self) -> bool:
        """Whether the client still waits for this answer or the rest of it."""
        return self.connection.exchange is self

    def answer(
        self, status: int, headers: Sequence[Field], body: bytes = b"", *, close: bool = False
    ) -> None:
        """Send one complete answer."""
        if close:
            self.keep_alive = False
        has_length = status != 204 and status != 304
        self.begin(status, None, headers, len(body) if has_length else None)
        self.write(body)
        self.finish()

    def begin(
        self, status: int, reason: bytes | None, headers: Sequence[Field], length: int | None
    ) -> None:
        """Start an answer of `length` bytes, or of a length not known yet (None).

        `headers` must be end-to-end ones. Nothing is sent before `flush` or `finish`.
        """
        if self.started:
            raise RuntimeError("this exchange has been answered")
        silent = self.method == b"HEAD" or status == 204 or status == 304
        chunked = length is None and not silent and self.head.version == "1.1"
        connection = self.connection
        if connection.incoming is not None or connection.server.draining:
            self.keep_alive = False
        elif length is None and not silent and not chunked:
            self.keep_alive = False  # the close is what will end it
        own: tuple[bytes, ...] = _CLOSE
        if self.keep_alive:
            own = () if self.head.version == "1.1" else _KEEP_ALIVE
        if chunked:
            own = (b"Transfer-Encoding: chunked", *own)
        elif length is not None and status != 204:
            own = (b"Content-Length: %d" % length, *own)
        self._head_bytes = encode_head(status, reason, headers, *own)
        self._held = [self._head_bytes]
        self._silent = silent
        self._chunked = chunked
        self._missing = None if silent else length
        self.started = True

    @property
    def holds_head(self) -> bool:
        """Whether the head of a started answer is not sent yet."""
        return self.started and bool(self._held) and self._held[0] is self._head_bytes

    def add_header(self, name: bytes, value: bytes) -> None:
        """Add a header to a started answer if its head is not sent yet."""
        if self.holds_head:
            head = b"%b%b: %b\r\n\r\n" % (self._head_bytes[:-2], name, value)
            self._head_bytes = self._held[0] = head

    def write(self, chunk: bytes) -> None:
        """Add to the answer's body; sent by `flush`."""
        if not chunk or self._silent or self.connection.exchange is not self:
            return
        if self._chunked:
            self._held += (b"%x\r\n" % len(chunk), chunk, b"\r\n")
            return
        if self._missing is not None:
            self._missing -= len(chunk)
            if self._missing < 0:
                self.abort()
                return
        self._held.append(chunk)

    def flush(self) -> None:
        """Send everything held, in one write."""
        held = self._held
        if held and self.connection.exchange is self:
            self._held = []
            self.connection.write(held[0] if len(held) == 1 else b"".join(held))

    def finish(self) -> None:
        """End the answer; one that is shorter than announced is aborted instead."""
        connection = self.connection
        if connection.exchange is not self:
            return
        if self._missing:
            self.abort()
            return
        if self._chunked:
            self._held.append(b"0\r\n\r\n")
        self.flush()
        # A shutdown that began after the head was written still ends the connection here.
        connection.release(self.keep_alive and not connection.server.draining)

    def abort(self) -> None:
        """Close so that the client sees the answer as truncated, never as complete."""
        connection = self.connection
        if connection.exchange is not self:
            return
        if self.started and (self._chunked or self._missing):
            # Its framing shows that the end is missing: what there is may still be read.
            self.flush()
            connection.release(keep_alive=False)
            return
        self.started = True
        connection.clear_exchange()  # the handler knows: this is no disconnect
        connection.cut()

    def release_state(self) -> None:
        """Drop the handler's references, which refer back to this exchange.

        A reference cycle would hold the request's body until the collector runs, which is seldom.
        """
        self.state = self.source = None

    def attempt(self, act: Callable[[], None]) -> None:
        """Run something for this exchange outside a call of the handler.

        An exception is handled as if the handler had raised it.
        """
        try:
            act()
        except Exception as error:  # noqa: BLE001 - it must not reach the caller of the callback
            self.handle_error(error)

    def handle_error(self, error: Exception) -> None:
        """Report an error raised for this exchange, and answer with a 500 or a reset."""
        self.connection.server.fail(self, error)

    def fail(self, refused: RequestRefused) -> None:
        """Answer with the server's own refusal, or abort a started answer."""
        if self.connection.exchange is self:
            if self.started:
                self.abort()
            else:
                self.connection.refuse(refused)


UpstreamErrorKind = Literal[
    "connect", "connect_timeout", "tls", "first_byte_timeout", "idle_timeout", "reset", "protocol",
    "busy",
]  # fmt: skip


class UpstreamError(Exception):
    """No complete answer arrived; `started`: its head had been delivered."""

    def __init__(self, kind: UpstreamErrorKind, message: str, *, started: bool = False) -> None:
        super().__init__(message)
        self.kind = kind
        self.started = started


class AnswerSink(Protocol):
    """Receives one answer, synchronously on the loop, and never from inside `Pool.send`."""

    def on_head(
        self,
        status: int,
        reason: bytes,
        headers: list[tuple[bytes, bytes]],
        length: int | None,
        has_body: bool,
    ) -> None:
        """Handle the final head; `has_body` is false where HTTP forbids a body.

        `headers` are end-to-end ones only, without Content-Length.
        """

    def on_data(self, chunk: bytes) -> None:
        """Handle body bytes without their transfer framing."""

    def flush(self) -> None:
        """Pass on what one segment contained; not called for the last segment."""

    def on_end(self) -> None:
        """Handle the end of a complete answer."""

    def on_error(self, error: UpstreamError) -> None:
        """Handle an answer that will not be complete."""


class UpstreamExchange:
    """The handle of one sent request: cancel it, pause its answer."""

    __slots__ = (
        "body", "connection", "deadline", "head", "is_head", "is_over", "paused", "pool", "sink",
    )  # fmt: skip

    deadline: float
    """Set and used only while it has no connection: queued, or being connected."""

    def __init__(
        self, pool: Pool, head: bytes, body: bytes, sink: AnswerSink, is_head: bool
    ) -> None:
        self.pool = pool
        self.head = head
        self.body = body
        self.sink = sink
        self.is_head = is_head
        self.connection: UpstreamConnection | None = None
        self.is_over = False
        self.paused = False

    def cancel(self) -> None:
        """End the request and its connection at once; the sink is not called any more."""
        if not self.is_over:
            self.pool.cancel(self)

    def pause(self) -> None:
        """Stop reading the answer; bytes already read may still be delivered."""
        if not self.is_over:
            self.paused = True
            if self.connection is not None:
                self.connection.pause()

    def resume(self) -> None:
        """Continue to read the answer."""
        if self.paused and not self.is_over:
            self.paused = False
            if self.connection is not None:
                self.connection.resume()
