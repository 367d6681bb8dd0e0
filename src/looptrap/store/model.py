"""The contract of a store: it counts hits, keeps accounts and remembers cooldowns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import msgspec

from looptrap.detect.scope import Window

RETRY_ALLOWANCE = 2
"""So many transport retries a fingerprint and window are not hits."""


MAX_MARKS = 20
"""So many marks are remembered under a key; the one that was not seen for longest goes first."""


RESERVATION_S = 900
"""Seconds, at the least, for which a reservation waits to be settled, and …"""

RESERVATION_BUCKET_S = 60
"""… those by which reservations are put together: so they may wait for this much longer."""


class Hit(msgspec.Struct, frozen=True, gc=False):
    """One occurrence to record."""

    key: bytes
    """Keys that begin with the same two bytes may be asked for together, in one place."""
    window: Window
    mark: bytes = b""
    """Where given, this is remembered under the key, for the window's seconds after its latest
    hit, and nothing is counted: neither hits nor retries."""


class Count(msgspec.Struct, frozen=True, gc=False):
    """What a store knows about a key after a hit."""

    hits: int
    """Hits in the window; in a cooldown: those that tripped it plus the refusals since."""
    cooldown_left: float = 0.0
    marks: tuple[bytes, ...] = ()
    """What else is remembered under the key, the longest unseen first; only of a marked hit."""


class Trip(msgspec.Struct, frozen=True, gc=False):
    """A key to refuse for so many seconds, and the hits that led to it."""

    key: bytes
    seconds: float
    hits: int


UNLIMITED = 1 << 53
"""A limit that nothing reaches."""


class Charge(msgspec.Struct, frozen=True, gc=False):
    """An amount to take from an account, if that has room for it."""

    key: bytes
    """The account's; keys of the same call may lie in different places."""
    amount: int
    """In nano-dollars, tokens or requests: the account's own unit."""
    limit: int
    """What all that is taken may come to."""
    seconds: float
    """How long until all of it is there again; 0: never, and then it cannot leak."""
    leaks: bool = False
    """Whether it comes back evenly, as in a bucket that leaks, and what was taken is gone at once;
    else it comes back all together at the end of each period (these begin at multiples of
    `seconds` since Monday, 5 January 1970), and is reserved until it is settled."""


class Balance(msgspec.Struct, frozen=True, gc=False):
    """What a store says to a charge."""

    is_granted: bool
    used: int
    """What is taken and reserved, this charge's amount included where it was granted."""
    left: float
    """Seconds until the period ends, 0 without one; of an account that leaks, until there is room
    for the charge (0 when granted)."""
    place: int = 0
    """With which other reservations it was put; 0 for what is not reserved."""


class Settlement(msgspec.Struct, frozen=True, gc=False):
    """What a granted charge came to."""

    charge: Charge
    place: int
    actual: int
    """What was used in the end; 0 gives all of it back."""
    is_local: bool = False
    """Whether this process granted it, a shared store having been away."""

    @property
    def unreserved(self) -> Settlement:
        """The same for a store that does not hold the reservation: only what was used counts."""
        return Settlement(msgspec.structs.replace(self.charge, amount=0), 0, self.actual)


class Store(Protocol):
    """Counts hits, keeps accounts, remembers cooldowns; a shared one says the same, later."""

    def hit(self, hits: Sequence[Hit], now: float, *, retry: bool = False) -> Sequence[Count]:
        """Record all hits of one call and return their counts, in order.

        A hit on a key in cooldown raises its count and leaves its window alone. A transport
        `retry` is not a hit, at most `RETRY_ALLOWANCE` times a key and window.
        """
        ...

    def trip(self, trips: Sequence[Trip], now: float) -> None:
        """Refuse these keys until their cooldown ends; the later deadline wins."""
        ...

    def cooldown_left(self, key: bytes, now: float) -> float:
        """Return how long a key is still refused; asking changes nothing."""
        ...

    def release(self, key: bytes) -> bool:
        """Forget everything about a key; say whether anything was known."""
        ...

    def charge(self, charges: Sequence[Charge], now: float) -> Sequence[Balance]:
        """Take each amount from its account where there is room for it, and say how that stands.

        Each is decided by itself: whoever needs all or none settles the granted ones with 0.
        Reservations that nobody settles end by themselves after `RESERVATION_S` seconds.
        """
        ...

    def settle(self, settlements: Sequence[Settlement], now: float) -> None:
        """Put what was used in place of what was reserved."""
        ...
