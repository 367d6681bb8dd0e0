"""A shared store driven like the memory store: each method returns when it is done."""

import asyncio
import time

from tests.patience import PATIENCE

from looptrap.detect.window import Window
from looptrap.store.model import Hit
from looptrap.store.redis import RedisStore

WINDOW = Window(60)


async def ask(store, hits, now=None, *, retry=False):
    """Ask a store; return the counts, and whether they are this instance's own."""
    counts, balances, is_local = await ask_all(store, hits, [], now, retry=retry)
    assert not balances
    return counts, is_local


async def ask_all(store, hits, charges, now=None, *, retry=False):
    """Ask a store; return counts and balances, and whether they are this instance's own."""
    *answer, recalled, is_local = await _answer(store, hits, now, retry=retry, charges=charges)
    assert not recalled
    return *answer, is_local


async def recall(store, *keys, now=None):
    """Recall notes; return their values, and whether they are this instance's own."""
    _, _, recalled, is_local = await _answer(store, [], now, retry=False, recalls=keys)
    return recalled, is_local


async def _answer(store, hits, now, **asked):
    answered = asyncio.get_running_loop().create_future()
    store.ask(hits, now, then=lambda *answer: answered.set_result(answer), **asked)
    async with asyncio.timeout(PATIENCE):
        return await answered


async def charge(store, *charges, now=None):
    """Charge accounts; return the balances, and whether they are this instance's own."""
    _, balances, is_local = await ask_all(store, [], charges, now)
    return balances, is_local


async def hit(store, key, now=None):
    """Hit one key; return its hits, and whether they are this instance's own."""
    [count], is_local = await ask(store, [Hit(key, WINDOW)], now)
    return count.hits, is_local


async def eventually(is_so):
    """Look again and again until something is so, while everything else goes on."""
    end = time.monotonic() + PATIENCE
    while not is_so():
        assert time.monotonic() < end, f"still not so after {PATIENCE} s"
        await asyncio.sleep(0.002)


class Driven:
    """A store and the loop it runs on."""

    def __init__(self, url, **options):
        self.runner = asyncio.Runner()
        self.store = RedisStore(url, **{"timeout": 10, **options})
        self.runner.run(self.store.start())

    def hit(self, hits, now, *, retry=False):
        counts, is_local = self.runner.run(ask(self.store, hits, now, retry=retry))
        assert not is_local
        return counts

    def charge(self, charges, now):
        balances, is_local = self.runner.run(charge(self.store, *charges, now=now))
        assert not is_local
        return balances

    def recall(self, keys, now):
        recalled, is_local = self.runner.run(recall(self.store, *keys, now=now))
        assert not is_local
        return recalled

    def remember(self, notes, now):
        self.store.remember(notes, now)

    def settle(self, settlements, now):
        self.store.settle(settlements, now)

    def answer(self, hits, now):
        self.store.answer(hits, now)

    def trip(self, trips, now):
        self.store.trip(trips, now)

    def cooldown_left(self, key, now):
        return self.runner.run(self.store.cooldown_left(key, now))

    def release(self, key):
        return self.runner.run(self.store.release(key))

    def close(self):
        self.runner.run(self.store.stop())
        self.runner.close()
