"""What instances tell each other: heard once by each, in order, also by who comes later."""

import asyncio

import pytest

from looptrap.store.redis.shared_configuration import READ_BATCH_ENTRIES, SharedStream

KEY = b"lt:test:log"


@pytest.fixture(autouse=True)
def _empty(valkey):
    yield
    valkey.client().flushall()


@pytest.fixture
async def configurations(valkey, connect):
    return [(await connect(valkey.url)).configuration for _ in range(2)]


@pytest.fixture
def streams(configurations):
    return [SharedStream(one, KEY, max_entries=1_000, seconds=60) for one in configurations]


async def heard(stream):
    return [value async for value in stream.pull()]


async def test_everyone_hears_everything_once_and_in_order(streams):
    one, other = streams
    await one.push(b"a")
    await other.push(b"b")
    assert await heard(one) == await heard(other) == [b"a", b"b"]
    assert await heard(one) == []
    await other.push(b"c")
    assert await heard(one) == [b"c"]


async def test_who_comes_later_hears_what_there_was(streams, configurations):
    await streams[0].push(b"a")
    assert await heard(SharedStream(configurations[1], KEY, max_entries=10, seconds=60)) == [b"a"]


async def test_more_than_is_read_at_a_time_is_heard_in_one_go(streams):
    one, other = streams
    for n in range(READ_BATCH_ENTRIES + 5):
        await one.push(b"%d" % n)
    assert await heard(other) == [b"%d" % n for n in range(READ_BATCH_ENTRIES + 5)]


async def test_it_ends_by_itself(streams, configurations):
    await streams[0].push(b"a")
    assert 0 < await configurations[0].command(b"TTL", KEY) <= 60


async def test_what_somebody_else_wrote_is_empty(streams, configurations):
    await configurations[0].command(b"XADD", KEY, b"*", b"name", b"")
    assert await heard(streams[0]) == [b""]


async def test_of_all_who_want_a_key_one_comes_first(configurations):
    asked = [
        configuration.set_if_absent(b"lt:test:first", str(n), 60)
        for n, configuration in enumerate(configurations * 3)
    ]
    assert len(set(await asyncio.gather(*asked))) == 1
    assert 0 < await configurations[0].command(b"TTL", b"lt:test:first") <= 60
