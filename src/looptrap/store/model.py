"""What a store takes and returns: hits, cooldowns, charges, settlements and notes."""

from __future__ import annotations

import msgspec

from looptrap.detect.window import Window

RETRY_ALLOWANCE = 2
"""Transport retries per fingerprint and window that are not counted as hits."""

MAX_MARKS = 20
"""Marks stored under a key; the one unseen for longest is dropped first."""

RESERVATION_S = 900
"""Seconds for which a reservation is held at least …"""

RESERVATION_BUCKET_S = 60
"""… and the seconds of a bucket of reservations: they may be held this much longer."""

RUN_MEMORY_S = 3_600
"""Seconds for which a note is kept after it was last written."""


class Hit(msgspec.Struct, frozen=True, gc=False):
    """One occurrence to record."""

    key: bytes
    """Keys that begin with the same two bytes are in one cluster slot."""
    window: Window
    mark: bytes = b""
    """If given, it is stored under the key for the window's seconds after its latest hit, and
    neither hits nor retries are counted."""
    continues: bool = False
    """Whether it counts nothing, and says that the answer to a call that the key counted was
    continued: one wave is taken off the streak, at most `MAX_CONTINUED` times. The first two
    waves stay."""


class Count(msgspec.Struct, frozen=True, gc=False):
    """The state of a key after a hit."""

    hits: int
    """Hits in the window; in a cooldown, those that tripped it plus the refusals since."""
    cooldown_left: float = 0.0
    marks: tuple[bytes, ...] = ()
    """The other marks under the key, the longest unseen first; only for a hit with a mark."""


class Trip(msgspec.Struct, frozen=True, gc=False):
    """A key to refuse for some seconds, and the hits that led to it."""

    key: bytes
    seconds: float
    hits: int


UNLIMITED = 1 << 53
"""A limit that nothing reaches."""


class Charge(msgspec.Struct, frozen=True, gc=False):
    """An amount to take from an account if its limit allows it."""

    key: bytes
    """The account; the keys of one call may be in different cluster slots."""
    amount: int
    """In nano-dollars, tokens or requests: the account's own unit."""
    limit: int
    """The most that may be taken in all."""
    seconds: float
    """Length of the period or of a full leak; 0: it never refills, and cannot leak."""
    leaks: bool = False
    """Whether it is a leaky bucket, which refills evenly and takes the amount at once; otherwise it
    refills at the end of each period (periods begin at multiples of `seconds` since Monday,
    5 January 1970), and the amount is reserved until it is settled."""


class Balance(msgspec.Struct, frozen=True, gc=False):
    """The store's answer to a charge."""

    is_granted: bool
    used: int
    """What is taken and reserved, including this charge if it was granted."""
    left: float
    """Seconds until the period ends, 0 without one; of a leaky account, until the charge would be
    granted (0 if it was)."""
    place: int = 0
    """The bucket of its reservation; 0 if nothing is reserved."""


class Settlement(msgspec.Struct, frozen=True, gc=False):
    """The actual amount of a granted charge."""

    charge: Charge
    place: int
    actual: int
    """What was used in the end; 0 releases the whole reservation."""
    is_local: bool = False
    """Whether this process granted it while the shared store was away."""

    @property
    def unreserved(self) -> Settlement:
        """The same for a store without the reservation: only the actual amount counts."""
        return Settlement(msgspec.structs.replace(self.charge, amount=0), 0, self.actual)


class Note(msgspec.Struct, frozen=True, gc=False):
    """A short byte string to keep under a key."""

    key: bytes
    """As of a hit; its first two bytes are also the caller's place, which has a bounded room."""
    value: bytes
    """If empty, the key is forgotten."""
    limit: int = 0
    """Above 0: the value is appended to what is there, and the last `limit` bytes are kept; 0: it
    replaces what is there."""
