"""ExpiringMap: keys in the order of their expiry, without a timer for each."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import OrderedDict
from typing import Generic, TypeVar

MAX_EXPIRED_AT_ONCE = 64
"""Expired keys dropped at a time, so that no call pays for all of them."""

EntryT = TypeVar("EntryT")


class ExpiringMap(ABC, Generic[EntryT]):
    """All keys of one window or period, those that expire first in front."""

    __slots__ = ("_next_expiry", "entries", "seconds")

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.entries: OrderedDict[bytes, EntryT] = OrderedDict()
        self._next_expiry = 0.0  # no key expires before this time

    @abstractmethod
    def since(self, entry: EntryT) -> float:
        """Return the time from which an entry's seconds run."""

    def end(self, entry: EntryT) -> float:
        """Return the time at which an entry expires."""
        return self.since(entry) + self.seconds

    def oldest(self) -> float:
        """Return `since` of the first key."""
        return self.since(next(iter(self.entries.values())))

    def expire(self, now: float) -> None:
        """Drop expired keys from the front."""
        self._next_expiry = self._drop_expired(self.entries, now)

    def _drop_expired(self, entries: OrderedDict[bytes, EntryT], now: float) -> float:
        """Drop expired keys from the front; return when the next may expire."""
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
        for key in expired:
            del entries[key]
        return next_expiry
