"""Requests to a store (hits, charges, cooldowns, notes, releases), and batches of them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

from looptrap.store.memory import MemoryStore
from looptrap.store.model import Balance, Charge, Count, Hit, Note, Settlement, Trip
from looptrap.store.redis.connection import pack_command
from looptrap.store.redis.script import (
    COOLDOWN_OPERATION,
    RECALL_OPERATION,
    RELEASE_OPERATION,
    SCRIPT_SHA1,
    decode_balance,
    decode_counts,
    encode_answer,
    encode_charge,
    encode_continuation,
    encode_hit,
    encode_mark,
    encode_note,
    encode_settlement,
    encode_time,
    encode_trip,
    record_key,
)

CountsCallback = Callable[[Sequence[Count], Sequence[Balance], Sequence[bytes], bool], None]
"""Gets counts, balances and recalled notes, and whether all are local as the store failed."""

MAX_OPERATIONS = 256
"""Operations after which a new command begins: a server runs one command at a time."""

log = logging.getLogger("looptrap")


class StoreRequest(NamedTuple):
    """A request; it is answered once, by a server or from this process's memory."""

    keys: list[bytes]
    operations: list[bytes]
    """One for each key."""
    answer_locally: Callable[[MemoryStore, float], object]
    """Does the same in local memory, because the server failed."""
    answer: Callable[[Sequence[Any]], object] = lambda _replies: None
    """Handles the server's replies, one for each operation."""


def hit_request(
    hits: Sequence[Hit],
    retry: bool,
    then: CountsCallback,
    charges: Sequence[Charge] = (),
    recalls: Sequence[bytes] = (),
) -> StoreRequest:
    """Return the request for all hits, charges and recalled keys of one call."""

    def answer(replies: Sequence[Any]) -> None:
        count = len(hits)
        charged = count + len(charges)
        balances = [decode_balance(reply) for reply in replies[count:charged]]
        then(decode_counts(replies[:count]), balances, replies[charged:], False)

    def answer_locally(memory: MemoryStore, now: float) -> None:
        counts = memory.hit(hits, now, retry=retry)
        balances = memory.charge(charges, now) if charges else ()
        then(counts, balances, memory.recall(recalls, now) if recalls else (), True)

    keys = [hit.key for hit in hits]
    operations = [
        encode_mark(hit)
        if hit.mark
        else encode_continuation(hit)
        if hit.continues
        else encode_hit(hit.window, retry)
        for hit in hits
    ]
    if charges:
        keys += [charge.key for charge in charges]
        operations += map(encode_charge, charges)
    if recalls:
        keys += recalls
        operations += [RECALL_OPERATION] * len(recalls)
    return StoreRequest(keys, operations, answer_locally, answer)


def settle_request(settlements: Sequence[Settlement]) -> StoreRequest:
    """Return the request for settlements of granted charges.

    A reservation exists only where its charge was granted: in the server, or in local memory.
    """
    return StoreRequest(
        [one.charge.key for one in settlements],
        [encode_settlement(one.unreserved if one.is_local else one) for one in settlements],
        lambda memory, now: memory.settle(
            [one if one.is_local else one.unreserved for one in settlements], now
        ),
    )


def answer_request(hits: Sequence[Hit], then: Callable[[], object]) -> StoreRequest:
    """Return the request that notes the answer to a call with these hits."""

    def answer_locally(memory: MemoryStore, now: float) -> None:
        memory.answer(hits, now)
        then()

    return StoreRequest(
        [hit.key for hit in hits],
        [encode_answer(hit) for hit in hits],
        answer_locally,
        lambda _replies: then(),
    )


def trip_request(trips: Sequence[Trip]) -> StoreRequest:
    """Return the request for cooldowns to start."""
    return StoreRequest(
        [trip.key for trip in trips],
        [encode_trip(trip) for trip in trips],
        lambda memory, now: memory.trip(trips, now),
    )


def remember_request(notes: Sequence[Note]) -> StoreRequest:
    """Return the request for notes to write."""
    return StoreRequest(
        [note.key for note in notes],
        [encode_note(note) for note in notes],
        lambda memory, now: memory.remember(notes, now),
    )


