"""One call on its way through the gateway: forwarded, relayed byte for byte, settled."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from looptrap.bounded import BoundedCache
from looptrap.detect.signals.chant import MIN_REPEATED_CHARS
from looptrap.dialect.answer import Answer, answer_reader, fail_stream, failure
from looptrap.dialect.model import NO_USAGE, Call, Outcome, Usage
from looptrap.dialect.stream import AnswerReader, is_over
from looptrap.dialect.usage_meter import UsageMeter, unanswered_usage
from looptrap.engine import Ticket
from looptrap.gateway.provider import Provider
from looptrap.gateway.request_context import OWN_HEADER_PREFIX, RequestContext
from looptrap.gateway.trace import TraceSpan
from looptrap.gateway.upstream import RoutedRequest
from looptrap.gateway.upstream.attempt import is_encoded
from looptrap.gateway.upstream_error import CLIENT_CLOSED_STATUS, status_and_code
from looptrap.money.estimate import is_charged
from looptrap.money.price import Price, dollars_in_header
from looptrap.policy.header import COST, UNPRICED, headers_of
from looptrap.policy.stream_guard import StreamGuard
from looptrap.wire.exchange import Exchange
from looptrap.wire.upstream_exchange import UpstreamError, UpstreamExchange

if TYPE_CHECKING:
    from looptrap.gateway.handler import Gateway

Field = tuple[bytes, bytes]

Used = tuple[Usage, int | None]
"""What was used, and what that cost in nano-dollars; None where no price is known."""

CORS_PREFIX = b"access-control-"


class Relay:
    """Carries one call to its provider and the answer back; the wire's sink for that answer."""

    __slots__ = (
        "_bill",
        "_gateway",
        "_is_endless",
        "_is_stream",
        "_latest",
        "_listening",
        "_lost",
        "_used",
        "added",
        "call",
        "envelope",
        "exchange",
        "first_byte",
        "flight",
        "is_over",
        "model",
        "provider",
        "provider_field",
        "request_id",
        "sent",
        "sleeper",
        "span",
        "status",
        "ticket",
    )

    def __init__(
        self,
        gateway: Gateway,
        exchange: Exchange,
        envelope: RequestContext,
        call: Call,
        ticket: Ticket,
    ) -> None:
        self._gateway = gateway
        self._bill: UsageMeter | None = None  # of an answer that costs something
        self._used: Used | None = None  # with its cost, once it has been read
        self._lost: Used | None = None  # what providers run on with
        self._latest = b""
        self._is_endless = False  # as long as it will be is not known
        self._is_stream = False  # of events that can be read
        self._listening: StreamGuard | None = None
        self.exchange = exchange
        self.envelope = envelope
        self.call = call
        self.ticket = ticket
        self.request_id = envelope.request_id
        self.provider = ""
        """Where it was sent; empty before."""
        self.model = call.model
        """What was asked for there."""
        self.sent = 0.0
        """When it went to the provider …"""
        self.first_byte: float | None = None
        """… and the seconds after which that began to answer."""
        self.status = 0
        self.span: TraceSpan | None = None
        self.flight: UpstreamExchange | RoutedRequest | None = None
        self.sleeper: asyncio.TimerHandle | None = None
        self.added: Sequence[Field] = ()
        """Headers of ours that go beside the provider's."""
        self.is_over = False
        """Whether the call is settled."""

    provider_field: Field
    """The header that names the provider."""

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
        self.first_byte = self._gateway.clock() - self.sent
        found = 0
        for name, _ in headers:
            found |= _kinds[name]
        if found & _OURS:  # by these names clients learn what we decided, not what others say
            headers = [field for field in headers if _kinds[field[0]] != _OURS]
        headers.append(self.provider_field)
        headers += self.added
        headers += headers_of(self.ticket.verdict, self.ticket.shadow, self.ticket.pace)
        if not found & _REQUEST_ID:
            headers.append((b"X-Request-Id", self._gateway.id_of(self)))
        if self.envelope.shared:
            headers = [one for one in headers if not one[0].lower().startswith(CORS_PREFIX)]
            headers += self.envelope.shared
        if is_charged(self.call) and status < 400:
            self._bill = UsageMeter(self.call, length)
            self._is_endless = length is None
            is_short = length is not None and length < MIN_REPEATED_CHARS
            if self.call.stream:
                self._is_stream = length is None and not is_encoded(headers)
            if not is_short and self.ticket.listening and not is_encoded(headers):
                hearing = answer_reader(self.call.dialect, self.call.stream)
                self._listening = self._listener(hearing) if hearing is not None else None
        self.exchange.begin(status, reason, headers, length)

    def on_data(self, chunk: bytes) -> None:
        """Pass body bytes on as they come."""
        self._latest = chunk
        if self._bill is not None:
            self._bill.take(chunk)
        if self._listening is None:
            self.exchange.write(chunk)
        else:
            self._hear(self._listening, chunk)

    def flush(self) -> None:
        """Send what one segment brought."""
        self.exchange.flush()

    def on_end(self) -> None:
        """End the answer, then look at what passed; of one that is still here, before."""
        exchange = self.exchange
        try:
            if self._bill is not None and exchange.holds_head:
                usage, cost = self._used = self._reckon(self._bill, 0)
                if not usage.is_estimated:
                    exchange.add_header(
                        COST, dollars_in_header(cost) if cost is not None else UNPRICED
                    )
            exchange.finish()
            if self._listening is not None:
                self._listening.finish()
            self._settle(cut_off=False)
        except Exception as fault:  # noqa: BLE001 - its flight is over: nobody else would end it
            self.give_up(fault)

    def on_error(self, error: UpstreamError) -> None:
        """Say why there is no answer, or no more of it; what cannot be told that is cut."""
        try:
            if error.kind == "first_byte_timeout":
                self.lose()
            self._break_off(error)
        except Exception as fault:  # noqa: BLE001 - its flight is over: nobody else would end it
            self.give_up(fault)

    def _break_off(self, error: UpstreamError) -> None:
        status, code = status_and_code(error)
        if not self.exchange.started:
            self.fail(
                status, code, f"The provider did not answer: {error}.", (self.provider_field,)
            )
            return
        end = None
        if self._is_stream:
            message = f"The provider left its answer unfinished: {error}."
            body, latest = self._failure(status, code, message, None).body, self._latest
            end = b"" if is_over(latest) else fail_stream(self.call.dialect, latest, body)
        if end is None:
            self.exchange.abort()
        else:
            self.exchange.write(end)
            self.exchange.finish()
        self._settle(cut_off=end != b"")

    # What the gateway asks for

    def now(self) -> float:
        """Return the time, in seconds since 1970."""
        return self._gateway.clock()

    def leave_for(self, provider: Provider, model: str | None = None) -> None:
        """Note that the call goes to a provider now; under another model's name, if need be."""
        self.provider = provider.name
        self.model = model or self.call.model
        self.provider_field = provider.field
        self.sent = self._gateway.clock()

    def lose(self) -> None:
        """Note that a provider was asked, and that nobody waits for its answer any more."""
        if not is_charged(self.call):
            return
        price = self._price()
        usage = unanswered_usage(self.call, price.context_window if price is not None else None)
        lost = usage, price.cost(usage) if price is not None else None
        self._lost = lost if self._lost is None else _together(self._lost, lost)

    def fail(
        self,
        status: int,
        code: str,
        message: str,
        headers: Iterable[Field] = (),
        retry_after: int | None = None,
    ) -> None:
        """Answer with a failure of the gateway's own, in the client's dialect, and settle."""
        answer = self._failure(status, code, message, retry_after)
        self.status = status
        shared = self.envelope.shared
        self.exchange.answer(status, [*headers, *answer.headers, *shared], answer.body)
        if self.provider:
            self._settle(cut_off=True, is_answered=False)
        else:
            self.end(None)

    def _failure(self, status: int, code: str, message: str, after: int | None) -> Answer:
        """Return a failure of the gateway's own, in the client's dialect."""
        return failure(
            self.call.dialect,
            status=status,
            code=code,
            message=message,
            request_id=self._gateway.id_of(self).decode("latin-1"),
            retry_after=1 if after is None and status == 503 else after,
        )

    def cancel(self) -> None:
        """Drop everything: the client is gone, or the gateway itself failed."""
        if self.is_over:
            return
        flight, was_answered = self.flight, bool(self.status)
        self.status = self.status or (500 if self.exchange.is_open else CLIENT_CLOSED_STATUS)
        if flight is not None:
            # A journey says by itself which of its attempts had been sent.
            if (
                isinstance(flight, UpstreamExchange)
                and flight.connection is not None
                and not was_answered
            ):
                self.lose()
            self.flight = None
            flight.cancel()
            self._settle(cut_off=True)
        else:
            self.end(None)

    def give_up(self, fault: Exception) -> None:
        """End the call after a fault of ours: with a 500, or a cut where its answer had begun."""
        self.exchange.handle_error(fault)
        self.cancel()

    def end(self, outcome: Outcome | None) -> None:
        """Settle the call, once; None when it never went upstream.

        Whatever refers back to this relay is dropped here, so that nothing of the call outlives it.
        """
        if self.is_over:
            return
        self.is_over = True
        sleeper, flight = self.sleeper, self.flight
        self.sleeper = self.flight = self._listening = None
        if sleeper is not None:
            sleeper.cancel()
        if flight is not None:
            flight.cancel()
        self._gateway.settle(self, outcome)

    # What the answer says

    def _listener(self, hearing: AnswerReader) -> StreamGuard:
        gateway = self._gateway
        return StreamGuard(
            self.call,
            hearing,
            partial(gateway.runtime.guard.hear, self.ticket),
            can_cut=self._is_endless,
            request_id=lambda: gateway.id_of(self).decode("latin-1"),
            block_status=gateway.runtime.block_status,
        )

    def _hear(self, listener: StreamGuard, chunk: bytes) -> None:
        """Pass a chunk on, whatever it says, with the end behind it where that is cut."""
        self.exchange.write(listener.take(chunk))
        if listener.is_over:
            self.exchange.finish()
            self._settle(cut_off=True)

    def _settle(self, *, cut_off: bool, is_answered: bool = True) -> None:
        usage, bill = NO_USAGE, self._bill
        cost: int | None = 0 if bill is None else None
        try:
            if bill is not None:
                heard = self._listening.tokens if cut_off and self._listening is not None else 0
                usage, cost = self._used or self._reckon(bill, heard, is_cut=cut_off)
            if self._lost is not None:
                used = usage, cost
                usage, cost = self._lost if usage is NO_USAGE else _together(used, self._lost)
        finally:
            self.end(Outcome(self.status if is_answered else 0, usage, cut_off, cost))

    def _reckon(self, bill: UsageMeter, heard: int, *, is_cut: bool = False) -> Used:
        """Return what was used, and what that cost; None where no price is known."""
        usage, price = bill.usage(heard, is_cut=is_cut), self._price()
        return usage, price.cost(usage) if price is not None else None

    def _price(self) -> Price | None:
        gateway = self._gateway
        prices = gateway.runtime.prices
        price = prices.of(self.model, self.provider, gateway.clock())
        return prices.dearest if price is None and self.call.opaque else price


def _together(one: Used, other: Used) -> Used:
    """Return what two attempts used, and what that cost as far as prices are known."""
    costs = [cost for _, cost in (one, other) if cost is not None]
    return one[0].plus(other[0]), sum(costs) if costs else None


_REQUEST_ID, _OURS = 1, 2


def _kind(name: bytes) -> int:
    lowered = name.lower()
    if lowered == b"x-request-id":
        return _REQUEST_ID
    return _OURS if lowered.startswith(OWN_HEADER_PREFIX) else 0


_kinds = BoundedCache(_kind, max_key_bytes=64)
"""What a header of an answer is, by its name, as a bit; 0 for nearly all."""
