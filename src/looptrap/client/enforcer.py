"""The keeper: judges what a client is about to send, as the gateway would."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from itertools import count
from secrets import token_hex
from typing import assert_never

from msgspec.structs import replace

from looptrap.client.history import LocalHistory
from looptrap.detect.signals.chant import MIN_REPEATED_CHARS
from looptrap.dialect.answer import Answer, Headers, answer_reader
from looptrap.dialect.header import PROGRESS, TURN, is_retry, session_of
from looptrap.dialect.model import NO_USAGE, Call, Outcome, Request, Usage
from looptrap.dialect.registry import read
from looptrap.dialect.usage_meter import BYTES_PER_TOKEN, UsageMeter, unanswered_usage
from looptrap.engine import Guard, Ticket
from looptrap.money.estimate import is_charged
from looptrap.money.price import dollars_in_header
from looptrap.policy.action import Action
from looptrap.policy.header import COST, UNPRICED, headers_of
from looptrap.policy.refusal import final_message, nudged, refusal
from looptrap.policy.stream_guard import StreamGuard
from looptrap.policy.verdict import is_nudge_due


class GuardedCall:
    """What is to be done with a call, and what its answer says while it passes."""

    def __init__(self, enforcer: Enforcer, ticket: Ticket, provider: str) -> None:
        self._enforcer = enforcer
        self._bill: UsageMeter | None = None
        self._listener: StreamGuard | None = None
        self._is_settled = False
        self._status = 0
        self._used: tuple[Usage, int | None] = (NO_USAGE, 0)
        self.ticket = ticket
        self.provider = provider
        """Whom the client asks."""
        self.request_id = ""
        """Made when it is first needed."""
        self.answer: Answer | None = None
        """What the client gets in place of the provider's answer."""
        self.delay = 0.0
        """Seconds to wait before it is sent."""
        self.body: bytes | None = None
        """What to send in place of the body, where that is another."""

    @property
    def is_charged(self) -> bool:
        """Whether its answer is worth reading: it uses tokens."""
        return is_charged(self.ticket.call)

    @property
    def is_over(self) -> bool:
        """Whether the answer was cut: the provider need not say more."""
        return self._listener is not None and self._listener.is_over

    def begin(self, status: int, length: int | None, is_encoded: bool) -> Headers:
        """Take the head of the answer; return what to say in it of the verdict."""
        self._status = status
        ticket = self.ticket
        if status < 400 and self.is_charged:
            self._bill = UsageMeter(ticket.call, length)
            is_short = length is not None and length < MIN_REPEATED_CHARS
            if ticket.listening and not is_short and not is_encoded:
                self._listener = self._listen(can_cut=length is None)
        return headers_of(ticket.verdict, ticket.shadow, ticket.pace)

    def take(self, chunk: bytes) -> bytes:
        """Take the next piece of the answer; return what the client gets of it."""
        try:
            if self._bill is not None:
                self._bill.take(chunk)
            return chunk if self._listener is None else self._listener.take(chunk)
        except Exception:
            # What is not understood passes: better an answer unread than none.
            log.exception("an answer passes unread")
            self._bill = self._listener = None
            return chunk

    def end(self) -> None:
        """Settle a call whose answer is complete, or was cut here."""
        self._settle(cut_off=self.is_over)

    def give_up(self, *, is_awaited: bool = True) -> None:
        """Settle a call that brought no answer, or only part of one that nobody wants any more.

        What is no longer awaited, and had not begun to answer, is paid for: the provider works on.
        """
        self._settle(cut_off=True, is_lost=not is_awaited and not self._status)

    def refused(self) -> None:
        """Settle a call that never left."""
        self._is_settled = True
        self._enforcer.settle(self, None)

    def cost_header(self) -> tuple[bytes, bytes] | None:
        """Return what an answer that is complete cost; None where it does not say."""
        usage, cost = self._used
        if usage is NO_USAGE or usage.is_estimated:
            return None
        return COST, UNPRICED if cost is None else dollars_in_header(cost)

    def _listen(self, *, can_cut: bool) -> StreamGuard | None:
        call, enforcer = self.ticket.call, self._enforcer
        hearing = answer_reader(call.dialect, call.stream)
        if hearing is None:
            return None
        return StreamGuard(
            call,
            hearing,
            lambda text: enforcer.guard.hear(self.ticket, text),
            can_cut=can_cut,
            request_id=lambda: enforcer.id_of(self),
            block_status=enforcer.block_status,
        )

    def _settle(self, *, cut_off: bool, is_lost: bool = False) -> None:
        if self._is_settled:
            return
        self._is_settled = True
        listener, heard = self._listener, 0
        try:
            if listener is not None and cut_off:
                heard = listener.tokens
            elif listener is not None:
                listener.finish()
            if self._bill is not None:
                usage = self._bill.usage(heard, is_cut=cut_off)
                self._used = usage, self._enforcer.cost(self, usage)
            elif is_lost and self.is_charged:
                usage = unanswered_usage(self.ticket.call)
                self._used = usage, self._enforcer.cost(self, usage)
            usage, cost = self._used
            outcome = Outcome(self._status, usage, cut_off, cost)
            self._enforcer.settle(self, outcome)
        except Exception:
            log.exception("a call is not settled")


