"""Accounts that instances share: nobody slips past a limit, and nothing is lost with a server."""

import asyncio

import pytest
from tests.store.charging import bucket, budget, settle
from tests.store.driving import WINDOW, ask_all, charge, eventually
from tests.store.redis.test_cluster import keys_of
from tests.store.serving import cluster, server

from looptrap.detect.window import Window
from looptrap.store.model import Charge, Hit, Settlement
from looptrap.store.redis.request import record_key

TOTAL = 0.0
"""Accounts without a period: no test may run into the end of one."""


@pytest.fixture
def one():
    """Return a server that a test may do anything to."""
    with server() as started:
        yield started


async def used(store, account):
    """Return what an account holds, and whether that is this instance's own."""
    nothing = Charge(account.key, 0, account.limit, account.seconds, account.leaks)
    [balance], is_local = await charge(store, nothing)
    return balance.used, is_local


@pytest.mark.parametrize(
    ("asked", "granted"),
    [
        pytest.param(budget(7, 1_000, TOTAL), 142, id="a budget"),
        pytest.param(bucket(7, 1_000, 1e6), 142, id="a bucket that leaks next to nothing"),
    ],
)
async def test_a_thousand_concurrent_calls_cannot_slip_past_a_limit(one, connect, asked, granted):
    stores = [await connect(one.url) for _ in range(5)]

    async def call(store):
        counts, [balance], is_local = await ask_all(store, [Hit(b"\1\1k", WINDOW)], [asked])
        assert not is_local
        return counts[0].hits, balance.is_granted

    answers = await asyncio.gather(*(call(stores[number % 5]) for number in range(1_000)))
    assert sorted(hits for hits, _ in answers) == list(range(1, 1_001))
    assert sum(is_granted for _, is_granted in answers) == granted  # 994 of 1,000


async def test_a_dollar_is_spent_once_by_calls_that_settle_while_others_ask(one, connect):
    stores = [await connect(one.url) for _ in range(4)]
    asked, spent, refused = budget(50, 1_000, TOTAL), 0, 0

    async def call(store, actual):
        nonlocal spent, refused
        [balance], is_local = await charge(store, asked)
        assert (balance.used <= asked.limit, is_local) == (True, False)
        if balance.is_granted:
            settle(store, asked, balance, actual, None)
            spent += actual
        else:
            refused += 1

    async def go_on(store, number):
        for _ in range(5):
            await call(store, number % 51)

    await asyncio.gather(*(go_on(stores[number % 4], number) for number in range(200)))
    assert refused  # while others were reserved
    for store in stores:
        await used(store, asked)  # so what it sent before has been carried out
    refused = 0
    while not refused:
        await call(stores[0], 50)
    assert await used(stores[0], asked) == (spent, False)
    assert asked.limit - asked.amount < spent <= asked.limit


async def test_hits_and_charges_of_one_call_are_one_command(one, connect):
    store = await connect(one.url)
    hits, charges = [Hit(b"\0\0a", WINDOW)] * 2, [budget(1), bucket(2, key=b"\0\0a"), budget(200)]
    counts, balances, is_local = await ask_all(store, hits, charges)
    assert [count.hits for count in counts] == [1, 2]
    assert [balance.is_granted for balance in balances] == [True, True, False]
    assert (store.batches, is_local) == (1, False)


async def test_charges_in_other_slots_of_a_cluster_than_the_hits_are_answered_in_order(connect):
    with cluster() as three:
        store = await connect(three.url)
        a, b, c = (keys_of(one, three, 1)[0] for one in three.servers)
        hits = [Hit(a, WINDOW), Hit(b, WINDOW)]
        charges = [budget(5, 10, TOTAL, c), budget(7, 10, TOTAL, a), bucket(11, 10, 60.0, b)]
        for number in (1, 2):
            counts, balances, is_local = await ask_all(store, hits, charges)
            assert [count.hits for count in counts] == [number, number]
            assert [one.is_granted for one in balances] == [True, number == 1, False]
            assert not is_local
        settled = [Settlement(charges[0], balances[0].place, 1), Settlement(charges[1], 0, 2)]
        store.settle(settled, None)
        assert await used(store, charges[0]) == (6, False)
        assert await used(store, charges[1]) == (9, False)
        assert await store.release(c)
        assert await used(store, charges[0]) == (0, False)


# Away and back


