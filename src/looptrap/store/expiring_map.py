"""Keys that are forgotten in the order in which they were put: without a timer each."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import OrderedDict
from typing import Generic, TypeVar

MAX_EXPIRED_AT_ONCE = 64
"""At most so many stale keys are dropped at once, so that no call pays for all of them."""

EntryT = TypeVar("EntryT")


class ExpiringMap(ABC, Generic[EntryT]):
    """All keys of one window or period; those that end first stand in front."""

    __slots__ = ("_look_again", "entries", "seconds")

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.entries: OrderedDict[bytes, EntryT] = OrderedDict()
        self._look_again = 0.0  # no key expires before

    @abstractmethod
    def since(self, seen: EntryT) -> float:
        """Return the time from which the seconds run out."""

    def end(self, seen: EntryT) -> float:
        """Return the time from which the key says nothing more."""
        return self.since(seen) + self.seconds

    def oldest(self) -> float:
        """Return `since` of the key in front."""
        return self.since(next(iter(self.entries.values())))

    def expire(self, now: float) -> None:
        """Drop stale keys from the front."""
        self._look_again = self._drop_stale(self.entries, now)

    def _drop_stale(self, entries: OrderedDict[bytes, EntryT], now: float) -> float:
        """Drop stale keys from the front, and return when to look again."""
        stale: list[bytes] = []
        look_again = now + self.seconds
        for key, seen in entries.items():
            end = self.end(seen)
            if end > now:
                look_again = end
                break
            if len(stale) == MAX_EXPIRED_AT_ONCE:
                look_again = now
                break
            stale.append(key)
        for key in stale:
            del entries[key]
        return look_again
