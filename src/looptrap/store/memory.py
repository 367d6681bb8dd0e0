"""MemoryStore: counts in this process; exact, bounded, without a timer for each key."""

from __future__ import annotations

from abc import abstractmethod
from array import array
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable, Sequence
from itertools import islice
from typing import Any, TypeVar

import msgspec

from looptrap.bounded import MAX_EXPIRED_AT_ONCE, ExpiringMap, K, V
from looptrap.detect.window import (
    HIT_LIMIT,
    MAX_CONTINUED,
    MAX_TWINS,
    STREAK_MEMORY_S,
    Window,
    WindowKind,
)
from looptrap.store.account import Accounts
from looptrap.store.model import (
    MAX_MARKS,
    RETRY_ALLOWANCE,
    Balance,
    Charge,
    Count,
    Hit,
    Note,
    Settlement,
    Trip,
)
from looptrap.store.note import MAX_RUNS, Notes

MAX_FINGERPRINTS = 1_000_000


class _CountMap(ExpiringMap[V]):
    """Counts by key."""

    __slots__ = ()

    @abstractmethod
    def hit(self, key: bytes, now: float) -> int:
        """Record a hit; return the hits in its window."""

    @abstractmethod
    def peek(self, key: bytes, now: float) -> int:
        """Return the hits in its window without recording one."""


class _RollingCounts(_CountMap["float | array[float]"]):
    """Times of the hits: a float for one hit, which most keys have, or an array."""

    __slots__ = ()

    def hit(self, key: bytes, now: float) -> int:
        if now >= self._next_expiry:
            self.expire(now)
        entries = self.entries
        entry = entries.get(key)
        if entry is None:
            entries[key] = now
            return 1
        entries.move_to_end(key)
        if not isinstance(entry, array):
            if entry <= now - self.seconds:
                entries[key] = now
                return 1
            entries[key] = array("d", (entry, max(entry, now)))
            return 2
        entry.append(max(entry[-1], now))  # a clock set back must not unsort them
        del entry[: max(bisect_right(entry, now - self.seconds), len(entry) - HIT_LIMIT)]
        return len(entry)

    def peek(self, key: bytes, now: float) -> int:
        entry = self.entries.get(key)
        if entry is None:
            return 0
        if isinstance(entry, array):
            return len(entry) - bisect_right(entry, now - self.seconds)
        return int(entry > now - self.seconds)

    def since(self, entry: float | array[float]) -> float:
        return entry[-1] if isinstance(entry, array) else entry


class _FixedCounts(_CountMap["tuple[float, int]"]):
    """The window's start and its hits; it ends `seconds` after the first hit."""

    __slots__ = ()

    def hit(self, key: bytes, now: float) -> int:
        if now >= self._next_expiry:
            self.expire(now)
        entry = self.entries.get(key)
        if entry is None or entry[0] <= now - self.seconds:
            self.entries[key] = (now, 1)
            self.entries.move_to_end(key)
            return 1
        count = min(entry[1] + 1, HIT_LIMIT)
        self.entries[key] = (entry[0], count)
        return count

    def peek(self, key: bytes, now: float) -> int:
        entry = self.entries.get(key)
        return 0 if entry is None or entry[0] <= now - self.seconds else entry[1]

    def since(self, entry: tuple[float, int]) -> float:
        return entry[0]


class _RefreshedCounts(_FixedCounts):
    """The latest hit and the number of hits; the window ends `seconds` after the latest."""

    __slots__ = ()

    def hit(self, key: bytes, now: float) -> int:
        count = super().hit(key, now)
        self.entries[key] = (now, count)
        self.entries.move_to_end(key)
        return count


class _Row(msgspec.Struct, gc=False):
    """Calls in a row under a key."""

    touched: float
    began: float
    """When its latest wave or call began."""
    count: int = 1
    open: int = 0
    """Calls that are not answered yet, without the first, whose end is not reported."""


R = TypeVar("R", bound=_Row)


