"""Relay: one call on its way to its provider and back, byte for byte."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from looptrap.bounded import BoundedCache
from looptrap.dialect.answer import Answer, fail_stream, failure
from looptrap.dialect.model import Call, Outcome
from looptrap.dialect.stream import is_over
from looptrap.engine import Transaction
from looptrap.gateway.provider import Provider, status_and_code
from looptrap.gateway.request_context import OWN_HEADER_PREFIX, RequestContext
from looptrap.gateway.settler import Settler
from looptrap.gateway.trace import CLIENT_CLOSED_STATUS, TraceSpan
from looptrap.policy.header import headers_of
from looptrap.wire.exchange import Exchange, UpstreamError, UpstreamExchange

if TYPE_CHECKING:
    from looptrap.gateway.upstream import RoutedRequest
    from looptrap.gateway.upstream.upstream_state import CircuitWatch
    from looptrap.wire.header_fields import Field

CORS_PREFIX = b"access-control-"


class Relay:
    """Carries one call to its provider and the answer back; the wire's sink for that answer.

    It exists from the head of the request on. `begin` gives it the transaction of the judged call.
    """

    __slots__ = (
        "_is_stream",
        "_latest",
        "_settler",
        "added",
        "call",
        "context",
        "exchange",
        "failover",
        "first_byte",
        "is_over",
        "provider",
        "sent_at",
        "span",
        "timer",
        "transaction",
        "upstream",
        "watch",
    )

    call: Call
    transaction: Transaction
    provider: Provider
    """The provider that the call is sent to."""

    def __init__(
        self, exchange: Exchange[Relay], context: RequestContext, settler: Settler
    ) -> None:
        self._settler = settler
        self._latest = b""
        self._is_stream = False  # of events, as far as is known
        self.sent_at = 0.0
        self.exchange = exchange
        self.context = context
        self.first_byte: float | None = None
        """Seconds from sending the call to the head of the answer."""
        self.span: TraceSpan | None = None
        self.watch: CircuitWatch | None = None
        """Takes the outcome for the provider's circuit; a route with a plan does that itself."""
        self.upstream: UpstreamExchange | None = None
        """The exchange with the provider, where the route has one provider …"""
        self.failover: RoutedRequest | None = None
        """… or the attempts, where it has several."""
        self.timer: asyncio.TimerHandle | None = None
        """Ends the delay of a throttled call."""
        self.added: Sequence[Field] = ()
        """Our headers to add to the provider's."""
        self.is_over = True
        """Whether nothing is left to settle: the call is settled, or not judged yet."""

    def begin(self, transaction: Transaction) -> None:
        """Take the transaction of the judged call, which this relay will settle."""
        self.transaction = transaction
        self.call = transaction.call
        self.is_over = False

    # What the provider sends

    def on_head(
        self,
        status: int,
        reason: bytes,
        headers: list[Field],
        length: int | None,
        has_body: bool,  # noqa: ARG002 - the exchange knows which answers have none
    ) -> None:
        """Pass the head on, with the headers about the verdict."""
        transaction, watch = self.transaction, self.watch
        if watch is not None and (status >= 400 or watch.watched):
            watch.on_head(self, status, headers)
        self.first_byte = self._settler.clock() - self.sent_at
        found = 0
        for name, _ in headers:
            found |= _kinds[name]
        if found & _OURS:  # only this gateway speaks about its verdicts
            headers = [field for field in headers if _kinds[field[0]] != _OURS]
        headers.append(self.provider.field)
        headers += self.added
        ticket = transaction.ticket
        headers += headers_of(ticket.verdict, ticket.shadow, ticket.pace)
        if not found & _REQUEST_ID:
            headers.append((b"X-Request-Id", transaction.make_request_id()))
        if self.context.shared:
            headers = [one for one in headers if not one[0].lower().startswith(CORS_PREFIX)]
            headers += self.context.shared
        encoded = found & _ENCODING != 0
        transaction.on_head(status, length, is_encoded=encoded)
        self._is_stream = (
            self.call.stream and length is None and not encoded and transaction.is_metered
        )
        self.exchange.begin(status, reason, headers, length)

    def on_data(self, chunk: bytes) -> None:
        """Pass a chunk of the body on; end the answer where a rule cuts it."""
        self._latest = chunk
        transaction = self.transaction
        self.exchange.write(transaction.on_chunk(chunk))
        if transaction.is_cut:
            self.exchange.finish()
            self._settle(self._settler.clock(), cut_off=True)

    def flush(self) -> None:
        """Send what one segment brought."""
        self.exchange.flush()

    def on_end(self) -> None:
        """End the answer; of a repeated call, once the store knows that it is answered.

        Otherwise the client's next call could get to a shared store first, and count as a twin.
        """
        ticket = self.transaction.ticket
        if ticket.streaks:
            self._settler.note_answer(ticket, self._finish)
        else:
            self._finish()

    def _finish(self) -> None:
        """End the answer, then judge it; add its cost to a head that is not sent yet."""
        if self.is_over:
            return  # the client left while the store was asked
        exchange, transaction, now = self.exchange, self.transaction, self._settler.clock()
        try:
            if exchange.holds_head and (field := transaction.cost_header(now)) is not None:
                exchange.add_header(*field)
            exchange.finish()
            self._settle(now)
        except Exception as fault:  # noqa: BLE001 - the upstream exchange is over: end this here
            self.give_up(fault)

    def on_error(self, error: UpstreamError) -> None:
        """Say why there is no answer, or no more of it; where that is impossible, cut it."""
        try:
            if error.kind == "first_byte_timeout":
                self.lose()
            if self.watch is not None:
                self.watch.on_error(self, error)
            self._break_off(error)
        except Exception as fault:  # noqa: BLE001 - the upstream exchange is over: end this here
            self.give_up(fault)

    def _break_off(self, error: UpstreamError) -> None:
        status, code = status_and_code(error)
        if not self.exchange.started:
            self.fail(
                status, code, f"The provider did not answer: {error}.", (self.provider.field,)
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
        self._settle(self._settler.clock(), cut_off=end != b"")

    # What the gateway does

    def now(self) -> float:
        """Return the time in seconds since 1970."""
        return self._settler.clock()

    def start_upstream(self, provider: Provider, model: str | None = None) -> None:
        """Note that the call is sent to a provider now; perhaps for another model."""
        transaction = self.transaction
        transaction.provider = provider.name
        transaction.model = model or self.call.model
        self.provider = provider
        self.sent_at = self._settler.clock()

    def lose(self) -> None:
        """Note that a provider may work on an answer that is no longer awaited."""
        self.transaction.lose(self._settler.clock())

    def answer(self, answer: Answer) -> None:
        """Send an answer in place of the provider's, and settle."""
        self.transaction.status = answer.status
        self.exchange.answer(answer.status, [*answer.headers, *self.context.shared], answer.body)
        self.end(None)

    def fail(
        self,
        status: int,
        code: str,
        message: str,
        headers: Iterable[Field] = (),
        retry_after: int | None = None,
    ) -> None:
        """Send a failure of the gateway's own, in the client's dialect, and settle."""
        answer = self._failure(status, code, message, retry_after)
        self.transaction.status = status
        shared = self.context.shared
        self.exchange.answer(status, [*headers, *answer.headers, *shared], answer.body)
        if self.transaction.provider:
            self._settle(self._settler.clock(), cut_off=True, is_answered=False)
        else:
            self.end(None)

    def _failure(self, status: int, code: str, message: str, after: int | None) -> Answer:
        return failure(
            self.call.dialect,
            status=status,
            code=code,
            message=message,
            request_id=self.transaction.make_request_id().decode("latin-1"),
            retry_after=1 if after is None and status == 503 else after,
        )

    def cancel(self) -> None:
        """Drop everything: the client is gone, or the gateway itself failed."""
        if self.is_over:
            return
        transaction, upstream, failover = self.transaction, self.upstream, self.failover
        if self.watch is not None:
            self.watch.on_cancel(self)
        was_answered = bool(transaction.status)
        if not was_answered:
            transaction.status = 500 if self.exchange.is_open else CLIENT_CLOSED_STATUS
        sent = upstream or failover
        if sent is None:
            self.end(None)
            return
        # A request with several attempts notes itself which of them are lost.
        if upstream is not None and upstream.connection is not None and not was_answered:
            self.lose()
        self.upstream = self.failover = None
        sent.cancel()
        self._settle(self._settler.clock(), cut_off=True)

    def give_up(self, fault: Exception) -> None:
        """End the call after a fault of ours: with a 500, or a cut where its answer had begun."""
        self.exchange.handle_error(fault)
        self.cancel()

    def end(self, outcome: Outcome | None, now: float | None = None) -> None:
        """Settle the call, once; None when it was not sent to a provider.

        References back to this relay are dropped here, so that nothing of the call outlives it.
        """
        if self.is_over:
            return
        self.is_over = True
        timer, upstream, failover = self.timer, self.upstream, self.failover
        self.timer = self.upstream = self.failover = None
        if timer is not None:
            timer.cancel()
        if upstream is not None:
            upstream.cancel()
        if failover is not None:
            failover.cancel()
        self._settler.settle(
            self.transaction,
            self.context,
            self.exchange.connection,
            outcome,
            self.first_byte,
            self.span,
            now=now,
        )

    def _settle(self, now: float, *, cut_off: bool = False, is_answered: bool = True) -> None:
        try:
            outcome = self.transaction.outcome(now, cut_off=cut_off, is_answered=is_answered)
        except Exception:
            self.end(Outcome(self.transaction.status if is_answered else 0, cut_off=cut_off), now)
            raise
        self.end(outcome, now)


_REQUEST_ID, _OURS, _ENCODING = 1, 2, 4


def _kind(name: bytes) -> int:
    lowered = name.lower()
    if lowered == b"x-request-id":
        return _REQUEST_ID
    if lowered == b"content-encoding":
        return _ENCODING
    return _OURS if lowered.startswith(OWN_HEADER_PREFIX) else 0


_kinds = BoundedCache(_kind, max_key_bytes=64)
"""The kind of a response header by its name, as a bit; 0 for nearly all."""
