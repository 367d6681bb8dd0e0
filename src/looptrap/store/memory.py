"""A store inside this process: exact, bounded, without a timer a key."""

from __future__ import annotations

from abc import abstractmethod
from array import array
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Sequence
from itertools import islice
from typing import Any

from looptrap.detect.scope import HIT_LIMIT, Window, WindowKind
from looptrap.store.account import Accounts
from looptrap.store.expiring_map import MAX_EXPIRED_AT_ONCE, EntryT, ExpiringMap
from looptrap.store.model import (
    MAX_MARKS,
    RETRY_ALLOWANCE,
    Balance,
    Charge,
    Count,
    Hit,
    Settlement,
    Trip,
)

MAX_FINGERPRINTS = 1_000_000


class _CountMap(ExpiringMap[EntryT]):
    """Keys that are counted."""

    __slots__ = ()

    @abstractmethod
    def hit(self, key: bytes, now: float) -> int:
        """Record a hit and return the hits in its window."""

    @abstractmethod
    def peek(self, key: bytes, now: float) -> int:
        """Return the hits in its window, recording none."""


class _RollingCounts(_CountMap["float | array[float]"]):
    """Times of the hits: one float, which is what most keys ever have, or an array."""

    __slots__ = ()

    def hit(self, key: bytes, now: float) -> int:
        if now >= self._look_again:
            self.expire(now)
        entries = self.entries
        seen = entries.get(key)
        if seen is None:
            entries[key] = now
            return 1
        entries.move_to_end(key)
        if not isinstance(seen, array):
            if seen <= now - self.seconds:
                entries[key] = now
                return 1
            entries[key] = array("d", (seen, max(seen, now)))
            return 2
        seen.append(max(seen[-1], now))  # a clock set back must not unsort them
        del seen[: max(bisect_right(seen, now - self.seconds), len(seen) - HIT_LIMIT)]
        return len(seen)

    def peek(self, key: bytes, now: float) -> int:
        seen = self.entries.get(key)
        if seen is None:
            return 0
        if isinstance(seen, array):
            return len(seen) - bisect_right(seen, now - self.seconds)
        return int(seen > now - self.seconds)

    def since(self, seen: float | array[float]) -> float:
        return seen[-1] if isinstance(seen, array) else seen


class _FixedCounts(_CountMap["tuple[float, int]"]):
    """The window's start and its hits; it ends `seconds` after the first of them."""

    __slots__ = ()

    def hit(self, key: bytes, now: float) -> int:
        if now >= self._look_again:
            self.expire(now)
        seen = self.entries.get(key)
        if seen is None or seen[0] <= now - self.seconds:
            self.entries[key] = (now, 1)
            self.entries.move_to_end(key)
            return 1
        count = min(seen[1] + 1, HIT_LIMIT)
        self.entries[key] = (seen[0], count)
        return count

    def peek(self, key: bytes, now: float) -> int:
        seen = self.entries.get(key)
        return 0 if seen is None or seen[0] <= now - self.seconds else seen[1]

    def since(self, seen: tuple[float, int]) -> float:
        return seen[0]


class _RefreshedCounts(_FixedCounts):
    """The latest hit and the hits so far; the window ends `seconds` after the latest."""

    __slots__ = ()

    def hit(self, key: bytes, now: float) -> int:
        count = super().hit(key, now)
        self.entries[key] = (now, count)
        self.entries.move_to_end(key)
        return count


class _MarkMap(ExpiringMap["tuple[float, dict[bytes, None]]"]):
    """The latest hit and what is remembered under the key, in the order it was last seen."""

    __slots__ = ()

    def recall(self, key: bytes, mark: bytes, now: float) -> tuple[bytes, ...]:
        """Return the marks under a key, and remember one more."""
        if now >= self._look_again:
            self.expire(now)
        seen = self.entries.get(key)
        marks = {} if seen is None or seen[0] <= now - self.seconds else seen[1]
        marks.pop(mark, None)
        others = tuple(marks)
        if len(others) == MAX_MARKS:
            del marks[others[0]]
        marks[mark] = None
        self.entries[key] = (now, marks)
        self.entries.move_to_end(key)
        return others

    def since(self, seen: tuple[float, dict[bytes, None]]) -> float:
        return seen[0]


_COUNT_MAPS: dict[WindowKind, type[_CountMap[Any]]] = {
    WindowKind.ROLLING: _RollingCounts,
    WindowKind.FIXED: _FixedCounts,
    WindowKind.REFRESHED: _RefreshedCounts,
}


class _Cooldown:
    """Until when a key is refused, and how often it has been hit."""

    __slots__ = ("hits", "until")

    def __init__(self, until: float, hits: int) -> None:
        self.until = until
        self.hits = hits


