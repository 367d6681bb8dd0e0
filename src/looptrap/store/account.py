"""Accounts in this process: what is spent and reserved, and when it refills."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from math import ceil, floor

import msgspec

from looptrap.bounded import ExpiringMap, V
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

HEAVY_USE_DIVISOR = 2
"""An account with at least 1 / this of its limit used is kept longer than others …"""

HEAVY_SHARE_DIVISOR = 2
"""… and such accounts may take 1 / this of all places."""

ACCOUNT_TTL_S = 2_592_000
"""Seconds for which an account without a period, or a debt, is kept after its last use."""

MAX_RESERVATION_S = RESERVATION_S + 2 * RESERVATION_BUCKET_S
"""No bucket lies further ahead, unless the clock was set back."""


class _AccountMap(ExpiringMap[V]):
    """Accounts of one kind, the longest untouched first."""

    __slots__ = ()

    def __len__(self) -> int:
        return len(self.entries)

    def expire(self, now: float) -> None:
        super().expire(now)
        self._next_expiry = min(self._next_expiry, now + RESERVATION_BUCKET_S)

    def release(self, key: bytes) -> bool:
        """Drop an account; return whether there was one."""
        return self.entries.pop(key, None) is not None


class _PeriodAccount(msgspec.Struct, gc=False):
    """The state of an account with periods."""

    start: float
    minute: float
    """The minute of the last check for expired reservations: they expire by the minute."""
    spent: int = 0
    reserved: dict[int, int] = {}
    held: int = 0
    """The sum of all reservations."""
    end: float = 0.0
    touched: float = 0.0

    def reserve(self, amount: int, now: float) -> int:
        """Reserve an amount; return the bucket with which it expires."""
        place = ceil((now + RESERVATION_S) / RESERVATION_BUCKET_S) * RESERVATION_BUCKET_S
        self.reserved[place] = self.reserved.get(place, 0) + amount
        self.held += amount
        return place

    def free(self, place: int, amount: int) -> None:
        """Release an amount from a bucket, as far as it has not expired."""
        reserved = self.reserved.get(place, 0)
        if reserved > amount:
            self.reserved[place] = reserved - amount
            self.held -= amount
        elif reserved:
            del self.reserved[place]
            self.held -= reserved

    def drop_ended(self, now: float) -> None:
        """Release reservations that were not settled in time."""
        for place in [one for one in self.reserved if not now < one <= now + MAX_RESERVATION_S]:
            self.free(place, self.reserved[place])


class _PeriodAccounts(_AccountMap[_PeriodAccount]):
    """Accounts that refill at the end of each period; without a period never.

    Heavily used ones are kept apart, within a bound: a flood of made-up accounts must not evict
    them.
    """

    __slots__ = ("_has_heavy_room", "heavy")

    def __init__(self, seconds: float, has_room: Callable[[], bool]) -> None:
        super().__init__(seconds)
        self._has_heavy_room = has_room
        self.heavy: OrderedDict[bytes, _PeriodAccount] = OrderedDict()

    def __len__(self) -> int:
        return len(self.entries) + len(self.heavy)

    def expire(self, now: float) -> None:
        super().expire(now)
        if self.heavy:
            self._next_expiry = min(self._next_expiry, self._drop_expired(self.heavy, now))

    def release(self, key: bytes) -> bool:
        known = self.heavy.pop(key, None) is not None
        return super().release(key) or known

    def charge(self, charge: Charge, now: float) -> Balance:
        account = self._open(charge.key, now)
        amount, used, place = charge.amount, min(account.spent + account.held, UNLIMITED), 0
        is_granted = amount <= charge.limit - used
        if is_granted and amount:
            place = account.reserve(amount, now)
            used += amount
        self._keep(charge, account, now)
        left = account.start + self.seconds - now if self.seconds else 0.0
        return Balance(is_granted, used, left, place)

    def settle(self, settlement: Settlement, now: float) -> None:
        charge = settlement.charge
        account = self._open(charge.key, now)
        account.free(settlement.place, charge.amount)
        account.spent = min(account.spent + settlement.actual, UNLIMITED)
        self._keep(charge, account, now)

    def _open(self, key: bytes, now: float) -> _PeriodAccount:
        """Return the current state of an account, or a new one."""
        if now >= self._next_expiry:
            self.expire(now)
        seconds, minute = self.seconds, now // RESERVATION_BUCKET_S
        since = now - FIRST_MONDAY_S
        start = floor(since / seconds) * seconds + FIRST_MONDAY_S if seconds else 0.0
        account = self.entries.get(key) or self.heavy.get(key)
        if account is None or account.end <= now:
            return _PeriodAccount(start, minute)
        # A clock that is a little slow must not restart a period that is over.
        if seconds and not start <= account.start <= now + seconds:
            account.start, account.spent = start, 0
        if account.minute != minute:
            account.minute = minute
            account.drop_ended(now)
        return account

    def _keep(self, charge: Charge, account: _PeriodAccount, now: float) -> None:
        """Move an account to the end; drop it if it holds nothing."""
        key = charge.key
        end = now + MAX_RESERVATION_S if account.held else 0.0
        if account.spent:
            end = max(end, account.start + self.seconds if self.seconds else now + ACCOUNT_TTL_S)
        if not end:
            self.release(key)
            return
        account.end, account.touched = end, now
        entries, others = self.entries, self.heavy
        is_heavy = (account.spent + account.held) * HEAVY_USE_DIVISOR >= charge.limit
        if is_heavy and (key in self.heavy or self._has_heavy_room()):
            entries, others = others, entries
        entries[key] = account
        entries.move_to_end(key)
        if others:
            others.pop(key, None)

    def since(self, entry: _PeriodAccount) -> float:
        return entry.touched

    def end(self, entry: _PeriodAccount) -> float:
        return entry.end


class _LeakyAccounts(_AccountMap[tuple[float, float, float]]):
    """Leaky accounts: the time of the last use, what is used, and when that has leaked away."""

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
        """Return the time of an account's state, and what is used by then."""
        if now >= self._next_expiry:
            self.expire(now)
        at, used, end = self.entries.get(charge.key, (now, 0.0, now))
        if end <= now:
            return now, 0.0
        if at > now:  # the clock was set back: nothing leaks until it has caught up
            return min(at, now + self.seconds), used
        return now, max(0.0, used - (now - at) * charge.limit / self.seconds)

    def _keep(self, charge: Charge, at: float, used: float) -> None:
        """Move an account to the end; drop it if nothing is used."""
        if not used:
            self.entries.pop(charge.key, None)
            return
        lasts = used * self.seconds / charge.limit if charge.limit > 0 else self.seconds
        self.entries[charge.key] = at, used, at + min(lasts, ACCOUNT_TTL_S)
        self.entries.move_to_end(charge.key)

    def _left(self, used: float, amount: int, limit: int) -> float:
        """Return the seconds until the amount fits; if it never does, until nothing is used."""
        if limit <= 0:
            return self.seconds
        if amount <= limit:
            return (used - (limit - amount)) * self.seconds / limit
        return min(used * self.seconds / limit, self.seconds)

    def since(self, entry: tuple[float, float, float]) -> float:
        return entry[0]

    def end(self, entry: tuple[float, float, float]) -> float:
        return entry[2]