class _RowCounts(_CountMap[float | R]):
    """Calls in a row: a float, the time of the first call, which most keys have, or a row."""

    __slots__ = ("_pause",)

    def __init__(self, pause: float) -> None:
        super().__init__(STREAK_MEMORY_S)
        self._pause = pause

    def hit(self, key: bytes, now: float) -> int:
        if now >= self._next_expiry:
            self.expire(now)
        entry = self.entries.get(key)
        if entry is None:
            self.entries[key] = now
            return 1
        self.entries.move_to_end(key)
        row = self._new_row(entry) if isinstance(entry, float) else entry
        if row.began <= now - STREAK_MEMORY_S or not self._add(row, now):
            self.entries[key] = now
            return 1
        row.count = min(row.count, HIT_LIMIT)
        row.touched = max(row.touched, now)
        self.entries[key] = row
        return row.count

    @abstractmethod
    def _new_row(self, first: float) -> R:
        """Return a row of one call, that began then."""

    @abstractmethod
    def _add(self, row: R, now: float) -> bool:
        """Add a call to a row; return whether it belongs there."""

    def hold(self, key: bytes) -> None:
        """Note a call that is no hit and will be answered."""
        row = self._row(key)
        if row is not None and row.count > 1:
            row.open += 1

    def answer(self, key: bytes, now: float) -> None:
        """Note that a call was answered."""
        row = self._row(key)
        if row is None:
            return
        row.open = max(row.open - 1, 0)
        if row.count > 1:
            self._end(key, row, now - row.began, now)

    def refuse(self, key: bytes, seconds: float, until: float) -> None:
        """Let the pause after a row begin when its cooldown of so many seconds ends."""
        row = self._row(key)
        if row is not None and row.count > 1:
            self._end(key, row, seconds, until)
            row.began = max(row.began, until)

    def _end(self, key: bytes, row: R, took: float, ended: float) -> None:
        self._pause_after(row, took, ended)
        row.touched = max(row.touched, ended)
        self.entries.move_to_end(key)

    @abstractmethod
    def _pause_after(self, row: R, took: float, ended: float) -> None:
        """Begin the pause after an answer that took so many seconds."""

    def _row(self, key: bytes) -> R | None:
        """Return the row of a key beyond its first call, whose end is not reported."""
        entry = self.entries.get(key)
        return None if isinstance(entry, float) else entry

    def peek(self, key: bytes, now: float) -> int:
        entry = self.entries.get(key)
        if entry is None or self.end(entry) <= now:
            return 0
        return 1 if isinstance(entry, float) else entry.count

    def since(self, entry: float | R) -> float:
        return entry if isinstance(entry, float) else entry.touched


class _Streak(_Row, gc=False):
    """Waves of calls."""

    twins: int = 1
    """Calls of the latest wave."""
    ended: float = 0.0
    """When the latest answer was complete; 0 if that is not known."""
    continued: int = 0
    """Waves that were taken off."""


class _StreakCounts(_RowCounts[_Streak]):
    """Counts waves: calls that overlap are one."""

    __slots__ = ()

    def _new_row(self, first: float) -> _Streak:
        return _Streak(first, first)

    def _add(self, row: _Streak, now: float) -> bool:
        if row.open:
            row.twins += 1
            row.count += row.twins > MAX_TWINS
        elif not row.ended or now - row.ended <= self._pause:
            row.count, row.twins, row.began = row.count + 1, 1, now
        else:
            return False
        row.open += row.count > 1
        return True

    def _pause_after(self, row: _Streak, _took: float, ended: float) -> None:
        row.ended = max(row.ended, ended)

    def take_off(self, key: bytes) -> None:
        """Take off a wave, since its answer was continued; the first two stay."""
        row = self._row(key)
        if row is not None and row.count > 2 and row.continued < MAX_CONTINUED:
            row.count, row.continued = row.count - 1, row.continued + 1


class _Series(_Row, gc=False):
    """Calls one after the other; `open` are also those from before it began."""

    until: float = 0.0
    """How late the next call may begin to continue it; 0 if that is not known."""