class MemoryStore:
    """Counts inside this process; the oldest keys go first when it is full."""

    def __init__(self, max_fingerprints: int = MAX_FINGERPRINTS) -> None:
        self.max_fingerprints = max_fingerprints
        self.evicted = 0
        """Keys dropped before their time because the store was full."""
        self._room = max_fingerprints
        self._all: list[ExpiringMap[Any]] = []
        self._counts: dict[Window, _CountMap[Any]] = {}
        self._retries: dict[Window, _CountMap[Any]] = {}
        self._marks: dict[float, _MarkMap] = {}
        self._cooldowns: OrderedDict[bytes, _Cooldown] = OrderedDict()
        self.accounts = Accounts(max_fingerprints)

    def __len__(self) -> int:
        """Return how many keys are tracked; accounts are not among them."""
        size = len(self._cooldowns)
        for shelf in self._all:
            size += len(shelf.entries)
        return size

    def hit(self, hits: Sequence[Hit], now: float, *, retry: bool = False) -> list[Count]:
        """Record all hits of one call and return their counts, in order."""
        counts = []
        for hit in hits:
            key = hit.key
            if hit.mark:
                counts.append(Count(0, marks=self._recall(hit, now)))
                continue
            cooldown = self._cooldowns.get(key)
            if cooldown is not None and cooldown.until > now:
                cooldown.hits += 1
                counts.append(Count(cooldown.hits, cooldown.until - now))
                continue
            shelf = self._counts.get(hit.window) or self._open(self._counts, hit.window)
            if retry and self._is_spared(hit, now):
                counts.append(Count(shelf.peek(key, now)))
                continue
            count = shelf.hit(key, now)
            if count == 1:
                self._take_room()
            counts.append(Count(count))
        return counts

    def trip(self, trips: Sequence[Trip], now: float) -> None:
        """Refuse these keys until their cooldown ends; the later deadline wins."""
        for trip in trips:
            until = now + trip.seconds
            cooldown = self._cooldowns.get(trip.key)
            if cooldown is None or cooldown.until <= now:
                self._cooldowns[trip.key] = _Cooldown(until, trip.hits)
            else:
                cooldown.until = max(cooldown.until, until)
            self._cooldowns.move_to_end(trip.key)
            self._take_room()
        for key, cooldown in list(islice(self._cooldowns.items(), MAX_EXPIRED_AT_ONCE)):
            if cooldown.until > now:
                break
            del self._cooldowns[key]

    def cooldown_left(self, key: bytes, now: float) -> float:
        """Return how long a key is still refused; asking changes nothing."""
        cooldown = self._cooldowns.get(key)
        return max(0.0, cooldown.until - now) if cooldown is not None else 0.0

    def release(self, key: bytes) -> bool:
        """Forget everything about a key; say whether anything was known."""
        known = self._cooldowns.pop(key, None) is not None
        for shelf in self._all:
            known = shelf.entries.pop(key, None) is not None or known
        return self.accounts.release(key) or known

    def charge(self, charges: Sequence[Charge], now: float) -> list[Balance]:
        """Take each amount from its account where there is room for it, and say how that stands."""
        return self.accounts.charge(charges, now)

    def settle(self, settlements: Sequence[Settlement], now: float) -> None:
        """Put what was used in place of what was reserved."""
        self.accounts.settle(settlements, now)

    def _open(self, shelves: dict[Window, _CountMap[Any]], window: Window) -> _CountMap[Any]:
        shelf = shelves[window] = _COUNT_MAPS[window.kind](window.seconds)
        self._all.append(shelf)
        return shelf

    def _recall(self, hit: Hit, now: float) -> tuple[bytes, ...]:
        shelf = self._marks.get(hit.window.seconds)
        if shelf is None:
            shelf = self._marks[hit.window.seconds] = _MarkMap(hit.window.seconds)
            self._all.append(shelf)
        others = shelf.recall(hit.key, hit.mark, now)
        if not others:
            self._take_room()
        return others

    def _is_spared(self, hit: Hit, now: float) -> bool:
        window = Window(hit.window.seconds, WindowKind.FIXED)
        retries = self._retries.get(window) or self._open(self._retries, window)
        count = retries.hit(hit.key, now)
        if count == 1:
            self._take_room()
        return count <= RETRY_ALLOWANCE

    def _take_room(self) -> None:
        """Note one key more; keys are only counted when there may be too many."""
        self._room -= 1
        if self._room < 0:
            self._make_room()
            self._room = self.max_fingerprints - len(self)

    def _make_room(self) -> None:
        """Evict what was touched longest ago while there are too many keys."""
        for _ in range(len(self) - self.max_fingerprints):
            oldest = None
            for shelf in self._all:
                if shelf.entries and (oldest is None or shelf.oldest() < oldest.oldest()):
                    oldest = shelf
            (oldest.entries if oldest is not None else self._cooldowns).popitem(last=False)
            self.evicted += 1
