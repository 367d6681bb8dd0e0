"""Maps of bounded size, for everything that clients could make grow. Pure.

BoundedCache  results of a function by bytes; emptied when it is full
LruMap        drops the keys set longest ago
RecentMap     values made on first use; drops the keys used longest ago
ExpiringMap   keys in the order of their expiry, without a timer for each
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class BoundedCache(dict[bytes, V]):
    """Results of a function; a hit is a plain look-up in C, a miss calls `compute`."""

    def __init__(
        self, compute: Callable[[bytes], V], *, max_entries: int = 1024, max_key_bytes: int = 4096
    ) -> None:
        self._compute = compute
        self._max_entries = max_entries
        self._max_key_bytes = max_key_bytes

    def __missing__(self, key: bytes) -> V:
        value = self._compute(key)
        if len(key) <= self._max_key_bytes:
            if len(self) >= self._max_entries:
                self.clear()
            self[key] = value
        return value


class LruMap(OrderedDict[K, V]):
    """A map that drops the key set longest ago when it has more than `max_keys`."""

    def __init__(self, max_keys: int) -> None:
        super().__init__()
        self._max_keys = max_keys

    def __setitem__(self, key: K, value: V) -> None:
        super().__setitem__(key, value)
        self.move_to_end(key)
        if len(self) > self._max_keys:
            self.popitem(last=False)


def _ignore(_value: object) -> None:
    """Drop a value without a callback."""


class RecentMap(dict[K, V]):
    """Values made on first use; of more than `max_keys`, those used longest ago are dropped.

    It has two generations of half the size, so that a hit in the younger is a plain look-up in C:
    a key not used while a generation filled up is dropped when the next one is full.
    """

    def __init__(
        self, make: Callable[[K], V], max_keys: int, on_drop: Callable[[V], None] = _ignore
    ) -> None:
        self._make = make
        self._half = max(max_keys // 2, 1)
        self._on_drop = on_drop
        self._old: dict[K, V] = {}

    def __missing__(self, key: K) -> V:
        value = self._old.pop(key) if key in self._old else self._make(key)
        if len(self) >= self._half:
            dropped, self._old = self._old, self.copy()
            self.clear()
            for one in dropped.values():
                self._on_drop(one)
        self[key] = value
        return value

    def all(self) -> list[V]:
        """Return every value."""
        return [*self.values(), *self._old.values()]

    def forget(self, keys: Iterable[K]) -> None:
        """Remove keys; `on_drop` is not called for them."""
        for key in keys:
            self.pop(key, None)
            self._old.pop(key, None)


MAX_EXPIRED_AT_ONCE = 64
"""Expired keys dropped at a time, so that no call pays for all of them."""


class ExpiringMap(ABC, Generic[V]):
    """All keys of one window or period, those that expire first in front."""

    __slots__ = ("_next_expiry", "entries", "seconds")

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.entries: OrderedDict[bytes, V] = OrderedDict()
        self._next_expiry = 0.0  # no key expires before this time

    @abstractmethod
    def since(self, entry: V) -> float:
        """Return the time from which an entry's seconds run."""

    def end(self, entry: V) -> float:
        """Return the time at which an entry expires."""
        return self.since(entry) + self.seconds

    def oldest(self) -> float:
        """Return `since` of the first key."""
        return self.since(next(iter(self.entries.values())))

    def expire(self, now: float) -> None:
        """Drop expired keys from the front."""
        self._next_expiry = self._drop_expired(self.entries, now)

    def _drop_expired(self, entries: OrderedDict[bytes, V], now: float) -> float:
        """Drop expired keys from the front; return when the next may expire."""
        expired, next_expiry = self._find_expired(entries, now)
        for key in expired:
            del entries[key]
        return next_expiry

    def _find_expired(
        self, entries: OrderedDict[bytes, V], now: float
    ) -> tuple[list[bytes], float]:
        """Return expired keys in front, and when the next may expire."""
        expired: list[bytes] = []
        next_expiry = now + self.seconds
        for key, entry in entries.items():
            end = self.end(entry)
            if end > now:
                next_expiry = end
                break
            if len(expired) == MAX_EXPIRED_AT_ONCE:
                next_expiry = now
                break
            expired.append(key)
        return expired, next_expiry
