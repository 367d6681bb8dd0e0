"""Requests to a store, as operations of the script that runs in the server, and batches of them.

    r f e + seconds              a hit in a rolling, fixed or refreshed window
    s o   + seconds              a hit in a row: in a streak, or one after the other
    R F E S O + seconds          the same, of a transport retry
    a     + seconds + s or o     an answer to a call in a row
    k     + seconds              a wave to take off a streak, since its answer was continued
    m     + seconds + mark       a mark to remember
    c     + seconds + hits       a cooldown
    q                            the rest of a cooldown
    p l   + seconds + amount + limit                    a charge: with periods, or leaking
    P     + seconds + amount + actual + place + limit   a settlement with periods
    L     + seconds + amount + actual + limit           a settlement of a leaky account
    g                            the value of a note
    w     + limit + value        a note to write
    x                            forget the key

All keys of a record are in one cluster slot: they share the hash tag in braces.
"""

from __future__ import annotations

import logging
import re
from binascii import crc_hqx, hexlify
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from hashlib import sha1
from importlib.resources import files
from struct import Struct
from typing import Any, NamedTuple

from looptrap.detect import window
from looptrap.detect.window import Window, WindowKind
from looptrap.store import account, model
from looptrap.store.memory import MemoryStore
from looptrap.store.model import Balance, Charge, Count, Hit, Note, Settlement, Trip
from looptrap.store.redis.connection import pack_command

KEY_SLACK_S = 10
"""Seconds that a key lives longer than its content, because clocks may differ."""

ACCOUNT_SLACK_S = 3_700
"""Seconds that an account with periods outlives its content; twice that if it is heavily used.

A full server drops what expires next (`volatile-ttl`): so counts of an hour are dropped before
budgets, and heavily used budgets last."""

MANY_HITS = 64
"""Above this many hits, a rolling window is stored as a list."""

SLOT_COUNT = 16_384
"""Slots of a cluster's key space."""

MAX_OPERATIONS = 256
"""Operations after which a new command begins: a server runs one command at a time."""

_LETTERS = {
    WindowKind.ROLLING: b"r",
    WindowKind.FIXED: b"f",
    WindowKind.REFRESHED: b"e",
    WindowKind.STREAK: b"s",
    WindowKind.SERIAL: b"o",
}
_SECONDS = Struct("<d")
_COOLDOWN = Struct("<dI")
_CHARGE = Struct("<ddd")
_SETTLEMENT = Struct("<dddd")
_PLACED_SETTLEMENT = Struct("<ddddd")
_BALANCE = Struct("<?ddd")
_LIMIT = Struct("<I")
_SMALL_COUNTS = tuple(Count(hits) for hits in range(64))

log = logging.getLogger("looptrap")


def _build_script() -> bytes:
    """Return all parts as one script, with Python's constants inserted as numbers.

    Every run defines its variables and functions again; a number costs nothing.
    """
    constants = {**vars(window), **vars(model), **vars(account), **globals()}
    folder = files("looptrap.store.redis")
    parts = ("record", "serial", "hit", "account", "note", "dispatch")
    texts = [folder.joinpath(f"{part}.lua").read_text("utf-8") for part in parts]

    def insert(name: re.Match[str]) -> str:
        value = constants.get(name[0])
        return str(value) if isinstance(value, int) else name[0]

    return re.sub(r"\b[A-Z][A-Z_]+\b", insert, "\n".join(texts)).encode()


SCRIPT = _build_script()

SCRIPT_SHA1 = sha1(SCRIPT, usedforsecurity=False).hexdigest().encode()
"""By which a server knows the script once it has seen it."""


# Keys


def record_key(key: bytes) -> bytes:
    """Return the name of the key's record: a tag of its first two bytes, then the others."""
    return b"lt:{%b}:%b" % (hexlify(key[:2]), key[2:])


def key_slot(key: bytes) -> int:
    """Return the part of a cluster's key space in which the key's record is."""
    return crc_hqx(hexlify(key[:2]), 0) % SLOT_COUNT


def key_in_slots(first: int, last: int) -> bytes:
    """Return a key whose slot is one of these, or nothing where no key has such a slot."""
    places = (number.to_bytes(2, "big") for number in range(65_536))
    return next((place for place in places if first <= key_slot(place) <= last), b"")


# Requests

CountsCallback = Callable[[Sequence[Count], Sequence[Balance], Sequence[bytes], bool], None]
"""Gets counts, balances and recalled notes, and whether all are local as the store failed."""


class StoreRequest(NamedTuple):
    """A request; it is answered once, by a server or from this process's memory."""

    keys: list[bytes]
    operations: list[bytes]
    """One for each key."""
    answer_locally: Callable[[MemoryStore, float], object]
    """Does the same in local memory, because the server failed."""
    answer: Callable[[Sequence[Any]], object] = lambda _replies: None
    """Handles the server's replies, one for each operation."""