class _SerialCounts(_RowCounts[_Series]):
    """Counts calls one after the other; one that overlaps another begins anew."""

    __slots__ = ()

    def _new_row(self, first: float) -> _Series:
        return _Series(first, first)

    def _add(self, row: _Series, now: float) -> bool:
        if row.open:
            # Calls still under way are remembered, so that none of them seems to be a later one.
            row.count, row.until = 1, 0.0
        elif not row.until or now <= row.until:
            row.count, row.open, row.began, row.until = row.count + 1, 1, now, 0.0
        else:
            return False
        return True

    def _pause_after(self, row: _Series, took: float, ended: float) -> None:
        row.until = max(row.until, ended + min(self._pause, took / 2))


class _MarkMap(ExpiringMap["tuple[float, dict[bytes, None]]"]):
    """The latest hit and the marks of a key, in the order they were last seen."""

    __slots__ = ()

    def add_mark(self, key: bytes, mark: bytes, now: float) -> tuple[bytes, ...]:
        """Add a mark to a key; return the other marks."""
        if now >= self._next_expiry:
            self.expire(now)
        entry = self.entries.get(key)
        marks = {} if entry is None or entry[0] <= now - self.seconds else entry[1]
        marks.pop(mark, None)
        others = tuple(marks)
        if len(others) == MAX_MARKS:
            del marks[others[0]]
        marks[mark] = None
        self.entries[key] = (now, marks)
        self.entries.move_to_end(key)
        return others

    def since(self, entry: tuple[float, dict[bytes, None]]) -> float:
        return entry[0]


_COUNT_MAPS: dict[WindowKind, type[_CountMap[Any]]] = {
    WindowKind.ROLLING: _RollingCounts,
    WindowKind.FIXED: _FixedCounts,
    WindowKind.REFRESHED: _RefreshedCounts,
    WindowKind.STREAK: _StreakCounts,
    WindowKind.SERIAL: _SerialCounts,
}


def _new_counts(window: Window) -> _CountMap[Any]:
    return _COUNT_MAPS[window.kind](window.seconds)


class _Maps(dict[K, V]):
    """Maps by window or seconds, made on first use and added to a list of all maps."""

    def __init__(self, make: Callable[[K], V], maps: list[Any]) -> None:
        self._make = make
        self._maps = maps

    def __missing__(self, key: K) -> V:
        value = self[key] = self._make(key)
        self._maps.append(value)
        return value


class _Cooldown(msgspec.Struct, gc=False):
    """Until when a key is refused, and its hits."""

    until: float
    hits: int


