"""Judging with a store: at once where it counts here, later where instances count together."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from looptrap.call.model import Call
from looptrap.guard import Guard, Plan, Ticket
from looptrap.guard.plan import release
from looptrap.policy.action import Action
from looptrap.policy.verdict import Verdict
from looptrap.store.memory import MemoryStore
from looptrap.store.model import Count, Hit
from looptrap.store.redis import RedisStore

Then = Callable[[Ticket], None]

STORE_UNAVAILABLE = Verdict(
    action=Action.BLOCK,
    reason="store_unavailable",
    rule="store",
    message="Blocked: the store that counts calls cannot be reached. Send it again in a moment.",
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

    def later(self, guard: Guard, call: Call, now: float, then: Then) -> None:
        """Judge a call by what all instances count; `then` gets its ticket, once."""
        assert self._shared is not None
        plan = guard.plan(call, now)
        if plan.hits:
            _Shared(self._shared, guard, plan, then, self._fails_closed).ask(plan.hits)
        else:
            then(guard.judge(plan, ()))

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
            self._shared.ask(after, None, retry=False, then=lambda _counts, _is_local: None)
        return known


class _Shared:
    """One call on its way to a shared store and back: once, or twice where something follows."""

    __slots__ = ("_counts", "_fails_closed", "_guard", "_is_local", "_plan", "_store", "_then")

    def __init__(
        self, store: RedisStore, guard: Guard, plan: Plan, then: Then, fails_closed: bool
    ) -> None:
        self._store = store
        self._guard = guard
        self._plan = plan
        self._then = then
        self._fails_closed = fails_closed
        self._counts: list[Count] = []
        self._is_local = False

    def ask(self, hits: Sequence[Hit]) -> None:
        # The server's clock: those of the instances differ.
        retry = self._plan.call.request.is_retry
        self._store.ask(hits, None, retry=retry, then=self._count)

    def _count(self, counts: Sequence[Count], is_local: bool) -> None:
        plan, guard = self._plan, self._guard
        is_first = not self._counts
        self._counts += counts
        self._is_local = self._is_local or is_local
        if is_first and plan.follows and (more := guard.follow(plan, self._counts)):
            self.ask(more)
            return
        ticket = guard.judge(plan, self._counts)
        if ticket.trips:
            self._store.trip(ticket.trips, None)
        if self._is_local and self._fails_closed and not ticket.verdict.action.refuses:
            ticket.verdict = STORE_UNAVAILABLE
        self._then(ticket)