HeaderField = tuple[bytes, bytes]

HEADER_PREFIX = b"x-looptrap-"

log = logging.getLogger("looptrap")


class Enforcer:
    """Judges calls for every copy of a client, on any thread."""

    def __init__(
        self,
        guard: Guard,
        *,
        caller: str = "",
        block_status: int = 429,
        incident_history: LocalHistory | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.guard = guard
        self.block_status = block_status
        self.incident_history = incident_history
        self.clock = clock
        self._caller = caller
        self._prefix = token_hex(6)
        self._numbers = count(1)

    def judge(
        self,
        method: str,
        target: bytes,
        headers: Sequence[HeaderField],
        body: bytes | None,
        provider: str,
    ) -> GuardedCall | None:
        """Judge a request, with lower-case names of headers; None where that failed.

        Then it passes: protection must not become the outage. Without a `body`, rules that need
        one abstain.
        """
        try:
            return self._judge(method, target, headers, body, provider)
        except Exception:
            log.exception("a call passes unjudged")
            return None

    def _judge(
        self,
        method: str,
        target: bytes,
        headers: Sequence[HeaderField],
        body: bytes | None,
        provider: str,
    ) -> GuardedCall:
        sent = dict(headers)
        path, _, query = target.decode("latin-1").partition("?")
        call = read(
            Request(
                method,
                path,
                query,
                headers,
                body or b"",
                caller=self._caller,
                session=session_of(sent, self.guard.session_headers),
                is_retry=is_retry(sent),
                progress=sent.get(PROGRESS, b"").decode("latin-1"),
                lacks_body=body is None,
            )
        )
        guarded_call = GuardedCall(self, self.guard.admit(call, self.clock()), provider)
        guarded_call.request_id = sent.get(b"x-request-id", b"").decode("latin-1")
        self._act(guarded_call)
        return guarded_call

    def _act(self, guarded_call: GuardedCall) -> None:
        verdict = guarded_call.ticket.verdict
        action = verdict.action
        match action:
            case Action.ALLOW | Action.WARN:
                pass
            case Action.THROTTLE:
                guarded_call.delay = verdict.delay
            case Action.NUDGE:
                if is_nudge_due(verdict):
                    guarded_call.body = nudged(guarded_call.ticket.call, verdict)
            case Action.STOP | Action.BLOCK:
                self._refuse(guarded_call)
            case _:
                assert_never(action)

    def _refuse(self, guarded_call: GuardedCall) -> None:
        """Answer here: with a final message where that is wanted and can be, else a refusal."""
        ticket, request_id = guarded_call.ticket, self.id_of(guarded_call)
        if ticket.verdict.action is Action.STOP:
            guarded_call.answer = final_message(
                ticket.call,
                ticket.verdict,
                shadow=ticket.shadow,
                request_id=request_id,
                now=self.clock(),
            )
        if guarded_call.answer is None:
            guarded_call.answer = refusal(
                ticket.call,
                ticket.verdict,
                shadow=ticket.shadow,
                pace=ticket.pace,
                request_id=request_id,
                block_status=self.block_status,
            )
            ticket.verdict = replace(ticket.verdict, action=Action.BLOCK)
        guarded_call.refused()

    # What passages ask for

    def id_of(self, guarded_call: GuardedCall) -> str:
        """Return the id of a request: the client's own, or one made when it is first needed."""
        if not guarded_call.request_id:
            guarded_call.request_id = f"lt-{self._prefix}-{next(self._numbers):x}"
        return guarded_call.request_id

    def cost(self, guarded_call: GuardedCall, usage: Usage) -> int | None:
        """Return what that cost, in nano-dollars; None where no price is known."""
        return self.guard.cost(guarded_call.ticket.call.model, usage, self.clock())

    def settle(self, guarded_call: GuardedCall, outcome: Outcome | None) -> None:
        """Record what became of a call; None when it never left."""
        ticket, now = guarded_call.ticket, self.clock()
        self.guard.conclude(ticket, outcome, now, guarded_call.provider)
        if self.incident_history is not None:
            self.incident_history.settled(
                ticket,
                outcome,
                now,
                request_id=guarded_call.request_id,
                provider=guarded_call.provider,
                estimate=self._input_cost,
            )

    def _input_cost(self, call: Call) -> int | None:
        asked = len(call.request.body) // BYTES_PER_TOKEN
        return self.guard.cost(call.model, Usage(asked), self.clock())


def is_looptrap_header(name: bytes) -> bool:
    """Say whether a header is for us alone; an agent further on may be part of the same turn."""
    return name.startswith(HEADER_PREFIX) and name != TURN
