"""Gateway: takes requests from the wire, judges them, and forwards or answers them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from looptrap.dialect.answer import Answer, Headers, failure
from looptrap.dialect.model import Call, Request
from looptrap.dialect.registry import dialect_of, is_unreadable, read_at_once, read_odd
from looptrap.dialect.splice import has_repeated_key
from looptrap.engine import RequestIds, Transaction
from looptrap.gateway.auth import Denial
from looptrap.gateway.browser import PREFLIGHT
from looptrap.gateway.capture import Capture
from looptrap.gateway.decision import decision_answer, denial_answer, read_decision_request
from looptrap.gateway.judge import Judge
from looptrap.gateway.relay import Relay
from looptrap.gateway.request_context import RequestContext
from looptrap.gateway.router import Forwarder
from looptrap.gateway.settler import OnSettled, Settler
from looptrap.gateway.slow_body import Pacer, Unpacked, Unpacker
from looptrap.gateway.trace import Tracer
from looptrap.gateway.upstream import UpstreamState
from looptrap.incident.recorder import IncidentRecorder
from looptrap.money.meters import full_settlements_of
from looptrap.policy.verdict import ALLOWED
from looptrap.wire.exchange import Exchange
from looptrap.wire.pool import Pools

if TYPE_CHECKING:
    from looptrap.gateway.app import Runtime

MAX_DELAYED_CALLS = 256
"""Throttled calls that are delayed at the same time; one more is refused."""

UNREADABLE = Denial(
    400,
    "unreadable_request",
    "The body of this request cannot be read, and this gateway forwards only what it can judge:"
    " send JSON in UTF-8, plain or packed with gzip or deflate.",
)
AMBIGUOUS = Denial(
    400,
    "ambiguous_request",
    "A key stands twice at the top of this request's JSON, and readers differ on which counts."
    " Send it once.",
)

AMBIGUITY_SAMPLE = 64
"""One body in so many is searched for repeated keys, and all further ones of a caller that sent
such a body: to search every body would cost as much as reading it."""

MAX_AMBIGUOUS_CALLERS = 1_024

GatewayExchange = Exchange[Relay]


class Gateway:
    """Judges every request, forwards what is allowed, and answers the rest itself."""

    def __init__(
        self,
        runtime: Runtime,
        pools: Pools,
        judge: Judge,
        *,
        attempts: UpstreamState,
        on_settled: OnSettled | None = None,
        capture: Capture | None = None,
        recorder: IncidentRecorder | None = None,
        tracer: Tracer | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.runtime = runtime
        """What follows from the configuration; a reload replaces it."""
        self.attempts = attempts
        self.judge = judge
        self.clock = clock
        self._forwarder = Forwarder(pools, attempts)
        self._settler = Settler(
            judge,
            clock,
            on_settled=on_settled,
            recorder=recorder,
            tracer=tracer,
            capture=capture,
        )
        self._capture = capture
        self._tracer = tracer
        self._delayed: set[Relay] = set()
        self._pacer = Pacer()
        self._unpacker = Unpacker()
        self._ids = RequestIds()
        self._requests = 0
        self._ambiguous: set[str] = set()

    # Events of the wire

    def on_head(self, exchange: GatewayExchange) -> None:
        """Identify the caller; refuse one that may not call before it sends a body."""
        context = self.runtime.contexts.open(exchange)
        exchange.state = Relay(exchange, context, self._settler)
        if context.denied is not None and not context.asks_for_decision:
            self._deny(exchange, context, context.denied)

    def on_request(self, exchange: GatewayExchange) -> None:
        """Judge a call and act on the verdict."""
        relay = exchange.state
        assert relay is not None
        if relay.context.encoding:
            self._pace(relay, partial(self._unpack, relay))
        else:
            self._read(relay, exchange.body)

    def on_disconnect(self, exchange: GatewayExchange) -> None:
        """Stop working for a client that is gone, or that gets a 500."""
        relay = exchange.state
        if relay is not None:
            self._delayed.discard(relay)
            relay.cancel()

    # Reading

    def _read(self, relay: Relay, body: bytes, unpacked: Unpacked | None = None) -> None:
        """Read a request, whose body is given unpacked, and judge it."""
        exchange, context = relay.exchange, relay.context
        if context.asks_for_decision:
            read = read_decision_request(exchange, context, self.runtime, self._id_of(relay), body)
            if isinstance(read, Answer):
                exchange.answer(read.status, read.headers, read.body)
                return
            request = read
        else:
            request = Request(
                context.method,
                context.path,
                context.query,
                exchange.headers,
                body,
                context.identity.caller,
                context.identity.project,
                context.session,
                exchange.peer,
                context.claims,
                context.is_retry,
                context.progress,
                session_limit=context.session_limit,
            )
            if self._tracer is not None:
                relay.span = self._tracer.begin(context.fields, self.clock())
        if unpacked is not None:
            request.room = unpacked
        call = read_at_once(request)
        self._requests += 1
        if (
            not self._requests % AMBIGUITY_SAMPLE or request.caller in self._ambiguous
        ) and has_repeated_key(body):
            self._refuse_ambiguous(relay, request)
        elif call is None:
            self._pace(relay, partial(self._read_odd, relay, request))
        else:
            self._judge(relay, call)

    def _pace(self, relay: Relay, work: Callable[[], None]) -> None:
        """Do slow work for a request in its caller's turn; refuse it where too many wait."""
        exchange, context = relay.exchange, relay.context
        if self._pacer.is_full:
            self._overload(relay, "Too many requests wait to be read.")
            return

        def attempt() -> None:
            if exchange.is_open:
                exchange.attempt(work)

        self._pacer.submit(context.identity.caller, attempt)

    def _unpack(self, relay: Relay) -> None:
        """Unpack a body: a small one at once, a larger one in a thread."""
        body, encoding = relay.exchange.body, relay.context.encoding
        plain = self._unpacker.unpack_now(body, encoding)
        if plain is not None:
            self._read_unpacked(relay, plain)
        elif self._unpacker.is_full:
            self._overload(relay, "Too many packed bodies wait to be unpacked.")
        else:
            limit = self.runtime.config.gateway.server_limits.max_body
            then = partial(self._on_unpacked, relay)
            self._unpacker.unpack_later(body, encoding, limit, then)

    def _on_unpacked(self, relay: Relay, plain: bytes) -> None:
        """Continue with a body that the thread has unpacked, if its client still waits."""
        if relay.exchange.is_open:
            self._pace(relay, partial(self._read_unpacked, relay, plain))

    def _read_unpacked(self, relay: Relay, plain: bytes) -> None:
        """Read an unpacked body, whose size is counted while the call is under way."""
        if plain is relay.exchange.body:
            self._read(relay, plain)
            return
        unpacked = self._unpacker.hold(plain, self.runtime.config.gateway.max_unpacked)
        if unpacked is None:
            self._overload(relay, "The gateway holds too many unpacked bodies already.")
        else:
            self._read(relay, plain, unpacked)

    def _read_odd(self, relay: Relay, request: Request) -> None:
        """Read a body that takes long to read, or cannot be read, and judge it."""
        call = read_odd(request)
        if self.runtime.config.gateway.unreadable == "refuse" and is_unreadable(call):
            self._refuse_unread(relay, call, UNREADABLE)
        else:
            self._judge(relay, call)

    def _refuse_ambiguous(self, relay: Relay, request: Request) -> None:
        """Refuse a body with a repeated key, and search every further body of its caller."""
        if len(self._ambiguous) >= MAX_AMBIGUOUS_CALLERS:
            self._ambiguous.clear()
        self._ambiguous.add(request.caller)
        self._refuse_unread(relay, read_odd(request), AMBIGUOUS)

    def _refuse_unread(self, relay: Relay, call: Call, denied: Denial) -> None:
        exchange = relay.exchange
        if relay.context.asks_for_decision:
            answer = denial_answer(self.runtime, call.dialect, denied, self._id_of(relay))
            exchange.answer(answer.status, answer.headers, answer.body)
        else:
            self._deny(exchange, relay.context, denied)

    def _overload(self, relay: Relay, why: str) -> None:
        denied = Denial(503, "overloaded", f"{why} Try again later.")
        self._deny(relay.exchange, relay.context, denied)

    # Judging

    def _judge(self, relay: Relay, call: Call) -> None:
        """Judge a call, then act: at once, or when a shared store has answered."""
        now, runtime = self.clock(), self.runtime
        transaction = Transaction(
            runtime.engine, call, relay.context.request_id, self._ids, runtime.block_status
        )
        if self.judge.is_shared:
            then = partial(self._on_judged, relay, transaction, now)
            self.judge.judge_shared(transaction, now, partial(relay.exchange.attempt, then))
        else:
            self.judge.judge_now(transaction, now)
            self._on_judged(relay, transaction, now)

    def _on_judged(self, relay: Relay, transaction: Transaction, began: float) -> None:
        """Act on the verdict, if the client still waits; one that left is only recorded."""
        ticket = transaction.ticket
        verdict = ticket.verdict
        self.runtime.engine.tally.decisions.observe(self.clock() - began)
        if self._capture is not None:
            ticket.capture_id = self._capture.add(transaction.call, verdict, began)
        if not relay.exchange.is_open:
            self._settle_unsent(relay, transaction)
        elif relay.context.asks_for_decision:
            self._answer_decision(relay, transaction)
        else:
            relay.begin(transaction)
            if verdict is ALLOWED:
                self._forwarder.forward(relay, self.runtime)
            else:
                self._act(relay, transaction)

    def _answer_decision(self, relay: Relay, transaction: Transaction) -> None:
        """Tell another proxy whether the call may pass; that proxy sends it."""
        answer = decision_answer(transaction, self.runtime)
        relay.exchange.answer(answer.status, answer.headers, answer.body)
        ticket = transaction.ticket
        if ticket.holds:
            # This gateway never learns the usage of such a call: the reserved amount counts.
            self.judge.settle(full_settlements_of(ticket.holds), self.clock())
            ticket.holds = ()
        self._settle_unsent(relay, transaction)

    def _settle_unsent(self, relay: Relay, transaction: Transaction) -> None:
        """Settle a call that is judged, and not sent by this gateway."""
        connection = relay.exchange.connection
        self._settler.settle(transaction, relay.context, connection, is_logged=False)

    # Acting

    def _act(self, relay: Relay, transaction: Transaction) -> None:
        # A body that was unpacked or recoded for judging is not the one to forward.
        is_as_sent = transaction.call.request.body is relay.exchange.body
        transaction.enforce(self.clock(), can_nudge=is_as_sent)
        if transaction.delay and len(self._delayed) >= MAX_DELAYED_CALLS:
            transaction.skip_delay()
        if transaction.answer is not None:
            relay.answer(transaction.answer)
        elif transaction.delay:
            self._delayed.add(relay)
            loop = asyncio.get_running_loop()
            relay.timer = loop.call_later(transaction.delay, self._end_delay, relay)
        else:
            self._forward(relay)

    def _forward(self, relay: Relay) -> None:
        self._forwarder.forward(relay, self.runtime)

    def _end_delay(self, relay: Relay) -> None:
        self._delayed.discard(relay)
        relay.timer = None
        relay.exchange.attempt(partial(self._forward, relay))

    # Answers without a call

    def _deny(self, exchange: GatewayExchange, context: RequestContext, denied: Denial) -> None:
        if denied is PREFLIGHT:
            exchange.answer(denied.status, context.shared)
            return
        headers, body = self.refuse(exchange, denied.status, denied.code, denied.message)
        exchange.answer(denied.status, [*headers, *context.shared], body)

    def refuse(
        self, exchange: GatewayExchange | None, status: int, code: str, message: str
    ) -> tuple[Headers, bytes]:
        """Return headers and body of a refusal by the wire, or of a request that is not judged."""
        path, request_id = "", b""
        if exchange is not None:
            path = exchange.target.partition(b"?")[0].decode("latin-1")
            request_id = dict(exchange.headers).get(b"x-request-id", b"")
        answer = failure(
            dialect_of(path),
            status=status,
            code=code,
            message=message,
            request_id=(request_id or self._ids.new()).decode("latin-1"),
            retry_after=1 if status == 503 else None,
        )
        return answer.headers, answer.body

    def _id_of(self, relay: Relay) -> str:
        return (relay.context.request_id or self._ids.new()).decode("latin-1")

    # Stopping

    def forward_delayed(self) -> None:
        """Forward every call that is delayed or waits: the gateway is about to stop."""
        for relay in list(self._delayed):
            if relay.timer is not None:
                relay.timer.cancel()
            self._end_delay(relay)
        self.attempts.wake_all()

    def close(self) -> None:
        """Read what waits to be read, and end the thread that unpacks."""
        self._pacer.finish()
        self._unpacker.close()
