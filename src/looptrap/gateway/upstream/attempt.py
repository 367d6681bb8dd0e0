"""UpstreamAttempt: the wire's sink for one answer, held until it is known to be good."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from looptrap.dialect.content import UNREADABLE
from looptrap.dialect.stream import Framing, WholeFraming, framing_of
from looptrap.gateway.relay import Relay
from looptrap.retry.classify import classify, classify_answer, classify_event
from looptrap.retry.failure import Failure
from looptrap.wire.exchange import UpstreamError, UpstreamExchange
from looptrap.wire.header_fields import Field

if TYPE_CHECKING:
    from looptrap.gateway.upstream.routed_request import RoutedRequest

NO_RETRY_FIELD = (b"x-should-retry", b"false")

MAX_ERROR_BYTES = 64 * 1024
"""Bytes of a failed answer that are read; a longer one is classified by these."""

MAX_PEEK_BYTES = 256 * 1024
"""Bytes of a stream that are held; OpenAI repeats all instructions in its first event."""

OPENING_EVENTS = frozenset(
    "message_start ping response.created response.queued response.in_progress".split()
)
"""Events without content: a failure may still follow."""


class _TypedEvent(msgspec.Struct, gc=False):
    type: str = ""


_decode_type = msgspec.json.Decoder(_TypedEvent).decode


class ResponseBuffer(msgspec.Struct):
    """One answer so far."""

    status: int
    reason: bytes
    headers: list[Field]
    length: int | None
    has_body: bool
    peeks: bool
    """Whether its first events decide: it is a stream with a good status."""
    chunks: list[bytes] = []
    size: int = 0
    is_complete: bool = False
    framing: Framing | None = None

    @property
    def is_failed(self) -> bool:
        """Whether its status is that of an error."""
        return self.status >= 400

    def take(self, chunk: bytes) -> None:
        """Keep a chunk."""
        self.chunks.append(chunk)
        self.size += len(chunk)

    def classified(self, now: float) -> Failure:
        """Return what a failed answer means; `now` is in seconds since 1970."""
        body = b"".join(self.chunks)
        failure = classify_answer(self.status, self.headers, body[:MAX_ERROR_BYTES], now)
        return failure or Failure("permanent", f"http_{self.status}")

    def look(self, chunk: bytes) -> Failure | bool:
        """Read the next chunk of a stream: it failed, it is good (True), or neither yet."""
        framing = self.framing
        if framing is None:
            if not chunk.strip():
                return False
            framing = self.framing = framing_of(chunk)
        if isinstance(framing, WholeFraming):
            return True
        for data in framing.feed(chunk):
            failure = classify_event(data)
            if failure is not None:
                return failure
            if not _is_opening(data):
                return True
        return self.size > MAX_PEEK_BYTES


def is_encoded(headers: list[Field]) -> bool:
    """Return whether a body is encoded, so that its events cannot be read."""
    return any(len(name) == 16 and name.lower() == b"content-encoding" for name, _ in headers)


def _is_opening(data: bytes) -> bool:
    try:
        return _decode_type(data).type in OPENING_EVENTS
    except UNREADABLE:
        return False


class UpstreamAttempt:
    """Holds one answer; from `pass_on` on, the relay gets all of it."""

    __slots__ = ("_buffer", "_is_passing", "_relay", "_routed_request", "error", "upstream")

    def __init__(self, relay: Relay, routed_request: RoutedRequest) -> None:
        self.upstream: UpstreamExchange | None = None
        """None once the answer is over."""
        self.error: UpstreamError | None = None
        """Why there is no answer."""
        self._relay = relay
        self._routed_request = routed_request
        self._buffer: ResponseBuffer | None = None
        self._is_passing = False

    def drop(self) -> None:
        """Cancel the attempt; a provider that got the request may work on."""
        if self.upstream is not None:
            is_answering = self._buffer is None or not self._buffer.is_failed
            if self.upstream.connection is not None and is_answering and not self._is_passing:
                self._relay.lose()
            self.upstream.cancel()
            self.upstream = None

    @property
    def can_pass_on(self) -> bool:
        """Whether the answer can be passed on, completely or up to its error."""
        buffer = self._buffer
        return buffer is not None and (
            self.upstream is not None or buffer.is_complete or not buffer.is_failed
        )

    def pass_on(self, *more: Field) -> None:
        """Give the relay what is held, with more headers, and all that follows."""
        buffer, relay = self._buffer, self._relay
        assert buffer is not None
        self._is_passing = True
        self._buffer = None
        headers = buffer.headers
        if NO_RETRY_FIELD in more:
            headers = [field for field in headers if field[0].lower() != NO_RETRY_FIELD[0]]
        relay.added = more
        relay.on_head(buffer.status, buffer.reason, headers, buffer.length, buffer.has_body)
        for chunk in buffer.chunks:
            relay.on_data(chunk)
        if self.upstream is None:
            relay.on_end()

    # What the provider sends

    def on_head(
        self, status: int, reason: bytes, headers: list[Field], length: int | None, has_body: bool
    ) -> None:
        """Hold the head."""
        call = self._relay.call
        peeks = status == 200 and call.stream and call.generates and not is_encoded(headers)
        self._buffer = ResponseBuffer(status, reason, headers, length, has_body, peeks)

    def on_data(self, chunk: bytes) -> None:
        """Pass on what follows a good start; hold anything else."""
        if self._is_passing:
            self._relay.on_data(chunk)
            return
        buffer = self._buffer
        assert buffer is not None
        buffer.take(chunk)
        if buffer.is_failed:
            if buffer.size >= MAX_ERROR_BYTES:
                self._fail(buffer)
            return
        found = buffer.look(chunk) if buffer.peeks else True
        if isinstance(found, Failure):
            self._routed_request.failed(found)
        elif found:
            self._routed_request.succeeded()
        elif len(buffer.chunks) == 1:
            self._routed_request.opened()

    def flush(self) -> None:
        """Send what one segment brought."""
        if self._is_passing:
            self._relay.flush()

    def on_end(self) -> None:
        """End the answer, or classify a failed one."""
        self.upstream = None
        if self._is_passing:
            self._relay.on_end()
            return
        buffer = self._buffer
        assert buffer is not None
        buffer.is_complete = True
        try:
            if buffer.is_failed:
                self._fail(buffer)
            else:
                self._routed_request.succeeded()
        except Exception as fault:  # noqa: BLE001 - the upstream exchange is over: end this here
            self._relay.give_up(fault)

    def on_error(self, error: UpstreamError) -> None:
        """Report that there is no answer, or that it is incomplete."""
        if error.kind == "first_byte_timeout" and self.upstream is not None:
            self._relay.lose()
        self.upstream = None
        try:
            if self._is_passing:
                self._routed_request.broke_off(classify(error))
                self._relay.on_error(error)
            elif self._buffer is not None and self._buffer.is_failed:
                self._fail(self._buffer)
            else:
                self._buffer, self.error = None, error
                self._routed_request.failed(classify(error))
        except Exception as fault:  # noqa: BLE001 - the upstream exchange is over: end this here
            self._relay.give_up(fault)

    def _fail(self, buffer: ResponseBuffer) -> None:
        self._routed_request.failed(buffer.classified(self._relay.now()))
