"""Judging with a store: at once where it counts here, later where instances count together."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence

from looptrap.detect.fingerprint import fingerprint_key
from looptrap.dialect.model import Call
from looptrap.engine import Guard, Plan, Ticket
from looptrap.engine.plan import release
from looptrap.policy.action import Action
from looptrap.policy.verdict import Verdict, opening
from looptrap.store.memory import MemoryStore
from looptrap.store.model import Balance, Charge, Count, Settlement, Trip
from looptrap.store.redis import RedisStore

OnTicket = Callable[[Ticket], None]

STORE_UNAVAILABLE = Verdict(
    action=Action.BLOCK,
    reason="store_unavailable",
    rule="store",
    message=f"{opening(Action.BLOCK, 'store_unavailable')}: the store that counts calls cannot be"
    " reached. Send it again in a moment.",
    retry_after=1.0,
)


class Judge:
    """Asks the store about calls, and judges them when it has answered."""

    def __init__(self, store: MemoryStore | RedisStore, *, fails_closed: bool = False) -> None:
        self._fails_closed = fails_closed
        self._shared = store if isinstance(store, RedisStore) else None
        self._memory = store if isinstance(store, MemoryStore) else MemoryStore()
        self.is_shared = self._shared is not None
        """Whether instances count together, so that judging takes a while."""

    @property
    def is_degraded(self) -> bool:
        """Whether a shared store is away, and what it would count is counted here."""
        return self._shared is not None and self._shared.is_degraded

    def at_once(self, guard: Guard, call: Call, now: float) -> Ticket:
        """Judge a call by what is counted here."""
        return guard.decide(call, now, self._memory)

    def later(self, guard: Guard, call: Call, now: float, then: OnTicket) -> None:
        """Judge a call by what all instances count; `then` gets its ticket, once."""
        assert self._shared is not None
        plan = guard.plan(call, now)
        if plan.hits or plan.metered:
            _SharedDecision(self._shared, guard, plan, then, self._fails_closed).ask()
        else:
            then(guard.judge(plan, ()))

    def settle(self, settlements: Sequence[Settlement], now: float) -> None:
        """Put what calls used in place of what was reserved for them."""
        if self._shared is not None:
            self._shared.settle(settlements, None)
        else:
            self._memory.settle(settlements, now)

    async def release(self, fingerprint: str, now: float) -> bool:
        """Let the next call of a fingerprint pass, on all instances; say whether it was known."""
        key, after = release(fingerprint)
        if self._shared is None:
            known = self._memory.release(key)
            if known:
                self._memory.hit(after, now)
            return known
        known = await self._shared.release(key)
        if known and after:
            self._shared.ask(after, None, retry=False, then=lambda *_answer: None)
        return known

    async def cooldowns(self, fingerprints: Iterable[str], now: float) -> list[float]:
        """Return how long each of these is still refused; ValueError for what is none."""
        keys, shared = [fingerprint_key(one)[0] for one in fingerprints], self._shared
        if shared is None:
            return [self._memory.cooldown_left(key, now) for key in keys]
        return list(await asyncio.gather(*map(shared.cooldown_left, keys)))

    def extend(self, fingerprint: str, seconds: float, hits: int, now: float) -> None:
        """Refuse a fingerprint for so long at least, on all instances; ValueError for none."""
        trips = [Trip(fingerprint_key(fingerprint)[0], seconds, hits)]
        if self._shared is not None:
            self._shared.trip(trips, None)
        else:
            self._memory.trip(trips, now)

    async def balances(self, questions: Iterable[Charge], now: float) -> list[Balance]:
        """Return how accounts stand; the questions are charges of nothing."""
        shared = self._shared
        if shared is None:
            return self._memory.charge(list(questions), now)
        return list(await asyncio.gather(*map(shared.balance, questions)))


class _SharedDecision:
    """One call on its way to a shared store and back: once, or twice where something follows."""

    __slots__ = (
        "_balances", "_counts", "_fails_closed", "_guard", "_is_local", "_plan", "_store", "_then",
    )  # fmt: skip

    def __init__(
        self, store: RedisStore, guard: Guard, plan: Plan, then: OnTicket, fails_closed: bool
    ) -> None:
        self._store = store
        self._guard = guard
        self._plan = plan
        self._then = then
        self._fails_closed = fails_closed
        self._counts: list[Count] = []
        self._balances: Sequence[Balance] = ()
        self._is_local = False

    def ask(self) -> None:
        plan = self._plan
        charges = plan.charges if plan.metered else ()
        # The server's clock: those of the instances differ.
        retry = plan.call.request.is_retry
        self._store.ask(plan.hits, None, retry=retry, then=self._first, charges=charges)

    def _first(self, counts: Sequence[Count], balances: Sequence[Balance], is_local: bool) -> None:
        plan = self._plan
        self._counts += counts
        self._balances = balances
        self._is_local = is_local
        if plan.follows and (more := self._guard.follow(plan, self._counts)):
            retry = plan.call.request.is_retry
            self._store.ask(more, None, retry=retry, then=self._second)
        else:
            self._judge(is_local)

    def _second(
        self, counts: Sequence[Count], _balances: Sequence[Balance], is_local: bool
    ) -> None:
        self._counts += counts
        self._judge(is_local or self._is_local)

    def _judge(self, is_alone: bool) -> None:
        plan = self._plan
        ticket = self._guard.judge(plan, self._counts, self._balances, is_local=self._is_local)
        if ticket.trips:
            self._store.trip(ticket.trips, None)
        if is_alone and self._fails_closed and not ticket.verdict.action.refuses:
            ticket.verdict = STORE_UNAVAILABLE
        if ticket.settlements:
            self._store.settle(ticket.settlements, None)
        self._then(ticket)
