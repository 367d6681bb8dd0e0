"""Requests to a store (hits, charges, cooldowns, releases), and batches of them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from looptrap.store.memory import MemoryStore
from looptrap.store.model import Balance, Charge, Count, Hit, Settlement, Trip
from looptrap.store.redis.connection import pack_command
from looptrap.store.redis.script import (
    COOLDOWN_OPERATION,
    RELEASE_OPERATION,
    SCRIPT_SHA1,
    decode_balance,
    decode_counts,
    encode_charge,
    encode_hit,
    encode_mark,
    encode_settlement,
    encode_time,
    encode_trip,
    record_key,
)

T = TypeVar("T")

CountsCallback = Callable[[Sequence[Count], Sequence[Balance], bool], None]
"""Gets counts and balances, and whether they are local because the store failed."""


class StoreRequest(Protocol):
    """A request; it is answered once, by a server or from this process's memory."""

    def write(self, records: list[bytes], operations: list[bytes]) -> None:
        """Append the records of its keys, and an operation for each."""
        ...

    def answer(self, replies: Sequence[Any]) -> None:
        """Handle the server's replies, one for each operation."""
        ...

    def answer_locally(self, memory: MemoryStore, now: float, /) -> None:
        """Do the same in local memory, because the server failed."""
        ...


class HitRequest:
    """All hits of one call."""

    __slots__ = ("hits", "retry", "then")

    def __init__(self, hits: Sequence[Hit], retry: bool, then: CountsCallback) -> None:
        self.hits = hits
        self.retry = retry
        self.then = then

    @property
    def keys(self) -> Sequence[bytes]:
        """Its keys."""
        return [hit.key for hit in self.hits]

    def write(self, records: list[bytes], operations: list[bytes]) -> None:
        for hit in self.hits:
            records.append(record_key(hit.key))
            operations.append(encode_mark(hit) if hit.mark else encode_hit(hit.window, self.retry))

    def answer(self, replies: Sequence[Any]) -> None:
        self.then(decode_counts(replies), (), False)

    def answer_locally(self, memory: MemoryStore, now: float) -> None:
        self.then(memory.hit(self.hits, now, retry=self.retry), (), True)


class ChargeRequest(HitRequest):
    """All hits and charges of one call."""

    __slots__ = ("charges",)

    def __init__(
        self, hits: Sequence[Hit], charges: Sequence[Charge], retry: bool, then: CountsCallback
    ) -> None:
        super().__init__(hits, retry, then)
        self.charges = charges

    @property
    def keys(self) -> Sequence[bytes]:
        """Its keys."""
        return [hit.key for hit in self.hits] + [charge.key for charge in self.charges]

    def write(self, records: list[bytes], operations: list[bytes]) -> None:
        super().write(records, operations)
        for charge in self.charges:
            records.append(record_key(charge.key))
            operations.append(encode_charge(charge))

    def answer(self, replies: Sequence[Any]) -> None:
        hits = len(self.hits)
        balances = [decode_balance(reply) for reply in replies[hits:]]
        self.then(decode_counts(replies[:hits]), balances, False)

    def answer_locally(self, memory: MemoryStore, now: float) -> None:
        counts = memory.hit(self.hits, now, retry=self.retry)
        self.then(counts, memory.charge(self.charges, now), True)


class SettleRequest:
    """Settlements of granted charges; they have no callback."""

    __slots__ = ("settlements",)

    def __init__(self, settlements: Sequence[Settlement]) -> None:
        self.settlements = settlements

    @property
    def keys(self) -> Sequence[bytes]:
        """Its keys."""
        return [settlement.charge.key for settlement in self.settlements]

    def write(self, records: list[bytes], operations: list[bytes]) -> None:
        for settlement in self.settlements:
            records.append(record_key(settlement.charge.key))
            operations.append(
                encode_settlement(settlement.unreserved if settlement.is_local else settlement)
            )

    def answer(self, replies: Sequence[Any]) -> None:
        pass

    def answer_locally(self, memory: MemoryStore, now: float) -> None:
        memory.settle([one if one.is_local else one.unreserved for one in self.settlements], now)


class TripRequest:
    """Cooldowns to start; they have no callback."""

    __slots__ = ("trips",)

    def __init__(self, trips: Sequence[Trip]) -> None:
        self.trips = trips

    @property
    def keys(self) -> Sequence[bytes]:
        """Its keys."""
        return [trip.key for trip in self.trips]

    def write(self, records: list[bytes], operations: list[bytes]) -> None:
        for trip in self.trips:
            records.append(record_key(trip.key))
            operations.append(encode_trip(trip))

    def answer(self, replies: Sequence[Any]) -> None:
        pass

    def answer_locally(self, memory: MemoryStore, now: float) -> None:
        memory.trip(self.trips, now)


