"""What a store asks of its server, as the script reads it, and what the script replies.

    r f e + seconds              a hit in a rolling, fixed or refreshed window
    R F E + seconds              the same, of a transport retry
    m     + seconds + mark       a mark to remember
    c     + seconds + hits       a cooldown
    q                            what is left of that
    p l   + seconds + amount + limit                    a charge: with periods, or leaking
    P     + seconds + amount + actual + place + limit   what one with periods came to
    L     + seconds + amount + actual + limit           what one that leaks came to
    x                            forget the key

All parts of a request's record are in one place: its keys share the tag in braces.
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

from looptrap.detect.scope import HIT_LIMIT, Window, WindowKind
from looptrap.store.account import ACCOUNT_TTL_S, FIRST_MONDAY_S, MAX_RESERVATION_S, MUCH
from looptrap.store.model import (
    MAX_MARKS,
    RESERVATION_BUCKET_S,
    RESERVATION_S,
    RETRY_ALLOWANCE,
    UNLIMITED,
    Balance,
    Charge,
    Count,
    Hit,
    Settlement,
    Trip,
)

KEY_SLACK_S = 10
"""Seconds for which a key outlives what it says, so that clocks may differ."""

OUTLIVES = 3_700
"""Seconds for which an account with periods stays when it says nothing more, and twice that one of
which much is used. A full server drops what expires next (`volatile-ttl`): so counts of an hour go
before budgets, and budgets that are used up go last."""

MANY_HITS = 64
"""From more hits than this on, those of a rolling window are kept in a list."""

SLOT_COUNT = 16_384
"""So many parts is the key space of a cluster cut into."""

RELEASE_OPERATION = b"x"
COOLDOWN_OPERATION = b"q"

_LETTERS = {WindowKind.ROLLING: b"r", WindowKind.FIXED: b"f", WindowKind.REFRESHED: b"e"}
_SECONDS = Struct("<d")
_COOLDOWN = Struct("<dI")
_CHARGE = Struct("<ddd")
_SETTLEMENT = Struct("<dddd")
_PLACED_SETTLEMENT = Struct("<ddddd")
_BALANCE = Struct("<?ddd")
_SMALL_COUNTS = tuple(Count(hits) for hits in range(64))

_PARTS = ("record", "hit", "account", "dispatch")
_CONSTANTS = {
    "HIT_LIMIT": HIT_LIMIT,
    "RETRY_ALLOWANCE": RETRY_ALLOWANCE,
    "MARKS": MAX_MARKS,
    "MANY": MANY_HITS,
    "SLACK": KEY_SLACK_S,
    "OUTLIVES": OUTLIVES,
    "MUCH": MUCH,
    "RESERVED_FOR": RESERVATION_S,
    "RESERVED_TOGETHER": RESERVATION_BUCKET_S,
    "MONDAY": FIRST_MONDAY_S,
    "LATEST": MAX_RESERVATION_S,
    "KEPT_FOR": ACCOUNT_TTL_S,
    "UNLIMITED": UNLIMITED,
}


def _build_script() -> bytes:
    """Return all parts as one, with numbers in place of the names of constants.

    Every run makes its variables and functions anew: a number costs it nothing.
    """
    folder = files("looptrap.store.redis")
    parts = (folder.joinpath(f"{part}.lua").read_text("utf-8") for part in _PARTS)
    names = re.compile(rf"\b({'|'.join(_CONSTANTS)})\b")
    return names.sub(lambda name: str(_CONSTANTS[name[0]]), "\n".join(parts)).encode()


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
    """Return a time for the script; none is the server's own."""
    return b"" if now is None else _SECONDS.pack(now)


@lru_cache(maxsize=1024)
def encode_hit(window: Window, retry: bool) -> bytes:
    """Return the operation that counts a hit in a window."""
    letter = _LETTERS[window.kind]
    return (letter.upper() if retry else letter) + _SECONDS.pack(window.seconds)


def encode_mark(hit: Hit) -> bytes:
    """Return the operation that remembers a mark."""
    return b"m" + _SECONDS.pack(hit.window.seconds) + hit.mark


def encode_trip(trip: Trip) -> bytes:
    """Return the operation that starts a cooldown."""
    return b"c" + _COOLDOWN.pack(trip.seconds, trip.hits)


def encode_charge(charge: Charge) -> bytes:
    """Return the operation that takes an amount from an account."""
    letter = b"l" if charge.leaks else b"p"
    return letter + _CHARGE.pack(charge.seconds, charge.amount, charge.limit)


def encode_settlement(settlement: Settlement) -> bytes:
    """Return the operation that puts what was used in place of what was taken."""
    charge, actual = settlement.charge, settlement.actual
    if charge.leaks:
        return b"L" + _SETTLEMENT.pack(charge.seconds, charge.amount, actual, charge.limit)
    return b"P" + _PLACED_SETTLEMENT.pack(
        charge.seconds, charge.amount, actual, settlement.place, charge.limit
    )


def decode_balance(reply: bytes) -> Balance:
    """Read the reply to a charge."""
    is_granted, used, left, place = _BALANCE.unpack(reply)
    return Balance(is_granted, int(used), left, int(place))


def decode_counts(replies: Sequence[Any]) -> list[Count]:
    """Read replies to hits: a number, what is left of a cooldown, or other marks."""
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
