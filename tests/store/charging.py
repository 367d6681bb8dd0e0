"""Stores to charge, wherever they keep their accounts, and charges in few words."""

from tests.store.driving import Driven
from tests.store.serving import cluster, server

from looptrap.store.memory import MemoryStore
from looptrap.store.model import Charge, Settlement

T = 1_800_230_400.0
"""A Monday, at midnight UTC."""

MINUTE, HOUR, DAY, WEEK = 60.0, 3_600.0, 86_400.0, 604_800.0


def places(kind):
    """Yield where a store of some kind keeps its accounts: here (None), or in these servers."""
    if kind == "memory":
        yield None
        return
    with cluster() if kind == "cluster" else server(kind) as one:
        yield one


def stores(place):
    """Yield a store that keeps its accounts in a place, and leave that empty."""
    if place is None:
        yield MemoryStore()
        return
    driven = Driven(place.url)
    yield driven
    driven.close()
    place.empty()


def budget(amount, limit=100, seconds=DAY, key=b"\0\0b"):
    """Return a charge on an account with periods."""
    return Charge(key, amount, limit, seconds)


def bucket(amount, limit=40, seconds=2.0, key=b"\0\0l"):
    """Return a charge on an account that leaks: 20 a second, and 40 at once."""
    return Charge(key, amount, limit, seconds, leaks=True)


def take(store, charge, now=T):
    """Charge one account."""
    [balance] = store.charge([charge], now)
    return balance


def spend(store, charge, actual=None, now=T):
    """Charge one account, and settle that at once; by default with the whole amount."""
    balance = take(store, charge, now)
    assert balance.is_granted
    settle(store, charge, balance, charge.amount if actual is None else actual, now)
    return balance


def settle(store, charge, balance, actual, now=T, *, is_local=False):
    """Say what a granted charge came to."""
    store.settle([Settlement(charge, balance.place, actual, is_local)], now)


def used(store, charge, now=T):
    """Return what an account holds, taking nothing."""
    nothing = Charge(charge.key, 0, charge.limit, charge.seconds, charge.leaks)
    return take(store, nothing, now).used
