"""The contract of a store: it counts hits and remembers cooldowns; it decides nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import msgspec

from looptrap.detect.window import Window

RETRY_ALLOWANCE = 2
"""So many transport retries a fingerprint and window are not hits."""


MARKS = 20
"""So many marks are remembered under a key; the one that was not seen for longest goes first."""


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


class Store(Protocol):
    """Counts hits, remembers cooldowns; one that is shared answers later, but no otherwise."""

    def hit(self, hits: Sequence[Hit], now: float, *, retry: bool = False) -> Sequence[Count]:
        """Record all hits of one call and return their counts, in order.

        A hit on a key in cooldown raises its count and leaves its window alone. A transport
        `retry` is not a hit, at most `RETRY_ALLOWANCE` times a key and window.
        """
        ...

    def trip(self, trips: Sequence[Trip], now: float) -> None:
        """Refuse these keys until their cooldown ends; the later deadline wins."""
        ...

    def release(self, key: bytes) -> bool:
        """Forget everything about a key; say whether anything was known."""
        ...
