"""The script's operations and replies, encoded and decoded.

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

import re
from binascii import crc_hqx, hexlify
from collections.abc import Sequence
from functools import lru_cache
from hashlib import sha1
from importlib.resources import files
from struct import Struct
from typing import Any

from looptrap.detect import window
from looptrap.detect.window import Window, WindowKind
from looptrap.store import account, model
from looptrap.store.model import Balance, Charge, Count, Hit, Note, Settlement, Trip

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

RELEASE_OPERATION = b"x"
COOLDOWN_OPERATION = b"q"
RECALL_OPERATION = b"g"

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


def encode_time(now: float | None) -> bytes:
    """Encode a time for the script; empty for the server's own."""
    return b"" if now is None else _SECONDS.pack(now)


@lru_cache(maxsize=1024)
def encode_hit(window: Window, retry: bool) -> bytes:
    """Return the operation that counts a hit in a window."""
    letter = _LETTERS[window.kind]
    return (letter.upper() if retry else letter) + _SECONDS.pack(window.seconds)


def encode_mark(hit: Hit) -> bytes:
    """Return the operation that stores a mark."""
    return b"m" + _SECONDS.pack(hit.window.memory) + hit.mark


def encode_answer(hit: Hit) -> bytes:
    """Return the operation that notes an answer."""
    return b"a" + _SECONDS.pack(hit.window.seconds) + _LETTERS[hit.window.kind]


def encode_continuation(hit: Hit) -> bytes:
    """Return the operation that takes a wave off a streak."""
    return b"k" + _SECONDS.pack(hit.window.seconds)


def encode_trip(trip: Trip) -> bytes:
    """Return the operation that starts a cooldown."""
    return b"c" + _COOLDOWN.pack(trip.seconds, trip.hits)


def encode_charge(charge: Charge) -> bytes:
    """Return the operation that takes an amount from an account."""
    letter = b"l" if charge.leaks else b"p"
    return letter + _CHARGE.pack(charge.seconds, charge.amount, charge.limit)


def encode_settlement(settlement: Settlement) -> bytes:
    """Return the operation that settles a charge."""
    charge = settlement.charge
    amounts = charge.seconds, charge.amount, settlement.actual
    if charge.leaks:
        return b"L" + _SETTLEMENT.pack(*amounts, charge.limit)
    return b"P" + _PLACED_SETTLEMENT.pack(*amounts, settlement.place, charge.limit)


def encode_note(note: Note) -> bytes:
    """Return the operation that writes a note."""
    return b"w" + _LIMIT.pack(note.limit) + note.value


def decode_balance(reply: bytes) -> Balance:
    """Decode the reply to a charge."""
    is_granted, used, left, place = _BALANCE.unpack(reply)
    return Balance(is_granted, int(used), left, int(place))


def decode_counts(replies: Sequence[Any]) -> list[Count]:
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
