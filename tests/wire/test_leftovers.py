"""However a connection ends, nothing of it stays in memory; without the help of the collector."""

import asyncio
import gc
import ssl
from collections import Counter

import pytest
from tests.wire.fake_client import Scripted, serving
from tests.wire.fake_client import until as holds
from tests.wire.fake_upstream import OK, PATIENCE, Answer, Authority, Peer, answering, get, upstream
from tests.wire.test_proxy import Connecting, pools_through

from looptrap.wire.exchange import Exchange, UpstreamError, UpstreamExchange
from looptrap.wire.limits import UpstreamLimits
from looptrap.wire.origin import Origin
from looptrap.wire.pool import Pools
from looptrap.wire.server_connection import ServerConnection
from looptrap.wire.upstream_connection import UpstreamConnection

KINDS = (
    Answer,
    UpstreamConnection,
    Exchange,
    UpstreamExchange,
    ServerConnection,
    UpstreamError,
)
TIMES = 3
API = Origin.of("https://api.test")[0]


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority.make(tmp_path_factory.mktemp("authority"))


def alive():
    return Counter(type(one).__name__ for one in gc.get_objects() if isinstance(one, KINDS))


@pytest.fixture
def before():
    """Have nothing freed but what Python frees by counting references; return what is there."""
    gc.collect()
    gc.disable()
    yield alive()
    gc.enable()
    gc.collect()


async def gone():
    """Let the loop close what was ended."""
    for _ in range(20):
        await asyncio.sleep(0.001)


# To a provider


async def silent(peer: Peer) -> None:
    await peer.gone()


async def refusing(peer: Peer) -> None:
    await peer.request()
    await peer.send(b"HTTP/1.1 407 Who\r\nContent-Length: 0\r\n\r\n")


async def hanging_up(peer: Peer) -> None:
    await peer.request()


async def completed(pools, origin):
    await get(pools.pool(origin), method=b"POST", body=b"x" * 100_000).complete()


async def failed(pools, origin):
    await get(pools.pool(origin)).failed()


async def cancelled(pools, origin):
    flight = pools.pool(origin).send(b"GET", b"/", b"", b"", Answer())
    for _ in range(30):
        await asyncio.sleep(0.001)
    flight.cancel()


@pytest.mark.parametrize(
    ("play", "name", "act"),
    [
        pytest.param(answering(OK), "localhost", completed, id="answered"),
        pytest.param(answering(OK), "other.test", failed, id="another certificate"),
        pytest.param(silent, "localhost", cancelled, id="cancelled"),
    ],
)
@pytest.mark.parametrize("is_tunnelled", [False, True], ids=["direct", "through a proxy"])
async def test_nothing_of_a_flight_over_tls_is_left(
    authority, before, play, name, act, is_tunnelled
):
    async with (
        upstream(play, tls=authority.server(name)) as fake,
        upstream(Connecting(fake)) as proxy,
    ):
        for _ in range(TIMES):
            if is_tunnelled:
                pools = pools_through(proxy, ca_file=authority.file)
            else:
                pools = Pools(UpstreamLimits(), environ={}, ca_file=authority.file)
            await act(pools, fake.origin("https", "localhost"))
            await asyncio.wait_for(pools.close(), PATIENCE)
        del pools
        await gone()
        assert alive() - before == {}


@pytest.mark.parametrize(
    ("play", "act"),
    [
        pytest.param(refusing, failed, id="it refuses"),
        pytest.param(hanging_up, failed, id="it hangs up"),
        pytest.param(silent, cancelled, id="it is silent"),
    ],
)
async def test_nothing_is_left_of_a_proxy_that_does_not_connect(authority, before, play, act):
    async with upstream(play) as proxy:
        for _ in range(TIMES):
            pools = pools_through(proxy, ca_file=authority.file)
            await act(pools, API)
            await asyncio.wait_for(pools.close(), PATIENCE)
        del pools
        await gone()
        assert alive() - before == {}


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"], ids=["one address", "perhaps several"])
async def test_nothing_is_left_of_a_connection_that_cannot_be_made(before, host):
    pools = Pools(UpstreamLimits(), environ={})
    for _ in range(TIMES):
        await failed(pools, Origin("http", host, 9))
    await gone()
    assert alive() - before == {}
    await pools.close()


# From clients

BODY = b"x" * 100_000
POST = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(BODY)


async def asks(client):
    await client.send(POST + BODY)
    assert (await client.answer()).status == 200


async def leaves_mid_body(client):
    await client.send(POST + BODY[:50_000])


async def is_malformed(client):
    await client.send(b"GET / HTTP/1.1\r\nBad\r\n\r\n")
    assert (await client.answer()).status == 400


@pytest.mark.parametrize("act", [asks, leaves_mid_body, is_malformed], ids=lambda act: act.__name__)
@pytest.mark.parametrize("is_secure", [False, True], ids=["plain", "over TLS"])
async def test_nothing_of_a_clients_connection_is_left(authority, before, act, is_secure):
    class Handler(Scripted):
        def on_head(self, exchange):
            exchange.state = exchange

        def on_request(self, exchange):
            exchange.answer(200, [], b"ok")

        def on_disconnect(self, exchange):
            pass

    tls = authority.server("127.0.0.1") if is_secure else None
    trusted = ssl.create_default_context(cafile=authority.file) if is_secure else None
    async with serving(Handler(), ssl=tls) as (server, connect):
        for _ in range(TIMES):
            client = await connect(ssl=trusted) if is_secure else await connect()
            await act(client)
            client.close()
        await holds(lambda: not server._open)
        await gone()
        assert alive() - before == {}