class _OneKeyRequest(Generic[T]):
    """A request about one key, with a callback."""

    __slots__ = ("key", "then")

    operation: ClassVar[bytes]

    def __init__(self, key: bytes, then: Callable[[T], None]) -> None:
        self.key = key
        self.then = then

    @property
    def keys(self) -> Sequence[bytes]:
        """Its keys."""
        return [self.key]

    def write(self, records: list[bytes], operations: list[bytes]) -> None:
        records.append(record_key(self.key))
        operations.append(self.operation)


class ReleaseRequest(_OneKeyRequest[bool]):
    """A key to forget."""

    __slots__ = ()

    operation = RELEASE_OPERATION

    def answer(self, replies: Sequence[Any]) -> None:
        self.then(replies[0] == 1)

    def answer_locally(self, memory: MemoryStore, _now: float) -> None:
        self.then(memory.release(self.key))


class CooldownRequest(_OneKeyRequest[float]):
    """How long a key is still refused."""

    __slots__ = ()

    operation = COOLDOWN_OPERATION

    def answer(self, replies: Sequence[Any]) -> None:
        self.then(decode_counts(replies)[0].cooldown_left)

    def answer_locally(self, memory: MemoryStore, now: float) -> None:
        self.then(memory.cooldown_left(self.key, now))


KeyedRequest = HitRequest | SettleRequest | TripRequest | ReleaseRequest | CooldownRequest
"""Requests that have keys; parts of a batch do not."""


MAX_OPERATIONS = 256
"""Operations after which a new command begins: a server runs one command at a time."""

log = logging.getLogger("looptrap")


class RequestBatch:
    """The operations of one command: of one time and, in a cluster, of one slot."""

    __slots__ = (
        "_ends", "deadline", "hops", "now", "operations", "preceding", "records", "requests",
    )  # fmt: skip

    def __init__(self, now: float | None) -> None:
        self.now = now
        self.records: list[bytes] = []
        self.operations: list[bytes] = []
        self.requests: list[StoreRequest] = []
        self._ends: list[int] = []  # the number of operations up to the end of each request
        self.deadline = 0.0
        """When it is answered from memory instead; 0 until it is first sent."""
        self.preceding: list[bytes] = []
        """Packed commands sent right before it."""
        self.hops = 0
        """How often it was redirected or sent again."""

    def add(self, request: StoreRequest) -> None:
        """Add a request."""
        request.write(self.records, self.operations)
        self.requests.append(request)
        self._ends.append(len(self.records))

    def command(self) -> bytes:
        """Return the packed command."""
        records = self.records
        return pack_command(
            (
                b"EVALSHA",
                SCRIPT_SHA1,
                len(records),
                *records,
                encode_time(self.now),
                *self.operations,
            )
        )

    def answer(self, replies: Sequence[Any]) -> None:
        """Pass each request its replies."""
        start = 0
        for request, end in zip(self.requests, self._ends, strict=True):
            # An error in one callback must not cost the others their answers.
            try:
                request.answer(replies[start:end])
            except Exception:
                log.exception("the callback of a store request failed")
            start = end

    def answer_locally(self, memory: MemoryStore, clock: Callable[[], float]) -> None:
        """Answer every request from memory."""
        now = clock() if self.now is None else self.now
        for request in self.requests:
            try:
                request.answer_locally(memory, now)
            except Exception:
                log.exception("the callback of a store request failed")

    def parts(self) -> list[RequestBatch]:
        """Return one batch per operation; their answers together answer this one."""
        split = _SplitBatch(self)
        parts = []
        for index in range(len(self.records)):
            part = RequestBatch(self.now)
            part.add(_BatchPart(split, index))
            part.deadline, part.hops = self.deadline, self.hops
            parts.append(part)
        return parts


class _SplitBatch:
    """Collects the replies to the parts of a batch, and answers it when complete."""

    def __init__(self, whole: RequestBatch) -> None:
        self.whole = whole
        self.replies: list[Any] = [None] * len(whole.records)
        self.missing = len(whole.records)
        self.failed: tuple[MemoryStore, float] | None = None

    def settle(self) -> None:
        """Count an answered part."""
        self.missing -= 1
        if self.missing:
            return
        if self.failed is None:
            self.whole.answer(self.replies)
        else:
            memory, now = self.failed
            self.whole.answer_locally(memory, lambda: now)


class _BatchPart:
    """One operation of a batch that was split."""

    __slots__ = ("_index", "_split")

    def __init__(self, split: _SplitBatch, index: int) -> None:
        self._split = split
        self._index = index

    def write(self, records: list[bytes], operations: list[bytes]) -> None:
        records.append(self._split.whole.records[self._index])
        operations.append(self._split.whole.operations[self._index])

    def answer(self, replies: Sequence[Any]) -> None:
        self._split.replies[self._index] = replies[0]
        self._split.settle()

    def answer_locally(self, memory: MemoryStore, now: float) -> None:
        self._split.failed = memory, now
        self._split.settle()