def release_request(key: bytes, then: Callable[[bool], None]) -> StoreRequest:
    """Return the request to forget a key."""
    return StoreRequest(
        [key],
        [RELEASE_OPERATION],
        lambda memory, _now: then(memory.release(key)),
        lambda replies: then(replies[0] == 1),
    )


def cooldown_request(key: bytes, then: Callable[[float], None]) -> StoreRequest:
    """Return the request for how long a key is still refused."""
    return StoreRequest(
        [key],
        [COOLDOWN_OPERATION],
        lambda memory, now: then(memory.cooldown_left(key, now)),
        lambda replies: then(decode_counts(replies)[0].cooldown_left),
    )


class RequestBatch:
    """The operations of one command: of one time and, in a cluster, of one server."""

    __slots__ = ("deadline", "hops", "keys", "now", "operations", "preceding", "requests")

    def __init__(self, now: float | None) -> None:
        self.now = now
        self.keys: list[bytes] = []
        self.operations: list[bytes] = []
        self.requests: list[StoreRequest] = []
        self.deadline = 0.0
        """When it is answered from memory instead; 0 until it is first sent."""
        self.preceding: list[bytes] = []
        """Packed commands sent right before it."""
        self.hops = 0
        """How often it was redirected or sent again."""

    def add(self, request: StoreRequest) -> None:
        """Add a request."""
        self.keys += request.keys
        self.operations += request.operations
        self.requests.append(request)

    def command(self, in_cluster: bool = False) -> bytes:
        """Return the packed command.

        A cluster refuses keys of several slots: of these, only the first is a key of the command.
        """
        records, operations = (
            [*map(record_key, self.keys)],
            [encode_time(self.now), *self.operations],
        )
        count = 1 if in_cluster and self.has_several_places else len(records)
        arguments = (*records[:count], *operations, *records[count:])
        return pack_command((b"EVALSHA", SCRIPT_SHA1, count, *arguments))

    @property
    def has_several_places(self) -> bool:
        """Whether its keys may be in several slots of a cluster."""
        first = self.keys[0][:2] if self.keys else b""
        return any(key[:2] != first for key in self.keys)

    def answer(self, replies: Sequence[Any]) -> None:
        """Pass each request its replies."""
        start = 0
        for request in self.requests:
            end = start + len(request.keys)
            _attempt(request.answer, replies[start:end])
            start = end

    def answer_locally(self, memory: MemoryStore, clock: Callable[[], float]) -> None:
        """Answer every request from memory."""
        now = clock() if self.now is None else self.now
        for request in self.requests:
            _attempt(request.answer_locally, memory, now)

    def parts(self) -> list[RequestBatch]:
        """Return one batch per operation; their answers together answer this one."""
        split = _SplitBatch(self)
        parts = []
        for index in range(len(self.keys)):
            part = RequestBatch(self.now)
            part.add(split.part(index))
            part.deadline, part.hops = self.deadline, self.hops
            parts.append(part)
        return parts


def _attempt(answer: Callable[..., object], *arguments: object) -> None:
    """Answer one request; an error in its callback must not cost the others their answers."""
    try:
        answer(*arguments)
    except Exception:
        log.exception("the callback of a store request failed")


class _SplitBatch:
    """Collects the replies to the parts of a batch, and answers it when complete."""

    def __init__(self, whole: RequestBatch) -> None:
        self._whole = whole
        self._replies: list[Any] = [None] * len(whole.keys)
        self._missing = len(whole.keys)
        self._failed: tuple[MemoryStore, float] | None = None

    def part(self, index: int) -> StoreRequest:
        """Return one operation as a request of its own."""
        key, operation = self._whole.keys[index], self._whole.operations[index]
        return StoreRequest([key], [operation], self._fail, partial(self._answer, index))

    def _answer(self, index: int, replies: Sequence[Any]) -> None:
        self._replies[index] = replies[0]
        self._settle()

    def _fail(self, memory: MemoryStore, now: float) -> None:
        self._failed = memory, now
        self._settle()

    def _settle(self) -> None:
        self._missing -= 1
        if self._missing:
            return
        if self._failed is None:
            self._whole.answer(self._replies)
        else:
            memory, now = self._failed
            self._whole.answer_locally(memory, lambda: now)
