"""What is asked of a store: hits and charges, cooldowns, a release; and who gets the answer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from looptrap.store.memory import MemoryStore
from looptrap.store.model import Balance, Charge, Count, Hit, Settlement, Trip
from looptrap.store.redis.operation import (
    COOLDOWN,
    RELEASE,
    balance_of,
    charging,
    counting,
    counts_of,
    marking,
    record_of,
    settling,
    tripping,
)

T = TypeVar("T")

Then = Callable[[Sequence[Count], Sequence[Balance], bool], None]
"""Gets counts and balances, and whether they are only this instance's own, the store having
failed."""


class Ask(Protocol):
    """Something to do; it is answered once, by a server or from this process's memory."""

    def write(self, records: list[bytes], operations: list[bytes]) -> None:
        """Add the keys' records, and what to do with each."""
        ...

    def answer(self, replies: Sequence[Any]) -> None:
        """Take the server's replies, one for each operation."""
        ...

    def answer_locally(self, memory: MemoryStore, now: float, /) -> None:
        """Do with the memory what the server could not be got to do."""
        ...


class Hits:
    """All hits of one call."""

    __slots__ = ("hits", "retry", "then")

    def __init__(self, hits: Sequence[Hit], retry: bool, then: Then) -> None:
        self.hits = hits
        self.retry = retry
        self.then = then

    @property
    def keys(self) -> Sequence[bytes]:
        """What it is about."""
        return [hit.key for hit in self.hits]

    def write(self, records: list[bytes], operations: list[bytes]) -> None:
        for hit in self.hits:
            records.append(record_of(hit.key))
            operations.append(marking(hit) if hit.mark else counting(hit.window, self.retry))

    def answer(self, replies: Sequence[Any]) -> None:
        self.then(counts_of(replies), (), False)

    def answer_locally(self, memory: MemoryStore, now: float) -> None:
        self.then(memory.hit(self.hits, now, retry=self.retry), (), True)


class Charged(Hits):
    """All hits of one call, and what it takes from accounts."""

    __slots__ = ("charges",)

    def __init__(
        self, hits: Sequence[Hit], charges: Sequence[Charge], retry: bool, then: Then
    ) -> None:
        super().__init__(hits, retry, then)
        self.charges = charges

    @property
    def keys(self) -> Sequence[bytes]:
        """What it is about."""
        return [hit.key for hit in self.hits] + [charge.key for charge in self.charges]

    def write(self, records: list[bytes], operations: list[bytes]) -> None:
        super().write(records, operations)
        for charge in self.charges:
            records.append(record_of(charge.key))
            operations.append(charging(charge))

    def answer(self, replies: Sequence[Any]) -> None:
        hits = len(self.hits)
        balances = [balance_of(reply) for reply in replies[hits:]]
        self.then(counts_of(replies[:hits]), balances, False)

    def answer_locally(self, memory: MemoryStore, now: float) -> None:
        counts = memory.hit(self.hits, now, retry=self.retry)
        self.then(counts, memory.charge(self.charges, now), True)


class Settlements:
    """What granted charges came to; nobody waits for them."""

    __slots__ = ("settlements",)

    def __init__(self, settlements: Sequence[Settlement]) -> None:
        self.settlements = settlements

    @property
    def keys(self) -> Sequence[bytes]:
        """What it is about."""
        return [settlement.charge.key for settlement in self.settlements]

    def write(self, records: list[bytes], operations: list[bytes]) -> None:
        for settlement in self.settlements:
            records.append(record_of(settlement.charge.key))
            operations.append(
                settling(settlement.unreserved if settlement.is_local else settlement)
            )

    def answer(self, replies: Sequence[Any]) -> None:
        pass

    def answer_locally(self, memory: MemoryStore, now: float) -> None:
        memory.settle([one if one.is_local else one.unreserved for one in self.settlements], now)


class Trips:
    """Cooldowns that start; nobody waits for them."""

    __slots__ = ("trips",)

    def __init__(self, trips: Sequence[Trip]) -> None:
        self.trips = trips

    @property
    def keys(self) -> Sequence[bytes]:
        """What it is about."""
        return [trip.key for trip in self.trips]

    def write(self, records: list[bytes], operations: list[bytes]) -> None:
        for trip in self.trips:
            records.append(record_of(trip.key))
            operations.append(tripping(trip))

    def answer(self, replies: Sequence[Any]) -> None:
        pass

    def answer_locally(self, memory: MemoryStore, now: float) -> None:
        memory.trip(self.trips, now)


class _OfOne(Generic[T]):
    """Something about one key; somebody waits for what is found."""

    __slots__ = ("key", "then")

    operation: ClassVar[bytes]

    def __init__(self, key: bytes, then: Callable[[T], None]) -> None:
        self.key = key
        self.then = then

    @property
    def keys(self) -> Sequence[bytes]:
        """What it is about."""
        return [self.key]

    def write(self, records: list[bytes], operations: list[bytes]) -> None:
        records.append(record_of(self.key))
        operations.append(self.operation)


class Release(_OfOne[bool]):
    """A key to forget."""

    __slots__ = ()

    operation = RELEASE

    def answer(self, replies: Sequence[Any]) -> None:
        self.then(replies[0] == 1)

    def answer_locally(self, memory: MemoryStore, _now: float) -> None:
        self.then(memory.release(self.key))


class CooldownLeft(_OfOne[float]):
    """How long a key is still refused."""

    __slots__ = ()

    operation = COOLDOWN

    def answer(self, replies: Sequence[Any]) -> None:
        self.then(counts_of(replies)[0].cooldown_left)

    def answer_locally(self, memory: MemoryStore, now: float) -> None:
        self.then(memory.cooldown_left(self.key, now))


Question = Hits | Settlements | Trips | Release | CooldownLeft
"""What a gateway may ask."""
