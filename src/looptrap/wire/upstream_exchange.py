"""UpstreamExchange: one outgoing request; its sink, errors and limits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, Protocol

from looptrap.schema import Table, seconds, setting, settings

if TYPE_CHECKING:
    from looptrap.wire.pool import Pool
    from looptrap.wire.upstream_connection import UpstreamConnection

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


@settings
class UpstreamLimits:
    """Timeouts in seconds and bounds of one pool."""

    connect_timeout: float = setting("for a connection to a provider", seconds(), default=10.0)
    """For name look-up, TCP, proxy and TLS together, and for a place in the queue."""
    first_byte_timeout: float = setting(
        "for a provider's answer to begin", seconds(), default=600.0
    )
    """From the sending of a request to the complete head of its answer."""
    idle_timeout: float = setting(
        "between two pieces of a provider's answer", seconds(), default=300.0
    )
    keepalive: float = 55.0
    """How long an unused connection is kept."""
    max_connections: int = 1024
    max_queued: int = 1024
    max_head_bytes: int = 65_536
    max_headers: int = 256

    def __post_init__(self) -> None:
        for name in ("connect_timeout", "first_byte_timeout", "idle_timeout", "keepalive"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} is {getattr(self, name)}, must be more than 0 seconds")
        for name in ("max_connections", "max_head_bytes", "max_headers"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}, must be 1 or more")
        if self.max_queued < 0:
            raise ValueError(f"max_queued is {self.max_queued}, must be 0 or more")


UPSTREAM_LIMITS = Table.of(UpstreamLimits)


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
