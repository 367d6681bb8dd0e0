"""Accounts inside this process: what is spent, what is reserved, and when it comes back."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from math import ceil, floor

from looptrap.store.expiring_map import EntryT, ExpiringMap
from looptrap.store.model import (
    RESERVATION_BUCKET_S,
    RESERVATION_S,
    UNLIMITED,
    Balance,
    Charge,
    Settlement,
)

FIRST_MONDAY_S = 345_600
"""5 January 1970, midnight UTC: periods begin at multiples of their seconds since."""

MUCH = 2
"""An account of which one part in so many is used is kept for longer than others, and …"""

USED_UP = 2
"""… such accounts may take one part in so many of the room."""

ACCOUNT_TTL_S = 2_592_000
"""Seconds after its last touch for which an account without a period, or a debt, is kept."""

MAX_RESERVATION_S = RESERVATION_S + 2 * RESERVATION_BUCKET_S
"""No place is so many seconds ahead, unless a clock was set back."""


class _AccountMap(ExpiringMap[EntryT]):
    """Accounts of one kind; the longest untouched stand in front, and end about then."""

    __slots__ = ()

    def __len__(self) -> int:
        return len(self.entries)

    def expire(self, now: float) -> None:
        super().expire(now)
        self._look_again = min(self._look_again, now + RESERVATION_BUCKET_S)

    def release(self, key: bytes) -> bool:
        """Forget an account; say whether there was one."""
        return self.entries.pop(key, None) is not None


class _PeriodAccount:
    """What an account with periods holds."""

    __slots__ = ("end", "held", "minute", "reserved", "spent", "start", "touched")

    def __init__(self, start: float, minute: float) -> None:
        self.start = start
        self.spent = 0
        self.reserved: dict[int, int] = {}
        self.held = 0
        """All that is reserved."""
        self.minute = minute
        """Since which no reservation can have ended: they do so by the minute."""
        self.end = 0.0
        self.touched = 0.0

    def reserve(self, amount: int, now: float) -> int:
        """Put an amount with those that end together with it, and say where."""
        place = ceil((now + RESERVATION_S) / RESERVATION_BUCKET_S) * RESERVATION_BUCKET_S
        self.reserved[place] = self.reserved.get(place, 0) + amount
        self.held += amount
        return place

    def free(self, place: int, amount: int) -> None:
        """Take an amount from what is reserved in a place; what is gone stays gone."""
        reserved = self.reserved.get(place, 0)
        if reserved > amount:
            self.reserved[place] = reserved - amount
            self.held -= amount
        elif reserved:
            del self.reserved[place]
            self.held -= reserved

    def drop_ended(self, now: float) -> None:
        """Free what nobody has settled in time."""
        for place in [one for one in self.reserved if not now < one <= now + MAX_RESERVATION_S]:
            self.free(place, self.reserved[place])


class _PeriodAccounts(_AccountMap[_PeriodAccount]):
    """Accounts that are filled at the end of each period; without one they never are.

    Those of which much is used are kept apart, as far as there is room for them: whoever makes up
    accounts does not have them forgotten.
    """

    __slots__ = ("_has_room", "used_up")

    def __init__(self, seconds: float, has_room: Callable[[], bool]) -> None:
        super().__init__(seconds)
        self._has_room = has_room
        self.used_up: OrderedDict[bytes, _PeriodAccount] = OrderedDict()

    def __len__(self) -> int:
        return len(self.entries) + len(self.used_up)

    def expire(self, now: float) -> None:
        super().expire(now)
        if self.used_up:
            self._look_again = min(self._look_again, self._drop_stale(self.used_up, now))

    def release(self, key: bytes) -> bool:
        known = self.used_up.pop(key, None) is not None
        return super().release(key) or known

    def charge(self, charge: Charge, now: float) -> Balance:
        spending = self._open(charge.key, now)
        amount, used, place = charge.amount, min(spending.spent + spending.held, UNLIMITED), 0
        is_granted = amount <= charge.limit - used
        if is_granted and amount:
            place = spending.reserve(amount, now)
            used += amount
        self._keep(charge, spending, now)
        left = spending.start + self.seconds - now if self.seconds else 0.0
        return Balance(is_granted, used, left, place)

    def settle(self, settlement: Settlement, now: float) -> None:
        charge = settlement.charge
        spending = self._open(charge.key, now)
        spending.free(settlement.place, charge.amount)
        spending.spent = min(spending.spent + settlement.actual, UNLIMITED)
        self._keep(charge, spending, now)

    def _open(self, key: bytes, now: float) -> _PeriodAccount:
        """Return what an account holds now, a new one's too."""
        if now >= self._look_again:
            self.expire(now)
        seconds, minute = self.seconds, now // RESERVATION_BUCKET_S
        start = (
            floor((now - FIRST_MONDAY_S) / seconds) * seconds + FIRST_MONDAY_S if seconds else 0.0
        )
        spending = self.entries.get(key) or self.used_up.get(key)
        if spending is None or spending.end <= now:
            return _PeriodAccount(start, minute)
        # A clock that is a little slow does not begin a period that is over anew.
        if seconds and not start <= spending.start <= now + seconds:
            spending.start, spending.spent = start, 0
        if spending.minute != minute:
            spending.minute = minute
            spending.drop_ended(now)
        return spending

    def _keep(self, charge: Charge, spending: _PeriodAccount, now: float) -> None:
        """Put an account behind all others; one that holds nothing is forgotten."""
        key = charge.key
        end = now + MAX_RESERVATION_S if spending.held else 0.0
        if spending.spent:
            end = max(end, spending.start + self.seconds if self.seconds else now + ACCOUNT_TTL_S)
        if not end:
            self.release(key)
            return
        spending.end, spending.touched = end, now
        entries, others = self.entries, self.used_up
        is_used_up = (spending.spent + spending.held) * MUCH >= charge.limit
        if is_used_up and (key in self.used_up or self._has_room()):
            entries, others = others, entries
        entries[key] = spending
        entries.move_to_end(key)
        if others:
            others.pop(key, None)

    def since(self, seen: _PeriodAccount) -> float:
        return seen.touched

    def end(self, seen: _PeriodAccount) -> float:
        return seen.end