class Accounts:
    """Accounts by key, seconds and kind; the longest untouched are evicted first.

    Budgets (periods) and rates (leaky) have `max_accounts` each.
    """

    def __init__(self, max_accounts: int) -> None:
        self.max_accounts = max_accounts
        self.evicted = 0
        """Accounts dropped early because there were too many."""
        self._room = max_accounts
        self._periods: dict[float, _PeriodAccounts] = {}
        self._leaky: dict[float, _LeakyAccounts] = {}

    def __len__(self) -> int:
        """Return the number of accounts."""
        return sum(map(len, self._maps()))

    def charge(self, charges: Sequence[Charge], now: float) -> list[Balance]:
        """Take each amount from its account if the limit allows it; return the balances."""
        balances = [self._map_for(charge).charge(charge, now) for charge in charges]
        self._count_new(len(charges))
        return balances

    def settle(self, settlements: Sequence[Settlement], now: float) -> None:
        """Replace reservations by the actual amounts."""
        for settlement in settlements:
            self._map_for(settlement.charge).settle(settlement, now)
        self._count_new(len(settlements))

    def release(self, key: bytes) -> bool:
        """Drop a key's accounts; return whether there was any."""
        known = False
        for accounts in self._maps():
            known = accounts.release(key) or known
        return known

    def _maps(self) -> Iterator[_PeriodAccounts | _LeakyAccounts]:
        return chain(self._periods.values(), self._leaky.values())

    def _map_for(self, charge: Charge) -> _PeriodAccounts | _LeakyAccounts:
        seconds = charge.seconds
        if charge.leaks:
            if seconds not in self._leaky:
                self._leaky[seconds] = _LeakyAccounts(seconds)
            return self._leaky[seconds]
        if seconds not in self._periods:
            self._periods[seconds] = _PeriodAccounts(seconds, self._has_heavy_room)
        return self._periods[seconds]

    def _has_heavy_room(self) -> bool:
        """Return whether one more heavily used account may be kept apart."""
        heavy = sum([len(accounts.heavy) for accounts in self._periods.values()])
        return heavy < self.max_accounts // HEAVY_SHARE_DIVISOR

    def _count_new(self, accounts: int) -> None:
        """Note that accounts may be new; they are counted only when there may be too many."""
        self._room -= accounts
        if self._room < 0:
            left = self._evict(self._periods.values()), self._evict(self._leaky.values())
            self._room = min(left)

    def _evict(self, maps: Iterable[_PeriodAccounts | _LeakyAccounts]) -> int:
        """Evict the longest untouched while there are too many; return how many may still come."""
        size = sum(map(len, maps))
        for _ in range(size - self.max_accounts):
            nonempty = [accounts for accounts in maps if accounts.entries]
            min(nonempty, key=lambda accounts: accounts.oldest()).entries.popitem(last=False)
            self.evicted += 1
        return self.max_accounts - min(size, self.max_accounts)
