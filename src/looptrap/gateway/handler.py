"""The gateway's handler: from a request on the wire to a verdict, and to the provider or back."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from functools import partial
from itertools import count
from secrets import token_hex
from typing import assert_never

from msgspec.structs import replace

from looptrap.dialect.answer import Answer, Headers, failure
from looptrap.dialect.model import Call, Outcome, Request
from looptrap.dialect.registry import dialect_of, is_unreadable, read_at_once, read_odd
from looptrap.dialect.splice import has_repeated_key
from looptrap.engine import Ticket
from looptrap.gateway.auth import Denial
from looptrap.gateway.browser import PREFLIGHT
from looptrap.gateway.capture import Capture
from looptrap.gateway.decision import decision_answer, read_decision_request, unreadable
from looptrap.gateway.judge import Judge
from looptrap.gateway.pacer import Pacer
from looptrap.gateway.relay import Relay
from looptrap.gateway.request_context import RequestContext, Unpacked, Unpacker
from looptrap.gateway.router import Forwarder
from looptrap.gateway.runtime import Runtime
from looptrap.gateway.trace import Tracer, TraceSpan
from looptrap.gateway.upstream import UpstreamState
from looptrap.incident.recorder import IncidentRecorder
from looptrap.money.meters import full_settlements_of, settlements_of
from looptrap.policy.action import Action
from looptrap.policy.refusal import final_message, nudged, refusal
from looptrap.policy.verdict import ALLOWED, is_nudge_due
from looptrap.wire.exchange import Exchange
from looptrap.wire.pool import Pools


class RequestIds:
    """Makes ids that no other gateway makes, without asking for randomness each time."""

    def __init__(self) -> None:
        self._prefix = token_hex(6).encode()
        self._numbers = count(1)

    def new(self) -> bytes:
        """Return one that nothing has yet."""
        return b"lt-%b-%x" % (self._prefix, next(self._numbers))

    def of(self, exchange: Exchange | None) -> str:
        """Return the id of what never becomes a relay: the client's own, or a new one."""
        sent = dict(exchange.headers) if exchange is not None else {}
        return (sent.get(b"x-request-id") or self.new()).decode("latin-1")


MAX_SLEEPERS = 256
"""Throttled calls that are held back at once; one more is refused."""

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

