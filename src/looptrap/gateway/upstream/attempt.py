"""One attempt: the wire's sink for one answer, held back until it is known to be good."""

from __future__ import annotations

from typing import Protocol

import msgspec

from looptrap.dialect.content import UNREADABLE
from looptrap.dialect.stream import Framing, WholeFraming, framing_of
from looptrap.gateway.relay import Relay
from looptrap.retry.classify import classify, classify_answer, classify_event
from looptrap.retry.failure import Failure
from looptrap.wire.upstream_exchange import UpstreamError, UpstreamExchange

MAX_ERROR_BYTES = 64 * 1024
"""Bytes of a failed answer that are read; one that is longer is judged by these."""

MAX_PEEK_BYTES = 256 * 1024
"""Bytes of a stream that are held back; OpenAI repeats all instructions in its first event."""

OPENING_EVENTS = frozenset(
    (
        "message_start",
        "ping",
        "response.created",
        "response.queued",
        "response.in_progress",
    )
)
"""Events that say nothing yet: a failure may still follow."""

HeaderFields = list[tuple[bytes, bytes]]


class _TypedEvent(msgspec.Struct, gc=False):
    type: str = ""


_decode_type = msgspec.json.Decoder(_TypedEvent).decode


class ResponseBuffer:
    """One answer so far."""

    __slots__ = (
        "_framing",
        "chunks",
        "has_body",
        "headers",
        "is_whole",
        "length",
        "peeks",
        "reason",
        "size",
        "status",
    )

    def __init__(
        self,
        status: int,
        reason: bytes,
        headers: HeaderFields,
        length: int | None,
        has_body: bool,
        *,
        peeks: bool,
    ) -> None:
        self.status = status
        self.reason = reason
        self.headers = headers
        self.length = length
        self.has_body = has_body
        self.peeks = peeks
        """Whether its first events decide: it is a stream that began well."""
        self.chunks: list[bytes] = []
        self.size = 0
        self.is_whole = False
        self._framing: Framing | None = None

    @property
    def is_failed(self) -> bool:
        """Whether its status says that it is no answer."""
        return self.status >= 400

    def take(self, chunk: bytes) -> None:
        """Keep what has come."""
        self.chunks.append(chunk)
        self.size += len(chunk)

    def classified(self, now: float) -> Failure:
        """Return what a failed answer means; `now` is in seconds since 1970."""
        body = b"".join(self.chunks)
        failure = classify_answer(self.status, self.headers, body[:MAX_ERROR_BYTES], now)
        return failure or Failure("permanent", f"http_{self.status}")

    def look(self, chunk: bytes) -> Failure | bool:
        """Look at the next chunk of a stream: it failed, it is good (True), or neither yet."""
        framing = self._framing
        if framing is None:
            if not chunk.strip():
                return False
            framing = self._framing = framing_of(chunk)
        if isinstance(framing, WholeFraming):
            return True
        for data in framing.feed(chunk):
            failure = classify_event(data)
            if failure is not None:
                return failure
            if not _is_opening(data):
                return True
        return self.size > MAX_PEEK_BYTES


def is_encoded(headers: HeaderFields) -> bool:
    """Say whether a body is encoded, so that its events cannot be read."""
    return any(len(name) == 16 and name.lower() == b"content-encoding" for name, _ in headers)


def _is_opening(data: bytes) -> bool:
    try:
        return _decode_type(data).type in OPENING_EVENTS
    except UNREADABLE:
        return False


NO_RETRY_FIELD = (b"x-should-retry", b"false")


class AttemptObserver(Protocol):
    """Hears how an attempt goes."""

    def opened(self) -> None:
        """A stream has begun and has said nothing yet."""

    def succeeded(self) -> None:
        """The answer is a good one, and waits to be passed on."""

    def failed(self, failure: Failure) -> None:
        """It is none, and nothing of it was passed on; what there is may be."""

    def broke_off(self, failure: Failure) -> None:
        """It had been passed on, and ended before its end."""


