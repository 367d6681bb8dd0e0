"""What instances agree on, and how soon they hear of a change."""

import asyncio

import pytest
from tests.store.driving import eventually
from tests.store.serving import server

from looptrap.store.redis.connection import StoreError


@pytest.fixture(autouse=True)
def _empty(valkey):
    yield
    valkey.client().flushall()


@pytest.fixture
async def pair(valkey, connect):
    """Return the configurations of two instances."""
    return [(await connect(valkey.url)).configuration for _ in range(2)]


async def test_instances_that_start_at_once_agree_on_a_secret(pair):
    secrets = await asyncio.gather(*(one.secret() for one in pair * 3))
    assert len(set(secrets)) == 1
    assert len(secrets[0]) == 32


async def test_a_setting_is_what_was_last_set(pair):
    one, other = pair
    assert await other.get("threshold") is None
    await one.set("threshold", b"7")
    assert await other.get("threshold") == b"7"
    await other.set("threshold", b"")
    assert await one.get("threshold") == b""
    await other.set("threshold", None)
    assert await one.get("threshold") is None


async def test_settings_and_secret_stay_until_they_are_changed(pair, valkey):
    await pair[0].secret()
    await pair[0].set("threshold", b"7")
    kept = valkey.client().keys("lt:cfg:*")
    assert len(kept) == 2
    assert [valkey.client().pttl(key) for key in kept] == [-1, -1]


async def test_changes_are_heard_of_here_and_elsewhere(pair, valkey):
    heard = [0, 0]
    for number, one in enumerate(pair):

        def then(number=number):
            heard[number] += 1

        one.on_change(then)
    await eventually(lambda: heard == [1, 1])  # watching has begun
    await eventually(lambda: valkey.client().pubsub_numsub("lt:cfg:news")[0][1] == 2)
    await pair[0].set("threshold", b"7")
    await eventually(lambda: heard == [2, 2])


async def test_a_change_whose_news_get_lost_is_seen_nevertheless(pair, valkey):
    changed = asyncio.Event()
    pair[1].on_change(changed.set)
    async with asyncio.timeout(20):
        await changed.wait()
        changed.clear()
        valkey.client().hincrby("lt:cfg:settings", "", 1)  # and nothing is published
        await changed.wait()


async def test_somebody_who_cannot_follow_a_change_does_not_stop_the_others(pair, caplog):
    heard = 0

    def fail():
        raise ValueError("not this one")

    def then():
        nonlocal heard
        heard += 1

    pair[0].on_change(fail)
    pair[0].on_change(then)
    await eventually(lambda: heard == 1)
    await pair[1].set("threshold", b"7")
    await eventually(lambda: heard == 2)
    assert "not this one" in caplog.text


async def test_watching_survives_the_store(connect):
    with server() as one:
        store = await connect(one.url, timeout=0.05)
        heard = 0

        def then():
            nonlocal heard
            heard += 1

        store.configuration.on_change(then)
        await eventually(lambda: heard == 1)
        one.kill()
        with pytest.raises(StoreError):
            await store.configuration.get("threshold")
        one.start()
        await eventually(lambda: not store.is_degraded)
        await store.configuration.set("threshold", b"7")
        await eventually(lambda: heard == 2)