OnSettled = Callable[[Relay, Outcome], None]
OnJudged = Callable[[Exchange, Ticket], None]


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
        desk: IncidentRecorder | None = None,
        tracer: Tracer | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.runtime = runtime
        """What the configuration says; a reload puts another in its place."""
        self.attempts = attempts
        self._forwarder = Forwarder(pools, attempts)
        self.judge = judge
        self._on_settled = on_settled
        self._capture = capture
        self._desk = desk
        self._tracer = tracer
        self.clock = clock
        self._sleepers: set[Relay] = set()
        self._pacer = Pacer()
        self._unpacker = Unpacker()
        self._ids = RequestIds()
        self._taken = 0
        self._ambiguous: set[str] = set()

    # What the wire tells

    def on_head(self, exchange: Exchange) -> None:
        """Find out who is calling; whoever may not call is told before sending a body."""
        envelope = exchange.state = self.runtime.envelopes.open(exchange)
        if envelope.denied is not None and not envelope.asks_for_decision:
            self._deny(exchange, envelope.denied)

    def on_request(self, exchange: Exchange) -> None:
        """Judge a call and act on the verdict."""
        if exchange.state.encoding:
            self._pace(exchange, partial(self._unpack, exchange))
        else:
            self._take(exchange, exchange.body)

    def on_disconnect(self, exchange: Exchange) -> None:
        """Stop working for a client that is gone, or that gets a 500."""
        relay = exchange.state
        if isinstance(relay, Relay):
            self._sleepers.discard(relay)
            relay.cancel()

    # Judging

    def _take(self, exchange: Exchange, body: bytes, unpacked: Unpacked | None = None) -> None:
        """Read a request, whose body is given in plain, and judge it."""
        envelope: RequestContext = exchange.state
        then: OnJudged = self._relay
        if envelope.asks_for_decision:
            asked = read_decision_request(exchange, self.runtime, self._ids.of(exchange), body)
            if isinstance(asked, Answer):
                exchange.answer(asked.status, asked.headers, asked.body)
                return
            request, then = asked, self._tell
        else:
            request = self._request(exchange, envelope, body)
            if self._tracer is not None:
                then = partial(self._relay, span=self._tracer.begin(envelope.fields, self.clock()))
        if unpacked is not None:
            request.room = unpacked
        call = read_at_once(request)
        self._taken += 1
        if (
            not self._taken % AMBIGUITY_SAMPLE or request.caller in self._ambiguous
        ) and has_repeated_key(body):
            self._refuse_ambiguous(exchange, request)
        elif call is None:
            self._pace(exchange, partial(self._take_odd, exchange, request, then))
        else:
            self._judge(exchange, call, then)

    def _request(self, exchange: Exchange, envelope: RequestContext, body: bytes) -> Request:
        identity = envelope.identity
        return Request(
            envelope.method,
            envelope.path,
            envelope.query,
            exchange.headers,
            body,
            identity.caller,
            identity.project,
            envelope.session,
            exchange.peer,
            envelope.claims,
            envelope.is_retry,
            envelope.progress,
            session_limit=envelope.session_limit,
        )

    # Reading that takes long

    def _pace(self, exchange: Exchange, work: Callable[[], None]) -> None:
        """Do some work for an exchange in its caller's turn, if there is room to wait for it."""
        if self._pacer.is_full:
            self._overload(exchange, "Too many requests wait to be read.")
            return

        def attempt() -> None:
            if exchange.is_open:
                exchange.attempt(work)

        self._pacer.submit(exchange.state.identity.caller, attempt)

    def _unpack(self, exchange: Exchange) -> None:
        """Unpack a body: a small one at once, a larger one in a thread."""
        encoding = exchange.state.encoding
        plain = self._unpacker.at_once(exchange.body, encoding)
        if plain is not None:
            if (take := self._counted(exchange, plain)) is not None:
                take()
        elif self._unpacker.is_full:
            self._overload(exchange, "Too many packed bodies wait to be unpacked.")
        else:
            then = partial(self._unpacked, exchange)
            self._unpacker.later(exchange.body, encoding, self.runtime.max_decoded, then)

    def _unpacked(self, exchange: Exchange, plain: bytes) -> None:
        """Go on with what the thread has unpacked."""
        if exchange.is_open and (take := self._counted(exchange, plain)) is not None:
            self._pace(exchange, take)

    def _counted(self, exchange: Exchange, plain: bytes) -> Callable[[], None] | None:
        """Return what takes in an unpacked body, which counts from now on; None: no room."""
        if plain is exchange.body:
            return partial(self._take, exchange, plain)
        unpacked = self._unpacker.hold(plain, self.runtime.max_unpacked)
        if unpacked is None:
            self._overload(exchange, "The gateway holds too many unpacked bodies already.")
            return None
        return partial(self._take, exchange, plain, unpacked)

    def _take_odd(self, exchange: Exchange, request: Request, then: OnJudged) -> None:
        """Read a body that takes long to read, or cannot be read, and judge it."""
        call = read_odd(request)
        if self.runtime.refuses_unreadable and is_unreadable(call):
            self._refuse_unread(exchange, call, UNREADABLE)
        else:
            self._judge(exchange, call, then)

    def _refuse_ambiguous(self, exchange: Exchange, request: Request) -> None:
        """Refuse a body with a repeated key, and look at every further body of its caller."""
        if len(self._ambiguous) >= MAX_AMBIGUOUS_CALLERS:
            self._ambiguous.clear()
        self._ambiguous.add(request.caller)
        self._refuse_unread(exchange, read_odd(request), AMBIGUOUS)

    def _refuse_unread(self, exchange: Exchange, call: Call, denied: Denial) -> None:
        if exchange.state.asks_for_decision:
            answer = unreadable(call, self.runtime, denied, self._ids.of(exchange))
            exchange.answer(answer.status, answer.headers, answer.body)
        else:
            self._deny(exchange, denied)

    def _overload(self, exchange: Exchange, why: str) -> None:
        self._deny(exchange, Denial(503, "overloaded", f"{why} Try again later."))

    def close(self) -> None:
        """Read what waits to be read, and end the thread that unpacks."""
        self._pacer.finish()
        self._unpacker.close()

    def _judge(self, exchange: Exchange, call: Call, then: OnJudged) -> None:
        """Judge a call, and go on with its exchange when that is done: mostly at once."""
        guard, now = self.runtime.guard, self.clock()
        if self.judge.is_shared:

            def go_on(ticket: Ticket) -> None:
                exchange.attempt(lambda: self._go_on(exchange, ticket, now, then))

            self.judge.later(guard, call, now, go_on)
            return
        ticket = self.judge.at_once(guard, call, now)
        guard.tally.decisions.observe(self.clock() - now)
        if self._capture is not None:
            self._capture.add(call, ticket.verdict, now)
        then(exchange, ticket)

    def _go_on(self, exchange: Exchange, ticket: Ticket, now: float, then: OnJudged) -> None:
        """Go on with what waited for the store, if its client still waits too."""
        self.runtime.guard.tally.decisions.observe(self.clock() - now)
        if self._capture is not None:
            self._capture.add(ticket.call, ticket.verdict, now)
        if exchange.is_open:
            then(exchange, ticket)
        else:
            self._settle(ticket, self._ids.of(exchange))

    def _relay(self, exchange: Exchange, ticket: Ticket, span: TraceSpan | None = None) -> None:
        relay = Relay(self, exchange, exchange.state, ticket.call, ticket)
        relay.span = span
        exchange.state = relay
        if ticket.verdict is ALLOWED:
            self._forward(relay)
        else:
            self._act(relay)

    # Acting

    def _act(self, relay: Relay) -> None:
        action = relay.ticket.verdict.action
        match action:
            case Action.ALLOW | Action.WARN:
                self._forward(relay)
            case Action.THROTTLE:
                self._hold_back(relay)
            case Action.NUDGE:
                verdict = relay.ticket.verdict
                # What was unpacked or recoded for judging is not what the client has sent.
                is_as_sent = relay.call.request.body is relay.exchange.body
                due = is_as_sent and is_nudge_due(verdict)
                self._forward(relay, nudged(relay.call, verdict) if due else None)
            case Action.STOP:
                self._refuse(relay, self._final_message(relay))
            case Action.BLOCK:
                self._refuse(relay)
            case _:
                assert_never(action)

    def _forward(self, relay: Relay, body: bytes | None = None) -> None:
        self._forwarder.forward(relay, self.runtime, body)

    def _hold_back(self, relay: Relay) -> None:
        """Forward a throttled call after its delay; when too many wait already, refuse it."""
        verdict = relay.ticket.verdict
        if len(self._sleepers) >= MAX_SLEEPERS:
            # What a budget still has room for is not refused for the want of a bed.
            (self._forward if verdict.reason == "budget_threshold" else self._refuse)(relay)
            return
        delay = verdict.delay
        self._sleepers.add(relay)
        relay.sleeper = asyncio.get_running_loop().call_later(delay, self._wake, relay)

    def _wake(self, relay: Relay) -> None:
        self._sleepers.discard(relay)
        relay.sleeper = None
        relay.exchange.attempt(partial(self._forward, relay))

    def wake_all(self) -> None:
        """Forward every call that is held back or waits: the gateway is about to stop."""
        for relay in list(self._sleepers):
            if relay.sleeper is not None:
                relay.sleeper.cancel()
            self._wake(relay)
        self.attempts.wake_all()

    def _final_message(self, relay: Relay) -> Answer | None:
        return final_message(
            relay.call,
            relay.ticket.verdict,
            shadow=relay.ticket.shadow,
            request_id=self.id_of(relay).decode("latin-1"),
            now=self.clock(),
        )

    def _refuse(self, relay: Relay, answer: Answer | None = None) -> None:
        """Answer here: with the final message given, else with a refusal."""
        ticket = relay.ticket
        if answer is None:
            answer = refusal(
                relay.call,
                ticket.verdict,
                shadow=ticket.shadow,
                pace=ticket.pace,
                request_id=self.id_of(relay).decode("latin-1"),
                block_status=self.runtime.block_status,
            )
            # What could not be stopped or held back was blocked: so say log and metrics.
            ticket.verdict = replace(ticket.verdict, action=Action.BLOCK)
        relay.status = answer.status
        relay.exchange.answer(answer.status, [*answer.headers, *relay.envelope.shared], answer.body)
        relay.end(None)

    def _deny(self, exchange: Exchange, denied: Denial) -> None:
        shared = exchange.state.shared
        if denied is PREFLIGHT:
            exchange.answer(denied.status, shared)
            return
        headers, body = self.refuse(exchange, denied.status, denied.code, denied.message)
        exchange.answer(denied.status, [*headers, *shared], body)

    def refuse(
        self, exchange: Exchange | None, status: int, code: str, message: str
    ) -> tuple[Headers, bytes]:
        """Return headers and body for what never became a call: the wire's refusals and ours."""
        path = exchange.target.partition(b"?")[0].decode("latin-1") if exchange is not None else ""
        answer = failure(
            dialect_of(path),
            status=status,
            code=code,
            message=message,
            request_id=self._ids.of(exchange),
            retry_after=1 if status == 503 else None,
        )
        return answer.headers, answer.body

    def _tell(self, exchange: Exchange, ticket: Ticket) -> None:
        request_id = self._ids.of(exchange)
        answer = decision_answer(ticket, self.runtime, request_id)
        exchange.answer(answer.status, answer.headers, answer.body)
        # What such a call will use is never told here: what was reserved for it counts.
        self.judge.settle(full_settlements_of(ticket.holds), self.clock())
        ticket.holds = ()
        self._settle(ticket, request_id)

    # After the answer

    def settle(self, relay: Relay, outcome: Outcome | None) -> None:
        """Record what became of a call, for `Relay.end`; None when it never went upstream."""
        ticket = relay.ticket
        if ticket.holds:
            self.judge.settle(settlements_of(ticket.holds, outcome), self.clock())
        self.runtime.guard.settle(ticket, outcome, relay.provider, relay.first_byte)
        if self._on_settled is not None:
            self._on_settled(relay, outcome or Outcome(relay.status))
        if self._tracer is not None and relay.span is not None:
            self._tracer.settled(relay.span, relay, outcome or Outcome(relay.status), self.clock())
        if self._desk is not None:
            self._desk.record_call(
                ticket, outcome, relay.request_id, relay.provider, relay.first_byte
            )

    def _settle(self, ticket: Ticket, request_id: str) -> None:
        """Record what was decided about a call that this gateway does not forward."""
        if ticket.holds:
            self.judge.settle(settlements_of(ticket.holds, None), self.clock())
        self.runtime.guard.settle(ticket)
        if self._desk is not None:
            self._desk.record_call(ticket, None, request_id.encode("latin-1"))

    def id_of(self, relay: Relay) -> bytes:
        """Return the id of a request: the client's own, or one made when it is first needed."""
        if not relay.request_id:
            relay.request_id = self._ids.new()
        return relay.request_id
