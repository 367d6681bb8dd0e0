"""Guard: a policy engine with a store of its own, for use inside a process. Thread-safe."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from threading import Lock, get_ident
from typing import Any
from weakref import WeakSet

from looptrap.detect.window import WindowKind
from looptrap.dialect.answer import answered_turn
from looptrap.dialect.body import read_body
from looptrap.dialect.descriptor import PROGRESS, SESSION_HEADERS, is_retry, session_of
from looptrap.dialect.model import NO_USAGE, AnsweredTurn, Call, Outcome, Usage
from looptrap.engine.counters import Counters
from looptrap.engine.model import Plan, Ticket
from looptrap.engine.plan import release
from looptrap.engine.policy_engine import PolicyEngine
from looptrap.engine.transaction import Transaction
from looptrap.money.price import Prices
from looptrap.policy import preset
from looptrap.policy.budget import Budget
from looptrap.policy.policy import KillSwitch, Policy, Project
from looptrap.policy.rule import ToolRule
from looptrap.store.memory import MemoryStore
from looptrap.store.model import Hit

Answered = deque[tuple[Sequence[Hit], float]]
"""Hits of calls that were answered, with the time of that."""


def _equal_keys(plan: Plan) -> frozenset[bytes]:
    """Return the keys that calls of one agent share; other agents may count in a series too."""
    return frozenset(
        hit.key
        for hit in plan.hits
        if hit.window.kind is not WindowKind.SERIAL and not hit.continues
    )


class _OpenCall:
    """A call that `check` let pass; when its ticket is dropped, it counts as answered at once."""

    __slots__ = ("__weakref__", "_answered", "_now", "_streaks", "keys", "thread")

    def __init__(self, plan: Plan, ticket: Ticket, now: float, answered: Answered) -> None:
        self.keys = _equal_keys(plan)
        self._streaks = ticket.streaks
        self._now = now
        self._answered = answered
        self.thread = get_ident()

    def end(self) -> None:
        """Let it count as answered at once."""
        if self._streaks:
            self._answered.append((self._streaks, self._now))
            self._streaks = ()

    def conclude(self) -> None:
        """Note that it is answered otherwise."""
        self._streaks = ()

    def __del__(self) -> None:
        self.end()


class _OpenCalls:
    """The calls of `check` whose tickets are held, and not concluded."""

    def __init__(self) -> None:
        self._calls: WeakSet[_OpenCall] = WeakSet()
        self._answered: Answered = deque()
        self._is_concluding = False

    def add(self, plan: Plan, ticket: Ticket, now: float) -> None:
        """Note that a call is under way."""
        ticket.open_call = call = _OpenCall(plan, ticket, now, self._answered)
        self._calls.add(call)

    def conclude(self, ticket: Ticket) -> None:
        """Note that a call is over."""
        if isinstance(ticket.open_call, _OpenCall):
            self._is_concluding = True
            ticket.open_call.conclude()
            self._calls.discard(ticket.open_call)

    def end_dropped(self, plan: Plan, store: MemoryStore) -> None:
        """Tell the store of the calls that count as answered when another one is planned."""
        if not self._is_concluding:
            thread, keys = get_ident(), _equal_keys(plan)
            equal = (one for one in self._calls if one.thread == thread and one.keys & keys)
            own = list(islice(equal, 2))
            if len(own) == 1:
                own[0].end()
        while self._answered:
            store.answer(*self._answered.popleft())


class Guard(PolicyEngine):
    """Judges calls by policies and by its own counts."""

    def __init__(
        self,
        policies: Iterable[Policy],
        *,
        projects: Iterable[Project] = (),
        kill_switches: Iterable[KillSwitch] = (),
        tools: Mapping[str, ToolRule] | None = None,
        budgets: Iterable[Budget] = (),
        prices: Prices | None = None,
        secret: bytes | None = None,
        store: MemoryStore | None = None,
        tally: Counters | None = None,
        session_headers: Iterable[str] = SESSION_HEADERS,
    ) -> None:
        super().__init__(
            policies,
            projects=projects,
            kill_switches=kill_switches,
            tools=tools,
            budgets=budgets,
            prices=prices,
            secret=secret,
            tally=tally,
            session_headers=session_headers,
        )
        self.store = MemoryStore() if store is None else store
        self._lock = Lock()
        self._open = _OpenCalls()

    @classmethod
    def from_preset(cls, name: str = "default", **settings: Any) -> Guard:
        """Return a guard with a preset: `default`, `aisg`, `fairvisor`, `zelyx`, `tcc`, …"""
        return cls(preset.load(name), **settings)

    def admit(self, call: Call, now: float) -> Ticket:
        """Judge a call that counts as answered at once."""
        ticket = self.begin(Transaction(self, call), now).ticket
        self.answer(ticket, now)
        return ticket

    def begin(self, transaction: Transaction, now: float) -> Transaction:
        """Judge the call of a transaction."""
        with self._lock:
            transaction.judge_by(self.store, now)
        return transaction

    def check(
        self,
        request: Mapping[str, Any] | bytes,
        *,
        caller: str = "",
        project: str = "",
        session: str = "",
        path: str | None = None,
        headers: Mapping[str, str] | None = None,
        now: float | None = None,
    ) -> Ticket:
        """Admit a call before it is sent, or raise why it must not be.

        That is a `LoopDetectedError`, `BudgetExceededError` or `RateLimitedError`.

        The call is under way until `conclude` or `used` ends it, or until its ticket is dropped:
        then it counts as answered at once. So does the only ticket of equal calls that a thread
        holds, as long as no call of this guard was ever concluded.

        `request` is the body that an SDK will send (`{"model": …, "messages": […]}`) in any
        dialect. The ticket has the verdict; the caller waits a `throttle` verdict's `delay`.
        """
        sent = {name.lower().encode(): text.encode() for name, text in (headers or {}).items()}
        call = read_body(request, path)
        call.request.headers = list(sent.items())
        call.request.caller = caller
        call.request.project = project
        call.request.session = session or session_of(sent, self.session_headers)
        call.request.is_retry = is_retry(sent)
        call.request.progress = sent.get(PROGRESS, b"").decode("latin-1")
        now = time.time() if now is None else float(now)
        transaction = Transaction(self, call)
        with self._lock:
            plan = transaction.plan(now, is_local=True)
            self._open.end_dropped(plan, self.store)
            ticket = transaction.judge_by(self.store, now)
            self.settle(ticket)
        if ticket.verdict.action.refuses:
            self.answer(ticket, now)
        else:
            self._open.add(plan, ticket, now)
        transaction.raise_refusal()
        return ticket

    def used(self, ticket: Ticket, usage: Usage, now: float | None = None) -> int | None:
        """Record the usage of an admitted call; return its cost in nano-dollars, if known.

        Budgets and rates count the usage from then on. Until then they count the reservation, which
        expires after a quarter of an hour.
        """
        now = time.time() if now is None else float(now)
        price = self.price(ticket.call, ticket.call.model, "", now)
        cost = price.cost(usage) if price is not None else None
        # No usage costs nothing, even of a model without a price.
        outcome = Outcome(200, usage, cost=0 if cost is None and usage is NO_USAGE else cost)
        with self._lock:
            if ticket.holds:
                self.store.settle(ticket.settlements(outcome), now)
        self._open.conclude(ticket)
        self.answer(ticket, now)
        return cost

    def conclude(
        self,
        ticket: Ticket,
        outcome: Outcome | None = None,
        now: float | None = None,
        answer: bytes = b"",
    ) -> None:
        """End a call that `check` let pass: it was answered, or failed, with this outcome.

        `answer` is the provider's answer, whole: JSON, or all events of a stream.
        """
        now = time.time() if now is None else float(now)
        with self._lock:
            if ticket.holds:
                self.store.settle(ticket.settlements(outcome), now)
            if outcome is not None and outcome.usage is not NO_USAGE:
                self.tally.count_usage(ticket.call, outcome, "")
        self._open.conclude(ticket)
        is_read = ticket.call.keeps_history or ticket.reads_answer
        turn = answered_turn(ticket.call, answer) if answer and is_read else None
        self.answer(ticket, now, turn)

    def answer(self, ticket: Ticket, now: float, turn: AnsweredTurn | None = None) -> None:
        """Note that a call is answered.

        `turn` is what a later call can continue, where the provider keeps the history.
        """
        self.note_answer(ticket, now)
        if not ticket.streaks and turn is None:
            return
        with self._lock:
            if turn is not None:
                notes = self.remember_answer(ticket, turn, now, is_local=True)
                self.store.remember(notes, now)
            if ticket.streaks:
                self.store.answer(ticket.streaks, now)
                ticket.streaks = ()

    def end(
        self,
        ticket: Ticket,
        outcome: Outcome | None,
        now: float,
        provider: str = "",
        turn: AnsweredTurn | None = None,
    ) -> None:
        """Settle a call of a transaction, and note its answer; without an outcome, it has none."""
        self.answer(ticket, now, turn)
        with self._lock:
            if ticket.holds:
                self.store.settle(ticket.settlements(outcome), now)
            self.settle(ticket, outcome, provider)

    def release(self, fingerprint: str, now: float | None = None) -> bool:
        """Let the next call of a fingerprint pass; return whether it was known."""
        key, after = release(fingerprint)
        with self._lock:
            known = self.store.release(key)
            if known:
                self.store.hit(after, time.time() if now is None else float(now))
        return known
