"""Sentinels: the primary is found by its name, and found again after a failover."""

import time

import pytest
from tests.store.driving import eventually, hit
from tests.store.sentinels import NAME, PASSWORD, SENTINEL_PASSWORD, sentinel_group
from tests.store.serving import KINDS, free_port

from looptrap.store.redis.address import parse_store_url
from looptrap.store.redis.topology import Sentinels, servers_of


@pytest.fixture(params=KINDS)
def group(request):
    with sentinel_group(request.param) as one:
        yield one


@pytest.mark.slow
async def test_the_primary_is_found_and_again_after_a_failover(group, connect):
    store = await connect(group.url)
    assert await hit(store, b"\0\0k") == (1, False)
    primary, replica = group.servers
    assert store.configuration._server.address.port == primary.port
    group.fail_over()
    await eventually(lambda: store.configuration._server.address.port == replica.port)
    await eventually(lambda: not store.is_degraded)
    assert await hit(store, b"\0\0k") == (2, False), "the replica had what was counted"


@pytest.mark.slow
async def test_after_the_primary_died_the_replica_counts(group, connect):
    store = await connect(group.url, timeout=0.25)
    assert await hit(store, b"\0\0k") == (1, False)
    group.sentinels[0].kill()  # two of three are enough
    group.servers[0].kill()
    began = time.monotonic()
    assert await hit(store, b"\0\0k") == (1, True), "meanwhile each counts alone"
    await eventually(lambda: not store.is_degraded)
    assert await hit(store, b"\0\0k") == (2, False)
    assert time.monotonic() - began > 0.4, "sentinels wait for half a second"


async def test_who_is_asked_and_what_is_said_if_nobody_knows(group):
    first = f"127.0.0.1:{free_port()}"  # nobody is there
    url = group.url.replace("@", f"@{first},")
    sentinels = Sentinels(parse_store_url(url))
    place = await sentinels.locate()
    assert (place.port, place.password) == (group.servers[0].port, PASSWORD)
    assert sentinels._sentinels[0].port == group.sentinels[0].port, "it is asked first from now on"
    assert await servers_of(parse_store_url(url)) == (place,)
    for wrong, message in (
        (url.replace(f"/{NAME}", "/others"), "it watches no primary of that name"),
        (url.replace(SENTINEL_PASSWORD, "wrong"), "it refuses the user name or password"),
    ):
        with pytest.raises(OSError, match=message) as raised:
            await servers_of(parse_store_url(wrong))
        assert "password=" not in str(raised.value)
        assert f"redis://{first}: cannot connect" in str(raised.value)
