"""One call on its way through the gateway: forwarded, relayed byte for byte, settled."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from looptrap.call.model import Call, Outcome
from looptrap.detect.signals.chant import REPEATED
from looptrap.gateway.cut import ending
from looptrap.gateway.envelope import Envelope
from looptrap.gateway.hearing import Hearing, hearing_of
from looptrap.gateway.refuse import failure
from looptrap.gateway.tokens import Usage, usage_of
from looptrap.gateway.usage import UsageReader
from looptrap.guard import Ticket
from looptrap.policy.header import headers_of
from looptrap.policy.verdict import Verdict
from looptrap.wire.exchange import Exchange
from looptrap.wire.flight import Flight, UpstreamError

if TYPE_CHECKING:
    from looptrap.gateway.handler import Gateway

_STATUS = {
    "connect_timeout": 504,
    "first_byte_timeout": 504,
    "idle_timeout": 504,
    "busy": 503,
}
"""What a client is told when the provider does not answer; 502 for everything else."""


class Relay:
    """Carries one call to its provider and the answer back; the wire's sink for that answer."""

    __slots__ = (
        "_cutting",
        "_gateway",
        "_hearing",
        "_length",
        "_usage",
        "_whole",
        "call",
        "envelope",
        "exchange",
        "flight",
        "provider",
        "request_id",
        "sleeper",
        "status",
        "ticket",
    )

    def __init__(
        self,
        gateway: Gateway,
        exchange: Exchange,
        envelope: Envelope,
        call: Call,
        ticket: Ticket,
    ) -> None:
        self._gateway = gateway
        self._length: int | None = -1  # of an answer that says what it used
        self._whole = b""
        self._usage: UsageReader | None = None
        self._hearing: Hearing | None = None
        self._cutting: Verdict | None = None  # until the event that has begun is over
        self.exchange = exchange
        self.envelope = envelope
        self.call = call
        self.ticket = ticket
        self.request_id = envelope.request_id
        self.provider = ""
        self.status = 0
        self.flight: Flight | None = None
        self.sleeper: asyncio.TimerHandle | None = None

    # What the provider sends

    def on_head(
        self,
        status: int,
        reason: bytes,
        headers: list[tuple[bytes, bytes]],
        length: int | None,
        has_body: bool,  # noqa: ARG002 - the exchange knows by itself which answers have none
    ) -> None:
        """Pass the head on, with the verdict beside the provider's own headers."""
        self.status = status
        headers += headers_of(self.ticket.verdict, self.ticket.shadow)
        if not _names_request(headers):
            headers.append((b"X-Request-Id", self._gateway.id_of(self)))
        if self.call.generates and status < 400:
            self._length = length
            is_short = length is not None and length < REPEATED
            if not is_short and self.ticket.listening and not _is_encoded(headers):
                self._hearing = hearing_of(self.call.dialect, self.call.stream)
        self.exchange.begin(status, reason, headers, length)

    def on_data(self, chunk: bytes) -> None:
        """Pass body bytes on as they come."""
        if self._usage is not None:
            self._usage.feed(chunk)
        elif self._length == len(chunk):
            self._whole = chunk
        elif self._length != -1:
            self._usage = UsageReader(self.call.dialect, self.call.stream)
            self._usage.feed(chunk)
        if self._hearing is None:
            self.exchange.write(chunk)
        else:
            self._hear(self._hearing, chunk)

    def flush(self) -> None:
        """Send what one segment brought."""
        self.exchange.flush()

    def on_end(self) -> None:
        """End the answer, then look at what passed."""
        self.flight = None
        self.exchange.finish()
        if self._hearing is not None:
            for text in self._hearing.finish():
                self._gateway.runtime.guard.hear(self.ticket, text)
        self._settle(cut_off=False)

    def on_error(self, error: UpstreamError) -> None:
        """Say why there is no answer; one that has begun is cut."""
        self.flight = None
        if self.exchange.started:
            self.exchange.abort()
        else:
            status = _STATUS.get(error.kind, 502)
            self.fail(status, f"upstream_{error.kind}", f"The provider did not answer: {error}.")
        self._settle(cut_off=True)

    # What the gateway asks for

    def fail(self, status: int, code: str, message: str) -> None:
        """Answer with a failure of the gateway's own, in the client's dialect."""
        answer = failure(
            self.call.dialect,
            status=status,
            code=code,
            message=message,
            request_id=self._gateway.id_of(self).decode("latin-1"),
            retry_after=1 if status == 503 else None,
        )
        self.status = status
        self.exchange.answer(answer.status, answer.headers, answer.body)

    def cancel(self) -> None:
        """Drop everything: the client is gone."""
        if self.sleeper is not None:
            self.sleeper.cancel()
            self.sleeper = None
            self._gateway.settle(self, None)
        if self.flight is not None:
            self.flight.cancel()
            self.flight = None
            self._settle(cut_off=True)

    # What the answer says

    def _hear(self, hearing: Hearing, chunk: bytes) -> None:
        """Pass a chunk on, whatever it says; then look, now and then, whether to cut here."""
        if self._cutting is not None:
            end = hearing.take_event(chunk)
            self.exchange.write(chunk[:end])
            if end is None or self._cut(hearing):
                return
            chunk = chunk[end:]
        self.exchange.write(chunk)
        if not hearing.feed(chunk):
            return
        for text in hearing.read():
            verdict = self._gateway.runtime.guard.hear(self.ticket, text)
            if verdict is not None and verdict.action.refuses:
                self._cutting = verdict
        if hearing.is_lost:
            self._hearing = None
        elif self._cutting is not None and hearing.is_between_events:
            self._cut(hearing)

    def _cut(self, hearing: Hearing) -> bool:
        """End the answer between two events, where that can be done; say whether it was."""
        verdict, self._cutting = self._cutting, None
        if verdict is None or self._length is not None:
            return False
        end = ending(
            self.call,
            hearing,
            verdict,
            request_id=self._gateway.id_of(self).decode("latin-1"),
            block_status=self._gateway.runtime.block_status,
        )
        if end is None:
            return False
        if self.flight is not None:
            self.flight.cancel()
            self.flight = None
        self.exchange.write(end)
        self.exchange.finish()
        self._settle(cut_off=True)
        return True

    def _settle(self, *, cut_off: bool) -> None:
        # Exchange, relay and flight name each other: let go, or only the collector frees them.
        self.exchange.state = self.exchange.source = None
        usage = self._used()
        said = self._hearing.ear.tokens if cut_off and self._hearing is not None else 0
        if usage is None:
            outcome = Outcome(self.status, output_tokens=said, cut_off=cut_off)
        else:
            output = max(usage.output_tokens, said)
            outcome = Outcome(self.status, usage.input_tokens, output, cut_off)
        self._gateway.settle(self, outcome)

    def _used(self) -> Usage | None:
        """Return what the provider says the answer used; most answers are one small object."""
        if self._whole:
            usage = usage_of(self.call.dialect, self._whole)
            if usage is not None:
                return usage
            self._usage = UsageReader(self.call.dialect, self.call.stream)
            self._usage.feed(self._whole)
        return self._usage.finish() if self._usage is not None else None


def _is_encoded(headers: list[tuple[bytes, bytes]]) -> bool:
    return any(len(name) == 16 and name.lower() == b"content-encoding" for name, _ in headers)


def _names_request(headers: list[tuple[bytes, bytes]]) -> bool:
    for name, _ in headers:  # noqa: SIM110 - a generator would cost more than the loop
        if len(name) == 12 and name.lower() == b"x-request-id":
            return True
    return False
