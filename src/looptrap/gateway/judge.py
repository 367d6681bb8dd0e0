"""Judge: judges by a store in this process, or by one that instances share."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence

from looptrap.detect.fingerprint import fingerprint_key
from looptrap.engine import Ticket, Transaction
from looptrap.engine.plan import release
from looptrap.policy.action import Action
from looptrap.policy.verdict import Verdict, opening
from looptrap.store.memory import MemoryStore
from looptrap.store.model import Balance, Charge, Count, Hit, Note, Settlement, Trip
from looptrap.store.redis import RedisStore

STORE_UNAVAILABLE = Verdict(
    action=Action.BLOCK,
    reason="store_unavailable",
    rule="store",
    message=f"{opening(Action.BLOCK, 'store_unavailable')}: the store that counts calls cannot be"
    " reached. Send it again in a moment.",
    retry_after=1.0,
)


class Judge:
    """Judges calls by the counts of a store."""

    def __init__(self, store: MemoryStore | RedisStore, *, fails_closed: bool = False) -> None:
        self._fails_closed = fails_closed
        self._shared = store if isinstance(store, RedisStore) else None
        self._memory = store if isinstance(store, MemoryStore) else MemoryStore()
        self.is_shared = self._shared is not None
        """Whether instances share a store, so that judging takes a round trip."""

    @property
    def is_degraded(self) -> bool:
        """Whether the shared store cannot be reached, so that this process counts alone."""
        return self._shared is not None and self._shared.is_degraded

    def judge_now(self, transaction: Transaction, now: float) -> Ticket:
        """Judge a call by the counts of this process."""
        return transaction.judge_by(self._memory, now)

    def judge_shared(self, transaction: Transaction, now: float, then: Callable[[], None]) -> None:
        """Judge a call by the counts of all instances, then call `then` once."""
        assert self._shared is not None
        plan = transaction.plan(now)
        if plan.hits or plan.metered or plan.recalls:
            judgement = _SharedJudgement(self._shared, transaction, then, self._fails_closed)
            judgement.ask(plan.hits, plan.charges if plan.metered else (), plan.recalls)
        else:
            transaction.count([])
            then()

    def answer(
        self, hits: Sequence[Hit], now: float, then: Callable[[], object] = lambda: None
    ) -> None:
        """Note that a call with these hits was answered; call `then` once the store knows."""
        if self._shared is not None:
            self._shared.answer(hits, None, then)
        else:
            self._memory.answer(hits, now)
            then()

    def settle(self, settlements: Sequence[Settlement], now: float) -> None:
        """Replace reserved amounts by the actual ones."""
        if self._shared is not None:
            self._shared.settle(settlements, None)
        else:
            self._memory.settle(settlements, now)

    def remember(self, notes: Sequence[Note], now: float) -> None:
        """Write notes of agent runs."""
        if self._shared is not None:
            self._shared.remember(notes, None)
        else:
            self._memory.remember(notes, now)

    async def release(self, fingerprint: str, now: float) -> bool:
        """Let the next call of a fingerprint pass, everywhere; return whether it was known."""
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
        """Return how long each fingerprint is still refused; ValueError for an invalid one."""
        keys, shared = [fingerprint_key(one)[0] for one in fingerprints], self._shared
        if shared is None:
            return [self._memory.cooldown_left(key, now) for key in keys]
        return list(await asyncio.gather(*map(shared.cooldown_left, keys)))

    def extend(self, fingerprint: str, seconds: float, hits: int, now: float) -> None:
        """Refuse a fingerprint for at least `seconds`, on all instances; ValueError if invalid."""
        trips = [Trip(fingerprint_key(fingerprint)[0], seconds, hits)]
        if self._shared is not None:
            self._shared.trip(trips, None)
        else:
            self._memory.trip(trips, now)

    async def balances(self, questions: Iterable[Charge], now: float) -> list[Balance]:
        """Return the balances of accounts; the questions are charges of nothing."""
        shared = self._shared
        if shared is None:
            return self._memory.charge(list(questions), now)
        return list(await asyncio.gather(*map(shared.balance, questions)))


class _SharedJudgement:
    """One transaction that asks a shared store: once, or twice where something follows."""

    __slots__ = ("_fails_closed", "_is_alone", "_store", "_then", "_transaction")

    def __init__(
        self,
        store: RedisStore,
        transaction: Transaction,
        then: Callable[[], None],
        fails_closed: bool,
    ) -> None:
        self._store = store
        self._transaction = transaction
        self._then = then
        self._fails_closed = fails_closed
        self._is_alone = False

    def ask(
        self,
        hits: Sequence[Hit],
        charges: Sequence[Charge] = (),
        recalls: Sequence[bytes] = (),
    ) -> None:
        # The server's clock: those of the instances differ.
        retry = self._transaction.call.request.is_retry
        self._store.ask(hits, None, retry=retry, then=self._take, charges=charges, recalls=recalls)

    def _take(
        self,
        counts: Sequence[Count],
        balances: Sequence[Balance],
        recalled: Sequence[bytes],
        is_local: bool,
    ) -> None:
        self._is_alone = self._is_alone or is_local
        more = self._transaction.count([*counts], balances, recalled, is_local=is_local)
        if more is not None:
            self.ask(more.hits, (), more.recalls)
            return
        ticket = self._transaction.ticket
        if ticket.notes:
            self._store.remember(ticket.notes, None)
        if ticket.trips:
            self._store.trip(ticket.trips, None)
        if self._is_alone and self._fails_closed and not ticket.verdict.action.refuses:
            ticket.verdict = STORE_UNAVAILABLE
        if ticket.refunds:
            self._store.settle(ticket.refunds, None)
        self._then()
