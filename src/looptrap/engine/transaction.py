"""Transaction: one call from its judgement to its outcome, without I/O.

The gateway, the clients of SDKs, the ASGI middleware, guarded tools, decision requests and the
hook of LiteLLM's proxy each drive it.

plan, count                  what to ask the store, until the call is judged
enforce                      sets `answer`, or `delay` and `body`
on_head, on_chunk            read the answer on its way to the client
answered                     what a later call can continue, where the provider keeps the history
outcome                      what became of the call: what to settle
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import count
from secrets import token_hex
from typing import NamedTuple, assert_never

from msgspec.structs import replace

from looptrap.build import mypyc_attr
from looptrap.detect.signals.chant import MIN_REPEATED_CHARS
from looptrap.dialect.agent import AUTO, BlockStatus
from looptrap.dialect.answer import Answer, Headers, answer_reader, answered_turn
from looptrap.dialect.model import NO_USAGE, AnsweredTurn, Call, DialectName, Outcome, Usage
from looptrap.dialect.output_limit import unanswered_usage
from looptrap.dialect.stream import AnswerReader
from looptrap.dialect.usage_meter import UsageMeter
from looptrap.engine.model import Plan, Ticket, refusal_error
from looptrap.engine.policy_engine import PolicyEngine
from looptrap.money.estimate import is_charged
from looptrap.money.price import dollars_in_header
from looptrap.policy.action import Action
from looptrap.policy.header import COST, UNPRICED, headers_of
from looptrap.policy.refusal import final_message, nudged, refusal, wants_message
from looptrap.policy.stream_guard import StreamGuard
from looptrap.policy.verdict import is_nudge_due
from looptrap.store.memory import MemoryStore
from looptrap.store.model import Balance, Count, Hit

UsedTokens = tuple[Usage, int | None]
"""Usage and its cost in nano-dollars; None where no price is known."""

NOTHING_USED: UsedTokens = (NO_USAGE, 0)


class RequestIds:
    """Makes unique request ids; only the first one needs randomness."""

    def __init__(self) -> None:
        self._prefix = token_hex(6).encode()
        self._numbers = count(1)

    def new(self) -> bytes:
        """Return a new id."""
        return b"lt-%b-%x" % (self._prefix, next(self._numbers))


_default_ids = RequestIds()


class StoreQuery(NamedTuple):
    """What else to ask the store."""

    hits: Sequence[Hit]
    recalls: Sequence[bytes]


@mypyc_attr(allow_interpreted_subclasses=True)
class Transaction:
    """One call, its verdict, and what its answer says while it passes."""

    __slots__ = (
        "_balances",
        "_block_status",
        "_counts",
        "_ids",
        "_is_local",
        "_lost",
        "_meter",
        "_plan",
        "_reader",
        "_stream_guard",
        "_used",
        "answer",
        "began",
        "body",
        "call",
        "delay",
        "engine",
        "is_cut",
        "model",
        "provider",
        "request_id",
        "status",
        "ticket",
    )

    ticket: Ticket
    """Set once the call is judged."""
    _balances: Sequence[Balance]

    def __init__(
        self,
        engine: PolicyEngine,
        call: Call,
        request_id: bytes = b"",
        ids: RequestIds = _default_ids,
        block_status: BlockStatus = AUTO,
        provider: str = "",
    ) -> None:
        self.engine = engine
        self._block_status = block_status
        self._ids = ids
        self._plan: Plan | None = None
        self._counts: list[Count] | None = None
        self._is_local = False
        self._meter: UsageMeter | None = None
        self._reader: AnswerReader | None = None
        self._stream_guard: StreamGuard | None = None
        self._used: UsedTokens | None = None
        self._lost: UsedTokens | None = None
        self.call = call
        self.began = 0.0
        """When it was planned."""
        self.request_id = request_id
        """The client's own id; empty until `make_request_id` where it sent none."""
        self.provider = provider
        """The provider that gets the call; empty before one is chosen."""
        self.model = call.model
        """The model that this provider is asked for."""
        self.status = 0
        """The status of the answer, once there is one."""
        self.answer: Answer | None = None
        """The answer to send in place of the provider's."""
        self.delay = 0.0
        """Seconds to wait before the call is sent."""
        self.body: bytes | None = None
        """The body to send in place of the client's."""
        self.is_cut = False
        """Whether a rule ended the answer: nothing of the provider's may follow."""

    def make_request_id(self) -> bytes:
        """Return the request id; make one if the client sent none."""
        if not self.request_id:
            self.request_id = self._ids.new()
        return self.request_id

    @property
    def is_charged(self) -> bool:
        """Whether the call uses tokens, so that its answer is read."""
        return is_charged(self.call)

    @property
    def is_metered(self) -> bool:
        """Whether the answer is read for its usage: it has begun, well, and uses tokens."""
        return self._meter is not None

    # Judging

    def plan(self, now: float, *, is_local: bool = False) -> Plan:
        """Return what to ask the store: hits and charges; `count` takes its answer."""
        self.began = now
        self._plan = plan = self.engine.plan(self.call, now, is_local=is_local)
        return plan

    def count(
        self,
        counts: list[Count],
        balances: Sequence[Balance] = (),
        recalled: Sequence[bytes] = (),
        *,
        is_local: bool = False,
    ) -> StoreQuery | None:
        """Take the store's answer; return what else to ask, None once the call is judged.

        `is_local` says that this process counted in place of a shared store.
        """
        plan = self._plan
        assert plan is not None  # what was asked came from there
        if self._counts is not None:
            counts = [*self._counts, *counts]
            balances, is_local = self._balances, self._is_local
        if plan.follows:
            more = self.engine.follow(plan, counts, recalled)
            if more or plan.recalls:
                self._counts, self._balances, self._is_local = counts, balances, is_local
                return StoreQuery(more, plan.recalls)
        self.ticket = self.engine.judge(plan, counts, balances, is_local=is_local)
        return None

    def judge_by(self, store: MemoryStore, now: float) -> Ticket:
        """Judge the call by the counts of a store in this process; plan it, unless it is."""
        plan = self._plan
        if plan is None:
            plan = self.plan(now, is_local=True)
        while plan.recalls:
            self.engine.fit_run(plan, store.recall(plan.recalls, now))
        retry = self.call.request.is_retry
        counts = store.hit(plan.hits, now, retry=retry)
        balances = store.charge(plan.charges, now) if plan.metered else ()
        while (more := self.count(counts, balances)) is not None:
            counts = store.hit(more.hits, now, retry=retry)
        ticket = self.ticket
        if ticket.notes:
            store.remember(ticket.notes, now)
        if ticket.trips:
            store.trip(ticket.trips, now)
        if ticket.refunds:
            store.settle(ticket.refunds, now)
        return ticket

    # Enforcing

    def enforce(
        self,
        now: float,
        *,
        can_end: bool = True,
        can_nudge: bool = True,
        dialect: DialectName | None = None,
    ) -> None:
        """Set `answer`, or `delay` and `body`, as the verdict says.

        Where no final message can be sent (`can_end`), `stop` refuses; where the body cannot be
        changed (`can_nudge`), `nudge` lets it pass. Refusals are in `dialect`, if one is given.
        """
        verdict = self.ticket.verdict
        action = verdict.action
        match action:
            case Action.ALLOW | Action.WARN:
                pass
            case Action.THROTTLE:
                self.delay = verdict.delay
            case Action.NUDGE:
                if can_nudge and is_nudge_due(verdict):
                    self.body = nudged(self.call, verdict)
            case Action.STOP | Action.BLOCK:
                if can_end and self._wants_message():
                    self._end_run(now)
                if self.answer is None:
                    self.refuse(dialect)
            case _:
                assert_never(action)

    def _wants_message(self) -> bool:
        """Return whether the refusal is a final message, for the rule or for the agent."""
        verdict = self.ticket.verdict
        is_stop = verdict.action is Action.STOP
        return is_stop or wants_message(self.call, verdict, self._block_status)

    def _end_run(self, now: float) -> None:
        """Set `answer` to a final message, where the call can have one."""
        stopped = replace(self.ticket.verdict, action=Action.STOP)
        self.answer = final_message(
            self.call,
            stopped,
            shadow=self.ticket.shadow,
            request_id=self.make_request_id().decode("latin-1"),
            now=now,
        )
        if self.answer is not None:
            self.ticket.verdict = stopped

    def skip_delay(self) -> None:
        """Do not delay a throttled call, since too many wait already: refuse it.

        One that its budget still covers is sent at once.
        """
        self.delay = 0.0
        if self.ticket.verdict.reason != "budget_threshold":
            self.refuse()

    def refuse(self, dialect: DialectName | None = None) -> None:
        """Set `answer` to a refusal; the log and the metrics count it as a block."""
        ticket, call = self.ticket, self.call
        self.answer = refusal(
            call if dialect is None else replace(call, dialect=dialect),
            ticket.verdict,
            shadow=ticket.shadow,
            pace=ticket.pace,
            request_id=self.make_request_id().decode("latin-1"),
            block_status=self._block_status,
        )
        ticket.verdict = replace(ticket.verdict, action=Action.BLOCK)

    def raise_refusal(self) -> None:
        """Raise the exception for a verdict that refuses."""
        if self.ticket.verdict.action.refuses:
            raise refusal_error(self.ticket.verdict)

    @property
    def headers(self) -> Headers:
        """The response headers about the verdict."""
        ticket = self.ticket
        return headers_of(ticket.verdict, ticket.shadow, ticket.pace)

    # The answer

    def on_head(self, status: int, length: int | None, *, is_encoded: bool) -> None:
        """Note the head of the answer; `length` is None where it is not known yet."""
        self.status = status
        call = self.call
        if status < 400 and is_charged(call):
            self._meter = UsageMeter(call, length)
            is_short = length is not None and length < MIN_REPEATED_CHARS
            is_judged = bool(self.ticket.listening) and not is_short
            is_read = call.keeps_history or self.ticket.reads_answer
            if (is_judged or is_read) and not is_encoded:
                reader = answer_reader(call.dialect, call.stream, keeps_calls=is_read)
                if is_read:
                    self._reader = reader
                if is_judged and reader is not None:
                    self._stream_guard = StreamGuard(
                        call,
                        reader,
                        partial(self.engine.hear, self.ticket),
                        can_cut=length is None,
                        request_id=self.make_request_id().decode("latin-1"),
                        block_status=self._block_status,
                    )

    def on_chunk(self, chunk: bytes) -> bytes:
        """Read the next chunk of the answer; return what the client gets of it."""
        if self._meter is not None:
            self._meter.take(chunk)
        guard = self._stream_guard
        if guard is None:
            if self._reader is not None:
                self._reader.follow(chunk)
            return chunk
        passing = guard.take(chunk)
        self.is_cut = guard.is_over
        return passing

    def stop_reading(self) -> None:
        """Let the rest of the answer pass unread."""
        self._meter = self._reader = self._stream_guard = None

    def answered(self) -> AnsweredTurn | None:
        """Return the tool calls of the answer, once it is complete; None where it was not read."""
        return None if self._reader is None else answered_turn(self.call, self._reader)

    def lose(self, now: float) -> None:
        """Note that a provider may work on an answer that is no longer awaited: it costs too."""
        if not is_charged(self.call):
            return
        price = self.engine.price(self.call, self.model, self.provider, now)
        usage = unanswered_usage(self.call, price.context_window if price is not None else None)
        lost = usage, price.cost(usage) if price is not None else None
        self._lost = lost if self._lost is None else _sum(self._lost, lost)

    def cost(self, usage: Usage, now: float) -> int | None:
        """Return the cost of usage in nano-dollars; None where no price is known."""
        price = self.engine.price(self.call, self.model, self.provider, now)
        return price.cost(usage) if price is not None else None

    def cost_header(self, now: float) -> tuple[bytes, bytes] | None:
        """Return the header with the cost of a complete answer; None where its usage is unknown."""
        if self._meter is None:
            return None
        if self._used is None:
            usage = self._meter.usage(0)
            self._used = usage, self.cost(usage, now)
        usage, cost = self._used
        if usage is NO_USAGE or usage.is_estimated:
            return None
        return COST, UNPRICED if cost is None else dollars_in_header(cost)

    def outcome(self, now: float, *, cut_off: bool, is_answered: bool = True) -> Outcome:
        """Return what became of a call that was sent; `cut_off` where its answer is incomplete.

        The rest of a complete answer is judged here, once the client has it.
        """
        used, guard = self._used, self._stream_guard
        if guard is not None and not cut_off:
            guard.finish()
        if used is None and self._meter is not None:
            read = guard.tokens if cut_off and guard is not None else 0
            usage = self._meter.usage(read, is_cut=cut_off)
            self._used = used = usage, self.cost(usage, now)
        if self._lost is not None:
            used = self._lost if used is None or used[0] is NO_USAGE else _sum(used, self._lost)
        usage, cost = used or NOTHING_USED
        return Outcome(self.status if is_answered else 0, usage, cut_off, cost)


def _sum(left: UsedTokens, right: UsedTokens) -> UsedTokens:
    """Return what two attempts used and cost together, as far as prices are known."""
    costs = [cost for _, cost in (left, right) if cost is not None]
    return left[0].plus(right[0]), sum(costs) if costs else None