class MemoryStore:
    """Counts in this process; the oldest keys are evicted first when it is full.

    A shared store has the same results, later.
    """

    def __init__(self, max_fingerprints: int = MAX_FINGERPRINTS, max_runs: int = MAX_RUNS) -> None:
        self.max_fingerprints = max_fingerprints
        self.evicted = 0
        """Keys dropped early because the store was full."""
        self._room = max_fingerprints
        self._maps: list[ExpiringMap[Any]] = []
        # Without a reference to this store: a cycle would delay its release.
        self._counts = _Maps(_new_counts, self._maps)
        self._retries = _Maps(_FixedCounts, self._maps)
        self._marks = _Maps(_MarkMap, self._maps)
        self._cooldowns: OrderedDict[bytes, _Cooldown] = OrderedDict()
        self.accounts = Accounts(max_fingerprints)
        self._notes = Notes(max_runs)

    def __len__(self) -> int:
        """Return the number of keys, without accounts and notes."""
        return len(self._cooldowns) + sum(len(one.entries) for one in self._maps)

    def hit(self, hits: Sequence[Hit], now: float, *, retry: bool = False) -> list[Count]:
        """Record all hits of one call and return their counts, in order.

        A hit on a key in cooldown raises its count and leaves its window alone. A transport
        `retry` is not a hit, at most `RETRY_ALLOWANCE` times a key and window.
        """
        counts = []
        for hit in hits:
            key = hit.key
            if hit.mark:
                counts.append(Count(0, marks=self._add_mark(hit, now)))
                continue
            if hit.continues:
                self._take_off(hit)
                counts.append(Count(0))
                continue
            cooldown = self._cooldowns.get(key)
            if cooldown is not None and cooldown.until > now:
                cooldown.hits += 1
                counts.append(Count(cooldown.hits, cooldown.until - now))
                continue
            counts_map = self._counts[hit.window]
            if retry and self._is_free_retry(hit, now):
                if isinstance(counts_map, _RowCounts):
                    counts_map.hold(key)
                counts.append(Count(counts_map.peek(key, now)))
                continue
            count = counts_map.hit(key, now)
            if count == 1:
                self._count_new()
            counts.append(Count(count))
        return counts

    def answer(self, hits: Sequence[Hit], now: float) -> None:
        """Note that a call with these hits, in a row, was answered."""
        for hit in hits:
            counts_map = self._counts[hit.window]
            if isinstance(counts_map, _RowCounts):
                counts_map.answer(hit.key, now)

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
            self._count_new()
            # A client that waits out its cooldown continues its row.
            for counts_map in self._maps:
                if isinstance(counts_map, _RowCounts):
                    counts_map.refuse(trip.key, trip.seconds, until)
        for key, cooldown in list(islice(self._cooldowns.items(), MAX_EXPIRED_AT_ONCE)):
            if cooldown.until > now:
                break
            del self._cooldowns[key]

    def cooldown_left(self, key: bytes, now: float) -> float:
        """Return how long a key is still refused; asking changes nothing."""
        cooldown = self._cooldowns.get(key)
        return max(0.0, cooldown.until - now) if cooldown is not None else 0.0

    def release(self, key: bytes) -> bool:
        """Forget everything about a key; return whether anything was known."""
        known = self._cooldowns.pop(key, None) is not None
        for one in self._maps:
            known = one.entries.pop(key, None) is not None or known
        known = self._notes.release(key) or known
        return self.accounts.release(key) or known

    def charge(self, charges: Sequence[Charge], now: float) -> list[Balance]:
        """Take each amount from its account if the limit allows it; return the balances.

        Each is decided by itself: a caller that needs all or none settles the granted ones with 0.
        A reservation that is not settled expires after about `RESERVATION_S` seconds.
        """
        return self.accounts.charge(charges, now)

    def settle(self, settlements: Sequence[Settlement], now: float) -> None:
        """Replace reservations by the actual amounts."""
        self.accounts.settle(settlements, now)

    def recall(self, keys: Sequence[bytes], now: float) -> list[bytes]:
        """Return the note under each key, empty where none is known; asking changes nothing."""
        return self._notes.recall(keys, now)

    def remember(self, notes: Sequence[Note], now: float) -> None:
        """Write notes, in order; one is forgotten `RUN_MEMORY_S` seconds after it was written."""
        self._notes.remember(notes, now)

    def _add_mark(self, hit: Hit, now: float) -> tuple[bytes, ...]:
        others = self._marks[hit.window.memory].add_mark(hit.key, hit.mark, now)
        if not others:
            self._count_new()
        return others

    def _take_off(self, hit: Hit) -> None:
        counts_map = self._counts[hit.window]
        if isinstance(counts_map, _StreakCounts):
            counts_map.take_off(hit.key)

    def _is_free_retry(self, hit: Hit, now: float) -> bool:
        count = self._retries[hit.window.memory].hit(hit.key, now)
        if count == 1:
            self._count_new()
        return count <= RETRY_ALLOWANCE

    def _count_new(self) -> None:
        """Note a new key; keys are counted only when there may be too many."""
        self._room -= 1
        if self._room < 0:
            self._evict()
            self._room = self.max_fingerprints - len(self)

    def _evict(self) -> None:
        """Evict the keys touched longest ago while there are too many."""
        for _ in range(len(self) - self.max_fingerprints):
            oldest = None
            for one in self._maps:
                if one.entries and (oldest is None or one.oldest() < oldest.oldest()):
                    oldest = one
            (oldest.entries if oldest is not None else self._cooldowns).popitem(last=False)
            self.evicted += 1
