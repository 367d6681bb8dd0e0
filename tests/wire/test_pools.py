"""The set of all pools: one for each origin, swept by one timer."""

import ssl

import pytest
from tests.wire.fake_upstream import OK, Clock, answering, get, upstream

from looptrap.wire import pool as pools_module
from looptrap.wire.limits import UpstreamLimits
from looptrap.wire.origin import Origin
from looptrap.wire.pool import Pool, Pools


async def test_an_origin_has_one_pool():
    pools = Pools(UpstreamLimits(), environ={})
    one, other = Origin.of("http://a.test")[0], Origin.of("http://a.test:81")[0]
    assert pools.pool(one) is pools.pool(Origin.of("http://A.test/v1")[0])
    assert pools.pool(one) is not pools.pool(other)
    assert [pool.origin for pool in pools] == [one, other]
    await pools.close()


async def test_the_timer_sweeps_every_pool_again_and_again(monkeypatch):
    monkeypatch.setattr(pools_module, "SWEEP_INTERVAL_S", 0.001)
    clock = Clock()
    async with upstream(answering(OK)) as first, upstream(answering(OK)) as second:
        pools = Pools(UpstreamLimits(keepalive=55), environ={}, clock=clock)
        for fake in (first, second, first, second):
            await get(pools.pool(fake.origin())).complete()
            clock.now += 56
            await fake.until(lambda fake=fake: fake.open == 0)
        await pools.close()


@pytest.mark.parametrize(
    ("url", "context"),
    [
        pytest.param("https://a.test", None, id="https without a context"),
        pytest.param("http://a.test", ssl.create_default_context(), id="http with one"),
    ],
)
def test_a_pool_is_never_without_tls_by_accident(url, context):
    with pytest.raises(ValueError, match="an https origin needs an SSLContext"):
        Pool(Origin.of(url)[0], UpstreamLimits(), ssl=context)


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"connect_timeout": 0}, "connect_timeout is 0, must be more than 0 seconds"),
        ({"idle_timeout": -1}, "idle_timeout is -1, must be more than 0 seconds"),
        ({"max_connections": 0}, "max_connections is 0, must be 1 or more"),
        ({"max_queued": -1}, "max_queued is -1, must be 0 or more"),
    ],
)
def test_limits_that_limit_nothing_or_everything_are_refused(setting, message):
    with pytest.raises(ValueError, match=message):
        UpstreamLimits(**setting)