class UpstreamAttempt:
    """Takes one answer; once told to pass it on, hands everything to the relay."""

    __slots__ = ("_held", "_is_passing", "_relay", "_traveller", "error", "flight")

    def __init__(self, relay: Relay, traveller: AttemptObserver) -> None:
        self.flight: UpstreamExchange | None = None
        """None when the answer is over."""
        self.error: UpstreamError | None = None
        """Why there is no answer."""
        self._relay = relay
        self._traveller = traveller
        self._held: ResponseBuffer | None = None
        self._is_passing = False

    def drop(self) -> None:
        """Have no more of it; a provider that was asked may work on."""
        if self.flight is not None:
            is_answering = self._held is None or not self._held.is_failed
            if self.flight.connection is not None and is_answering and not self._is_passing:
                self._relay.lose()
            self.flight.cancel()
            self.flight = None

    @property
    def can_pass_on(self) -> bool:
        """Whether the answer can be passed on whole, or as far as its error."""
        held = self._held
        return held is not None and (self.flight is not None or held.is_whole or not held.is_failed)

    def pass_on(self, *more: tuple[bytes, bytes]) -> None:
        """Hand the relay what there is, with more headers, and all that comes."""
        held, relay = self._held, self._relay
        assert held is not None
        self._is_passing = True
        self._held = None
        headers = held.headers
        if NO_RETRY_FIELD in more:
            headers = [field for field in headers if field[0].lower() != NO_RETRY_FIELD[0]]
        relay.added = more
        relay.on_head(held.status, held.reason, headers, held.length, held.has_body)
        for chunk in held.chunks:
            relay.on_data(chunk)
        if self.flight is None:
            relay.on_end()

    # What the provider sends

    def on_head(
        self, status: int, reason: bytes, headers: HeaderFields, length: int | None, has_body: bool
    ) -> None:
        """Hold the head back."""
        call = self._relay.call
        peeks = status == 200 and call.stream and call.generates and not is_encoded(headers)
        self._held = ResponseBuffer(status, reason, headers, length, has_body, peeks=peeks)

    def on_data(self, chunk: bytes) -> None:
        """Pass on what follows a good beginning; hold back what may not be one."""
        if self._is_passing:
            self._relay.on_data(chunk)
            return
        held = self._held
        assert held is not None
        held.take(chunk)
        if held.is_failed:
            if held.size >= MAX_ERROR_BYTES:
                self._fail(held)
            return
        found = held.look(chunk) if held.peeks else True
        if isinstance(found, Failure):
            self._traveller.failed(found)
        elif found:
            self._traveller.succeeded()
        elif len(held.chunks) == 1:
            self._traveller.opened()

    def flush(self) -> None:
        """Send what one segment brought."""
        if self._is_passing:
            self._relay.flush()

    def on_end(self) -> None:
        """End the answer, or see what a failed one means."""
        self.flight = None
        if self._is_passing:
            self._relay.on_end()
            return
        held = self._held
        assert held is not None
        held.is_whole = True
        try:
            if held.is_failed:
                self._fail(held)
            else:
                self._traveller.succeeded()
        except Exception as fault:  # noqa: BLE001 - the flight is over: nobody else would end it
            self._relay.give_up(fault)

    def on_error(self, error: UpstreamError) -> None:
        """Take that there will be no answer, or no end of it."""
        if error.kind == "first_byte_timeout" and self.flight is not None:
            self._relay.lose()
        self.flight = None
        try:
            if self._is_passing:
                self._traveller.broke_off(classify(error))
                self._relay.on_error(error)
            elif self._held is not None and self._held.is_failed:
                self._fail(self._held)
            else:
                self._held, self.error = None, error
                self._traveller.failed(classify(error))
        except Exception as fault:  # noqa: BLE001 - the flight is over: nobody else would end it
            self._relay.give_up(fault)

    def _fail(self, held: ResponseBuffer) -> None:
        self._traveller.failed(held.classified(self._relay.now()))