async def test_a_server_that_dies_takes_its_reservations_with_it_and_costs_nobody_a_cent(
    one, connect
):
    store = await connect(one.url, probe_every=0.02)
    asked = budget(60, 100, TOTAL)
    [there], is_local = await charge(store, asked)
    assert (there.is_granted, is_local) == (True, False)
    one.kill()
    [here], is_local = await charge(store, asked)
    assert (here.is_granted, is_local) == (True, True)  # this instance alone: fail open
    settle(store, asked, there, 25, None)  # what the server held ends with it: 25 are spent here
    assert await used(store, asked) == (85, True)
    settle(store, asked, here, 30, None, is_local=True)
    assert await used(store, asked) == (55, True)
    one.start()
    await eventually(lambda: not store.is_degraded)
    assert await used(store, asked) == (0, False)


@pytest.mark.parametrize("kind", [budget, bucket], ids=["a budget", "a bucket"])
async def test_what_was_granted_while_the_server_was_away_takes_no_reservation_from_others(
    one, connect, kind
):
    store = await connect(one.url, probe_every=0.02)
    asked = kind(60, 100, 1e9)
    one.kill()
    [here], is_local = await charge(store, asked)
    assert is_local
    one.start()
    await eventually(lambda: not store.is_degraded)
    [there], is_local = await charge(store, asked)
    assert not is_local
    assert here.place in (there.place, there.place - 60)  # in the same place, or nearly
    settle(store, asked, here, 25, None, is_local=True)
    assert await used(store, asked) == (85, False)
    settle(store, asked, there, 30, None)
    assert await used(store, asked) == (55, False)


async def test_a_call_of_which_one_server_is_away_is_charged_here_and_settled_there(connect):
    with cluster() as three:
        store = await connect(three.url, probe_every=0.02)
        dead = three.servers[2]
        hers, others = (keys_of(server, three, 1)[0] for server in (dead, three.servers[1]))
        charges = [budget(5, 10, TOTAL, hers), budget(5, 10, TOTAL, others)]
        dead.kill()
        balances, is_local = await charge(store, *charges)
        assert ([one.used for one in balances], is_local) == ([5, 5], True)
        settled = [
            Settlement(one, balance.place, 3, is_local=True)
            for one, balance in zip(charges, balances, strict=True)
        ]
        store.settle(settled[1:], None)
        # The reservation that the server made is nobody's, and ends by itself.
        assert await used(store, charges[1]) == (5 + 3, False)


async def test_an_operator_resets_a_budget_for_all_instances(one, connect):
    first, second = [await connect(one.url) for _ in range(2)]
    [balance], _ = await charge(first, budget(100))
    assert balance.is_granted
    assert await second.release(budget(0).key)
    assert one.client().exists(record_key(budget(0).key)) == 0
    [balance], _ = await charge(first, budget(100))
    assert balance.is_granted


HISTORY = Window(3_600.0)
"""As long as most that is counted is remembered."""


async def test_counts_that_fill_a_server_have_no_budget_forgotten(one, connect):
    """The period of the budget ends long before what is counted would be forgotten."""
    client = one.client()
    client.config_set("maxmemory-policy", "volatile-ttl")
    store = await connect(one.url)
    asked = budget(100, 100, 300.0, b"\0\0purse")
    [balance], _ = await charge(store, asked)
    settle(store, asked, balance, 100, None)
    client.config_set("maxmemory", client.info("memory")["used_memory"] + 600_000)
    for number in range(0, 20_000, 100):
        some = [Hit(b"%b-%d" % (b"\1\2", number + place), HISTORY) for place in range(100)]
        _, _, is_local = await ask_all(store, some, [])
        assert not is_local
    assert client.info("stats")["evicted_keys"] > 5_000
    assert await used(store, asked) == (100, False)


async def test_made_up_accounts_that_fill_a_server_have_no_used_up_one_forgotten(one, connect):
    client = one.client()
    client.config_set("maxmemory-policy", "volatile-ttl")
    store = await connect(one.url)
    purses = [budget(100, 100, 86_400.0, b"\0\0purse %d" % number) for number in range(50)]
    for asked in purses:
        [balance], _ = await charge(store, asked)
        settle(store, asked, balance, 100, None)
    client.config_set("maxmemory", client.info("memory")["used_memory"] + 600_000)
    for number in range(0, 10_000, 100):
        keys = [b"%b-%d" % (b"\1\2", number + place) for place in range(100)]
        some = [budget(1, 100, 86_400.0, key) for key in keys]
        balances, is_local = await charge(store, *some)
        assert not is_local
        for asked, balance in zip(some, balances, strict=True):
            settle(store, asked, balance, 1, None)
    assert client.info("stats")["evicted_keys"] > 3_000
    assert {await used(store, asked) for asked in purses} == {(100, False)}
