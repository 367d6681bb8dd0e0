"""Guard: a policy engine with a store of its own, for use inside a process. Thread-safe."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from threading import Lock
from typing import Any

from looptrap.dialect.body import read_body
from looptrap.dialect.header import PROGRESS, SESSION_HEADERS, is_retry, session_of
from looptrap.dialect.model import NO_USAGE, Call, Outcome, Usage
from looptrap.engine import plan
from looptrap.engine.counters import Counters
from looptrap.engine.model import Ticket
from looptrap.engine.policy_engine import PolicyEngine
from looptrap.engine.transaction import Transaction
from looptrap.money.price import Prices
from looptrap.policy import preset
from looptrap.policy.budget import Budget
from looptrap.policy.policy import KillSwitch, Policy, Project
from looptrap.policy.rule import ToolRule
from looptrap.store.memory import MemoryStore


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

    @classmethod
    def from_preset(cls, name: str = "default", **settings: Any) -> Guard:
        """Return a guard with a preset: `default`, `aisg`, `fairvisor`, `zelyx`, `tcc`, …"""
        return cls(preset.load(name), **settings)

    def admit(self, call: Call, now: float) -> Ticket:
        """Judge a call."""
        return self.begin(Transaction(self, call), now).ticket

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
        transaction = self.begin(Transaction(self, call), time.time() if now is None else now)
        with self._lock:
            self.settle(transaction.ticket)
        transaction.raise_refusal()
        return transaction.ticket

    def used(self, ticket: Ticket, usage: Usage, now: float | None = None) -> int | None:
        """Record the usage of an admitted call; return its cost in nano-dollars, if known.

        Budgets and rates count the usage from then on. Until then they count the reservation, which
        expires after a quarter of an hour.
        """
        now = time.time() if now is None else now
        price = self.price(ticket.call, ticket.call.model, "", now)
        cost = price.cost(usage) if price is not None else None
        # No usage costs nothing, even of a model without a price.
        outcome = Outcome(200, usage, cost=0 if cost is None and usage is NO_USAGE else cost)
        with self._lock:
            self.store.settle(ticket.settlements(outcome), now)
        return cost

    def conclude(
        self, ticket: Ticket, outcome: Outcome | None, now: float, provider: str = ""
    ) -> None:
        """Settle a judged call; without an outcome, one that was not sent."""
        with self._lock:
            if ticket.holds:
                self.store.settle(ticket.settlements(outcome), now)
            self.settle(ticket, outcome, provider)

    def release(self, fingerprint: str, now: float | None = None) -> bool:
        """Let the next call of a fingerprint pass; return whether it was known."""
        key, after = plan.release(fingerprint)
        with self._lock:
            known = self.store.release(key)
            if known:
                self.store.hit(after, time.time() if now is None else now)
        return known