class _LeakyAccounts(_AccountMap[tuple[float, float, float]]):
    """Accounts that run out evenly: what is used, as of when, and when nothing of it is left."""

    __slots__ = ()

    def charge(self, charge: Charge, now: float) -> Balance:
        amount, limit = charge.amount, charge.limit
        at, used = self._open(charge, now)
        is_granted = amount <= limit - used
        if is_granted:
            used += amount
        self._keep(charge, at, used)
        left = 0.0 if is_granted else self._left(used, amount, limit)
        return Balance(is_granted, ceil(used), left)

    def settle(self, settlement: Settlement, now: float) -> None:
        charge = settlement.charge
        at, used = self._open(charge, now)
        used = max(0.0, used + (settlement.actual - charge.amount))
        self._keep(charge, at, min(used, UNLIMITED))

    def _open(self, charge: Charge, now: float) -> tuple[float, float]:
        """Return as of when an account says what is used, and that."""
        if now >= self._look_again:
            self.expire(now)
        at, used, end = self.entries.get(charge.key, (now, 0.0, now))
        if end <= now:
            return now, 0.0
        if at > now:  # nothing runs out before a clock that was set back is there again
            return min(at, now + self.seconds), used
        return now, max(0.0, used - (now - at) * charge.limit / self.seconds)

    def _keep(self, charge: Charge, at: float, used: float) -> None:
        """Put an account behind all others; one of which nothing is used is forgotten."""
        if not used:
            self.entries.pop(charge.key, None)
            return
        lasts = used * self.seconds / charge.limit if charge.limit > 0 else self.seconds
        self.entries[charge.key] = at, used, at + min(lasts, ACCOUNT_TTL_S)
        self.entries.move_to_end(charge.key)

    def _left(self, used: float, amount: int, limit: int) -> float:
        """Return the seconds until there is room; where there never is, until nothing is used."""
        if limit <= 0:
            return self.seconds
        if amount <= limit:
            return (used - (limit - amount)) * self.seconds / limit
        return min(used * self.seconds / limit, self.seconds)

    def since(self, seen: tuple[float, float, float]) -> float:
        return seen[0]

    def end(self, seen: tuple[float, float, float]) -> float:
        return seen[2]


class Accounts:
    """Accounts by key, seconds, and whether they leak; the longest untouched go first.

    Those of budgets and those of rates have as much room each, and take none from one another.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self.evicted = 0
        """Accounts dropped before their time because there were too many."""
        self._room = most
        self._periods: dict[float, _PeriodAccounts] = {}
        self._leaking: dict[float, _LeakyAccounts] = {}

    def __len__(self) -> int:
        """Return how many accounts hold anything."""
        return sum(map(len, self._shelves()))

    def charge(self, charges: Sequence[Charge], now: float) -> list[Balance]:
        """Take each amount from its account where there is room for it, and say how that stands."""
        balances = [self._shelf(charge).charge(charge, now) for charge in charges]
        self._take_room(len(charges))
        return balances

    def settle(self, settlements: Sequence[Settlement], now: float) -> None:
        """Put what was used in place of what was reserved."""
        for settlement in settlements:
            self._shelf(settlement.charge).settle(settlement, now)
        self._take_room(len(settlements))

    def release(self, key: bytes) -> bool:
        """Forget a key's accounts; say whether there was any."""
        known = False
        for shelf in self._shelves():
            known = shelf.release(key) or known
        return known

    def _shelves(self) -> Iterator[_PeriodAccounts | _LeakyAccounts]:
        return chain(self._periods.values(), self._leaking.values())

    def _shelf(self, charge: Charge) -> _PeriodAccounts | _LeakyAccounts:
        shelf: _PeriodAccounts | _LeakyAccounts | None
        if charge.leaks:
            shelf = self._leaking.get(charge.seconds)
            if shelf is None:
                shelf = self._leaking[charge.seconds] = _LeakyAccounts(charge.seconds)
            return shelf
        shelf = self._periods.get(charge.seconds)
        if shelf is None:
            shelf = self._periods[charge.seconds] = _PeriodAccounts(charge.seconds, self._has_room)
        return shelf

    def _has_room(self) -> bool:
        """Say whether one more account may be kept for being used up."""
        used_up = sum([len(shelf.used_up) for shelf in self._periods.values()])
        return used_up < self.most // USED_UP

    def _take_room(self, accounts: int) -> None:
        """Note that there may be more accounts; they are counted when these may be too many."""
        self._room -= accounts
        if self._room < 0:
            left = self._make_room(self._periods.values()), self._make_room(self._leaking.values())
            self._room = min(left)

    def _make_room(self, shelves: Iterable[_PeriodAccounts | _LeakyAccounts]) -> int:
        """Forget the longest untouched of these while there are too many; say how many may come."""
        size = sum(map(len, shelves))
        for _ in range(size - self.most):
            filled = [shelf for shelf in shelves if shelf.entries]
            min(filled, key=lambda shelf: shelf.oldest()).entries.popitem(last=False)
            self.evicted += 1
        return self.most - min(size, self.most)