@lru_cache(maxsize=1024)
def encode_hit(window: Window, retry: bool) -> bytes:
    """Return the operation that counts a hit in a window."""
    letter = _LETTERS[window.kind]
    return (letter.upper() if retry else letter) + _SECONDS.pack(window.seconds)


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
        balances = [_decode_balance(reply) for reply in replies[count:charged]]
        then(_decode_counts(replies[:count]), balances, replies[charged:], False)

    def answer_locally(memory: MemoryStore, now: float) -> None:
        counts = memory.hit(hits, now, retry=retry)
        balances = memory.charge(charges, now) if charges else ()
        then(counts, balances, memory.recall(recalls, now) if recalls else (), True)

    keys = [hit.key for hit in hits]
    operations = [
        b"m" + _SECONDS.pack(hit.window.memory) + hit.mark
        if hit.mark
        else b"k" + _SECONDS.pack(hit.window.seconds)
        if hit.continues
        else encode_hit(hit.window, retry)
        for hit in hits
    ]
    if charges:
        keys += [charge.key for charge in charges]
        operations += [
            (b"l" if charge.leaks else b"p")
            + _CHARGE.pack(charge.seconds, charge.amount, charge.limit)
            for charge in charges
        ]
    if recalls:
        keys += recalls
        operations += [b"g"] * len(recalls)
    return StoreRequest(keys, operations, answer_locally, answer)


def settle_request(settlements: Sequence[Settlement]) -> StoreRequest:
    """Return the request for settlements of granted charges.

    A reservation exists only where its charge was granted: in the server, or in local memory.
    """
    return StoreRequest(
        [one.charge.key for one in settlements],
        [_encode_settlement(one.unreserved if one.is_local else one) for one in settlements],
        lambda memory, now: memory.settle(
            [one if one.is_local else one.unreserved for one in settlements], now
        ),
    )


def _encode_settlement(settlement: Settlement) -> bytes:
    charge = settlement.charge
    amounts = charge.seconds, charge.amount, settlement.actual
    if charge.leaks:
        return b"L" + _SETTLEMENT.pack(*amounts, charge.limit)
    return b"P" + _PLACED_SETTLEMENT.pack(*amounts, settlement.place, charge.limit)


def answer_request(hits: Sequence[Hit], then: Callable[[], object]) -> StoreRequest:
    """Return the request that notes the answer to a call with these hits."""

    def answer_locally(memory: MemoryStore, now: float) -> None:
        memory.answer(hits, now)
        then()

    return StoreRequest(
        [hit.key for hit in hits],
        [b"a" + _SECONDS.pack(hit.window.seconds) + _LETTERS[hit.window.kind] for hit in hits],
        answer_locally,
        lambda _replies: then(),
    )


def trip_request(trips: Sequence[Trip]) -> StoreRequest:
    """Return the request for cooldowns to start."""
    return StoreRequest(
        [trip.key for trip in trips],
        [b"c" + _COOLDOWN.pack(trip.seconds, trip.hits) for trip in trips],
        lambda memory, now: memory.trip(trips, now),
    )


def remember_request(notes: Sequence[Note]) -> StoreRequest:
    """Return the request for notes to write."""
    return StoreRequest(
        [note.key for note in notes],
        [b"w" + _LIMIT.pack(note.limit) + note.value for note in notes],
        lambda memory, now: memory.remember(notes, now),
    )


def release_request(key: bytes, then: Callable[[bool], None]) -> StoreRequest:
    """Return the request to forget a key."""
    return StoreRequest(
        [key],
        [b"x"],
        lambda memory, _now: then(memory.release(key)),
        lambda replies: then(replies[0] == 1),
    )


def cooldown_request(key: bytes, then: Callable[[float], None]) -> StoreRequest:
    """Return the request for how long a key is still refused."""
    return StoreRequest(
        [key],
        [b"q"],
        lambda memory, now: then(memory.cooldown_left(key, now)),
        lambda replies: then(_decode_counts(replies)[0].cooldown_left),
    )


# Replies


def _decode_balance(reply: bytes) -> Balance:
    is_granted, used, left, place = _BALANCE.unpack(reply)
    return Balance(is_granted, int(used), left, int(place))


def _decode_counts(replies: Sequence[Any]) -> list[Count]:
    """Decode replies to hits: a count, a cooldown, or other marks."""
    return [
        (_SMALL_COUNTS[reply] if reply < 64 else Count(reply))
        if type(reply) is int
        else _decode_count(reply)
        for reply in replies
    ]


def _decode_count(reply: bytes | list[bytes]) -> Count:
    if isinstance(reply, bytes):
        left, hits = _COOLDOWN.unpack(reply)
        return Count(hits, left)
    return Count(0, marks=tuple(reply))


# Batches


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
        records = [*map(record_key, self.keys)]
        time = b"" if self.now is None else _SECONDS.pack(self.now)  # without one the server's own
        count = 1 if in_cluster and self.has_several_places else len(records)
        arguments = (*records[:count], time, *self.operations, *records[count:])
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
