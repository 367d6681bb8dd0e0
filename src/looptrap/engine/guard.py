"""Guard: plans, judges and settles calls; pure except for its counters, the recent prompt ends
and, in `check`, its clock."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterable, Mapping, Sequence
from sys import maxsize
from threading import Lock
from typing import Any

from looptrap.detect import near
from looptrap.detect.fingerprint import Fingerprint
from looptrap.detect.trajectory import is_fresh
from looptrap.dialect.body import read_body
from looptrap.dialect.header import PROGRESS, SESSION_HEADERS, is_retry, session_of
from looptrap.dialect.model import NO_USAGE, Call, Outcome, Usage
from looptrap.engine import judge, plan
from looptrap.engine.counters import Counters
from looptrap.engine.model import Plan, Ticket, refusal
from looptrap.money.meters import Meters, settlements_of
from looptrap.money.price import Prices
from looptrap.policy import preset
from looptrap.policy.budget import Budget
from looptrap.policy.kill_switch import KillSwitchMatcher
from looptrap.policy.policy import KillSwitch, Policy, Project
from looptrap.policy.rule import ToolRule
from looptrap.policy.verdict import ALLOWED, Verdict
from looptrap.policy.watch import BoundPolicy, HistoryWatch
from looptrap.store.memory import MemoryStore
from looptrap.store.model import Balance, Count, Hit

MAX_RECENT_ENDS = 20_000


class RecentPromptEnds:
    """Two-generation set of texts seen in the last one to two spans; its size is bounded."""

    __slots__ = ("_current", "_ends_at", "_previous", "_span")

    def __init__(self, span: float = 60.0) -> None:
        self._span = span
        self._ends_at = 0.0
        self._current: dict[bytes, None] = {}
        self._previous: dict[bytes, None] = {}

    def has_seen(self, text: bytes, now: float) -> bool:
        """Return whether a text was seen before, and remember it."""
        if now >= self._ends_at or len(self._current) >= MAX_RECENT_ENDS:
            is_stale = now >= self._ends_at + self._span
            self._previous, self._current = {} if is_stale else self._current, {}
            self._ends_at = now + self._span
        is_known = text in self._current or text in self._previous
        self._current[text] = None
        return is_known


class Guard:
    """Judges calls by policies; pure except for its counters and, in `check`, clock and store."""

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
        policies = tuple(policies)
        self.tally = Counters() if tally is None else tally
        key = secret or secrets.token_bytes(32)
        self._tools = tools or {}
        self._bindings = tuple(BoundPolicy(policy, key, self._tools) for policy in policies)
        self._by_project = {
            project.name: tuple(
                BoundPolicy(adapted, key, self._tools)
                for policy in policies
                if (adapted := project.adapt(policy)) is not None
            )
            for project in projects
        }
        self._kill_switches = tuple(KillSwitchMatcher(switch) for switch in kill_switches)
        self._progress = (
            Fingerprint(key, ("progress",), ("caller", "session")),
            Fingerprint(key, ("progress",), ("caller",)),
        )
        self.session_headers = tuple(name.lower().encode() for name in session_headers)
        self._recent_ends = RecentPromptEnds()
        budgets = tuple(budgets)
        is_metered = bool(budgets) or any(policy.rates for policy in policies)
        if prices is None and is_metered:
            prices = Prices()
        self._prices = prices
        self._meters: Meters | None = None
        if prices is not None:
            self._meters = Meters(
                budgets, policies, secret=key, prices=prices, recent_accounts=self.tally.accounts
            )
        self._lock = Lock()
        self.store = MemoryStore() if store is None else store

    @classmethod
    def from_preset(cls, name: str = "default", **settings: Any) -> Guard:
        """Return a guard with a preset: `default`, `aisg`, `fairvisor`, `zelyx`, `tcc`, …"""
        return cls(preset.load(name), **settings)

    def plan(self, call: Call, now: float) -> Plan:
        """Return what to count for a call, and the evidence in its history."""
        for switch in self._kill_switches:
            if switch.kills(call, now):
                return Plan(call, [], [], killed=switch.verdict)
        bindings = self._bindings
        if self._by_project and call.request.project:
            bindings = self._by_project.get(call.request.project, bindings)
        planned = Plan(call, [], [])
        reading: Sequence[HistoryWatch] = ()
        fresh: bool | None = None  # is the last message a person's? None until needed
        for binding in bindings:
            if binding.selects is not None and not binding.selects(call):
                continue
            for content_of, watches in binding.counting_watches:
                content = content_of(call)
                if content is not None:
                    for watch in watches:
                        if watch.is_near:
                            fresh = is_fresh(call) if fresh is None else fresh
                            # Most prompt ends are new: then no predecessor needs to be found.
                            if fresh and self._recent_ends.has_seen(
                                content[-near.PROMPT_END_BYTES :], now
                            ):
                                plan.count_near(planned, watch, content)
                                continue
                        plan.count(planned, watch, content)
            reading = (*reading, *binding.history_watches) if reading else binding.history_watches
            if binding.listening and call.generates:
                listening = planned.listening
                planned.listening = (
                    (*listening, *binding.listening) if listening else binding.listening
                )
        if reading and not (is_fresh(call) if fresh is None else fresh):
            if call.request.progress:
                plan.await_progress(planned, reading, *self._progress)
            else:
                plan.read(planned, reading, self._tools, maxsize)
        if self._meters is not None:
            planned.metered, planned.now = self._meters.plan(call, now), now
        return planned

    def follow(self, planned: Plan, counts: Sequence[Count]) -> Sequence[Hit]:
        """Return the further hits that the counts of a plan call for: mostly none.

        The caller appends the counts of these hits to the ones given, and judges them all.
        """
        known = len(planned.hits)
        for query in planned.predecessor_queries:
            if marks := counts[query.place].marks:
                plan.predecessor(planned, query, marks)
        if planned.progress_index >= 0:
            limit = plan.rounds_since_progress(planned, counts, maxsize)
            plan.read(planned, planned.history_watches, self._tools, limit)
        return planned.hits[known:]

    def judge(
        self,
        planned: Plan,
        counts: Sequence[Count],
        balances: Sequence[Balance] = (),
        *,
        is_local: bool = False,
    ) -> Ticket:
        """Return the severest verdict; on a tie the first rule's.

        `is_local` says that this process granted the charges in place of a shared store.
        """
        ticket = Ticket(planned.call)
        ticket.listening = planned.listening
        ticket.trajectory = planned.trajectory
        if planned.killed is not None:
            ticket.verdict = planned.killed
            return ticket
        for index, watch in enumerate(planned.watches):
            count = counts[index]
            if count.hits >= watch.ladder.first or count.cooldown_left > 0:
                judge.judge_count(ticket, watch, planned.hits[index].key, count)
        for watch, place in planned.predecessors:
            judge.judge_count(
                ticket, watch, planned.hits[place].key, counts[place], "similar_prompt"
            )
        for finding in planned.findings:
            judge.judge_history(ticket, finding, counts)
        if planned.metered:
            judge.judge_charges(ticket, planned, balances, is_local)
        return ticket

    def hear(self, ticket: Ticket, text: str) -> Verdict | None:
        """Judge an answer so far, or its latest part, by the rules that watch answers.

        Returns a verdict that is severer than all before, and stores it on the ticket.
        """
        return judge.hear(ticket, text)

    def settle(
        self,
        ticket: Ticket,
        outcome: Outcome | None = None,
        provider: str = "",
        first_byte: float | None = None,
    ) -> None:
        """Count the verdict and, for a forwarded call, the outcome."""
        tally, call = self.tally, ticket.call
        verdict, shadow, heard = ticket.verdict, ticket.shadow, ticket.heard
        status = -1 if outcome is None else outcome.status
        if verdict is ALLOWED:
            tally.requests["allow", "", "", call.dialect, provider, status][0] += 1
        else:
            tally.count_verdict(verdict, call.dialect, provider, status)
        if heard is not None:
            tally.rules[heard.policy, heard.rule, heard.action] += 1
        if shadow is not None:
            tally.shadow_rules[shadow.policy, shadow.rule, shadow.action] += 1
        if outcome is not None:
            if outcome.usage is not NO_USAGE:
                tally.count_usage(call, outcome, provider)
            if first_byte is not None:
                tally.first_bytes[provider].observe(first_byte)

    def admit(self, call: Call, now: float) -> Ticket:
        """Plan, count and judge with this guard's own store. Thread-safe."""
        with self._lock:
            return self.decide(call, now, self.store)

    def decide(self, call: Call, now: float, store: MemoryStore) -> Ticket:
        """Plan, count and judge with a synchronous store."""
        planned, retry = self.plan(call, now), call.request.is_retry
        counts = store.hit(planned.hits, now, retry=retry)
        if planned.follows and (more := self.follow(planned, counts)):
            counts += store.hit(more, now, retry=retry)
        balances = store.charge(planned.charges, now) if planned.metered else ()
        ticket = self.judge(planned, counts, balances)
        if ticket.trips:
            store.trip(ticket.trips, now)
        if ticket.settlements:
            store.settle(ticket.settlements, now)
        return ticket

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
        ticket = self.admit(call, time.time() if now is None else now)
        with self._lock:
            self.settle(ticket)
        verdict = ticket.verdict
        if verdict.action.refuses:
            raise refusal(verdict)
        return ticket

    def used(self, ticket: Ticket, usage: Usage, now: float | None = None) -> int | None:
        """Record the usage of an admitted call; return its cost in nano-dollars, if known.

        Budgets and rates count the usage from then on. Until then they count the reservation, which
        expires after a quarter of an hour.
        """
        now = time.time() if now is None else now
        cost = self.cost(ticket.call.model, usage, now)
        # No usage costs nothing, even of a model without a price.
        outcome = Outcome(200, usage, cost=0 if cost is None and usage is NO_USAGE else cost)
        with self._lock:
            self.store.settle(settlements_of(ticket.holds, outcome), now)
            ticket.holds = ()
        return cost

    def conclude(
        self, ticket: Ticket, outcome: Outcome | None, now: float, provider: str = ""
    ) -> None:
        """Settle an admitted call with this guard's own store. Thread-safe."""
        with self._lock:
            if ticket.holds:
                self.store.settle(settlements_of(ticket.holds, outcome), now)
                ticket.holds = ()
            self.settle(ticket, outcome, provider)

    def cost(self, model: str, usage: Usage, now: float) -> int | None:
        """Return the cost of usage in nano-dollars; None where no price is known."""
        price = self._prices.of(model, "", now) if self._prices is not None else None
        return price.cost(usage) if price is not None else None

    def release(self, fingerprint: str, now: float | None = None) -> bool:
        """Let the next call of a fingerprint pass; return whether it was known."""
        key, after = plan.release(fingerprint)
        with self._lock:
            known = self.store.release(key)
            if known:
                self.store.hit(after, time.time() if now is None else now)
        return known
