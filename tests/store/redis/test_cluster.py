"""A cluster of three servers: slots that move, servers that die."""

import asyncio

import pytest
from tests.store.driving import WINDOW, ask, eventually, hit
from tests.store.serving import KINDS, cluster, free_port

from looptrap.store.model import Hit, Trip
from looptrap.store.redis.request import key_slot, record_key


@pytest.fixture(scope="module", params=KINDS)
def running(request):
    with cluster(request.param) as one:
        yield one


@pytest.fixture
def three(running):
    """Return a cluster that a test leaves as it found it, but for its counts."""
    yield running
    running.empty()


@pytest.fixture(params=KINDS)
def moving(request):
    """Return a cluster for one test.

    Where a slot was moved before, old claims to it may still be on their way.
    """
    with cluster(request.param) as one:
        yield one


def keys_of(server, three, number):
    """Return keys of one place that a server has."""
    places = (place.to_bytes(2, "big") for place in range(65_535, 0, -1))
    place = next(place for place in places if three.owner(key_slot(place)) is server)
    return [place + b"%d" % each for each in range(number)]


def is_known(server, to):
    """Say whether another server knows that this one has slots."""
    ranges = to.client().execute_command("CLUSTER", "SLOTS")
    return any(primary[1] == server.port for _, _, primary, *_ in ranges)


async def test_every_server_counts_its_share(three, connect):
    store = await connect(three.url)
    keys = [place.to_bytes(2, "big") + b"key" for place in range(0, 65_536, 512)]
    for count in (1, 2):
        assert await asyncio.gather(*(hit(store, key) for key in keys)) == [(count, False)] * 128
    sizes = [one.client().dbsize() for one in three.servers]
    assert all(sizes)
    assert sum(sizes) - 128 <= 3  # and what was written to see whether a server can
    assert store.errors == 0


async def test_hits_of_several_slots_are_answered_together_and_in_order(three, connect):
    store = await connect(three.url)
    one, other = keys_of(three.servers[0], three, 1) + keys_of(three.servers[2], three, 1)
    assert await hit(store, one) == (1, False)
    counts, is_local = await ask(store, [Hit(other, WINDOW), Hit(one, WINDOW)])
    assert ([count.hits for count in counts], is_local) == ([1, 2], False)
    store.trip([Trip(one, 30, 5), Trip(other, 30, 6)], None)
    counts, _ = await ask(store, [Hit(other, WINDOW), Hit(one, WINDOW)])
    assert [count.hits for count in counts] == [7, 6]
    assert await store.release(one)
    assert await hit(store, one) == (1, False)


async def test_calls_of_several_payers_share_a_command_to_each_server(three, connect):
    store = await connect(three.url)
    keys = [place.to_bytes(2, "big") + b"key" for place in range(0, 65_536, 1024)]
    assert len({key_slot(key) for key in keys}) > 60
    for count in (1, 2):
        assert await asyncio.gather(*(hit(store, key) for key in keys)) == [(count, False)] * 64
        assert store.batches == 3 * count


async def test_no_hits_no_counts(three, connect):
    store = await connect(three.url)
    assert await ask(store, []) == ([], False)


@pytest.mark.parametrize("beside", ["nothing", "before", "after"])
async def test_nothing_is_missed_while_a_slot_moves(moving, connect, beside):
    source, target = moving.servers[0], moving.servers[1]
    store = await connect(moving.url)
    keys = keys_of(source, moving, 12)
    slot = key_slot(keys[0])
    hits = [Hit(key, WINDOW) for key in keys]
    # One that stays where it is, in the same command.
    stays = next(
        place.to_bytes(2, "big")
        for place in range(65_536)
        if moving.owner(key_slot(place.to_bytes(2, "big"))) is source
    )
    assert key_slot(stays) != slot
    if beside != "nothing":
        hits.insert(0 if beside == "before" else 12, Hit(stays, WINDOW))
    there, here = source.client(), target.client()
    ids = [one.execute_command("CLUSTER", "MYID") for one in (there, here)]

    async def counts():
        found, is_local = await ask(store, hits)
        assert not is_local
        return [count.hits for count in found]

    assert await counts() == [1] * len(hits)
    here.execute_command("CLUSTER", "SETSLOT", slot, "IMPORTING", ids[0])
    there.execute_command("CLUSTER", "SETSLOT", slot, "MIGRATING", ids[1])
    assert await counts() == [2] * len(hits)
    for key in keys[:6]:
        there.migrate("127.0.0.1", target.port, record_key(key), 0, 5_000)
    assert await counts() == [3] * len(hits)
    new = [await hit(store, keys[0] + b" new")]
    for key in keys[6:]:
        there.migrate("127.0.0.1", target.port, record_key(key), 0, 5_000)
    assert await counts() == [4] * len(hits)
    for one in (here, there, moving.servers[2].client()):
        one.execute_command("CLUSTER", "SETSLOT", slot, "NODE", ids[1])
    assert await counts() == [5] * len(hits)
    new.append(await hit(store, keys[0] + b" new"))
    assert new == [(1, False), (2, False)]
    assert store.errors == 0


async def test_a_dead_server_costs_its_own_slots_and_comes_back(three, connect):
    store = await connect(three.url, timeout=0.05, probe_every=0.05)
    dead = three.servers[2]
    (hers,), (others,) = keys_of(dead, three, 1), keys_of(three.servers[1], three, 1)
    dead.kill()
    try:
        assert await hit(store, hers) == (1, True)
        assert await hit(store, hers) == (2, True)
        assert store.is_degraded
        assert await hit(store, others) == (1, False)
    finally:
        dead.start()
    await eventually(lambda: not store.is_degraded)
    assert await hit(store, hers) == (1, False)


async def test_a_replica_takes_over_with_all_counts(connect):
    with cluster() as three:
        primary = three.servers[2]
        replica = three.add_replica(primary)
        store = await connect(three.url)
        [key] = keys_of(primary, three, 1)
        assert await hit(store, key) == (1, False)
        replica.client().execute_command("CLUSTER", "FAILOVER")
        await eventually(lambda: replica.client().role()[0] == b"master")
        assert await hit(store, key) == (2, False)
        await eventually(lambda: all(is_known(replica, to=one) for one in three.servers))
        assert await hit(store, key) == (3, False)
        primary.kill()
        assert await hit(store, key) == (4, False)


async def test_any_of_several_seeds_will_do(three, connect):
    seeds = [free_port(), three.servers[1].port]
    url = "redis+cluster://" + ",".join(f"127.0.0.1:{port}" for port in seeds)
    store = await connect(url)
    assert not store.is_degraded
    assert await hit(store, b"\0\0k") == (1, False)


async def test_starts_without_a_cluster(three, connect):
    store = await connect(f"redis+cluster://127.0.0.1:{free_port()}")
    assert store.is_degraded
    assert await hit(store, b"\0\0k") == (1, True)


async def test_instances_share_settings_and_hear_of_changes(three, connect):
    one, other = [await connect(three.url) for _ in range(2)]
    assert await one.configuration.secret() == await other.configuration.secret()
    changed = asyncio.Event()
    other.configuration.on_change(changed.set)
    await one.configuration.set("threshold", b"7")
    async with asyncio.timeout(20):
        await changed.wait()
    assert await other.configuration.get("threshold") == b"7"
