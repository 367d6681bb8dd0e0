"""Through a forward proxy, a real little one: tunnels, absolute targets, refusals."""

import asyncio

import pytest
from tests.wire.fake_upstream import (
    OK,
    PATIENCE,
    Answer,
    Authority,
    Clock,
    FakeUpstream,
    Peer,
    answering,
    get,
    upstream,
)

from looptrap.wire.limits import UpstreamLimits
from looptrap.wire.origin import Origin
from looptrap.wire.pool import Pools


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority.make(tmp_path_factory.mktemp("authority"))


class Connecting:
    """A CONNECT proxy that leads every name to one fake upstream."""

    def __init__(self, fake: FakeUpstream) -> None:
        self.fake = fake
        self.requests: list[bytes] = []

    async def __call__(self, peer: Peer) -> None:
        self.requests.append(await peer.request())
        reader, writer = await asyncio.open_connection("127.0.0.1", self.fake.port)
        await peer.send(b"HTTP/1.1 200 Connection established\r\n\r\n")
        await asyncio.gather(pump(peer.reader, writer), pump(reader, peer.writer))


async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(65_536):
            writer.write(data)
            await writer.drain()
    except ConnectionError:
        pass
    finally:
        writer.close()


def pools_through(proxy: FakeUpstream, userinfo: str = "", **settings) -> Pools:
    url = f"http://{userinfo}127.0.0.1:{proxy.port}"
    environ = {"HTTPS_PROXY": url, "HTTP_PROXY": url}
    return Pools(UpstreamLimits(), environ=environ, **settings)


async def test_an_https_origin_is_reached_through_a_tunnel(authority):
    async with upstream(answering(OK, OK), tls=authority.server("api.test")) as fake:
        connecting = Connecting(fake)
        async with upstream(connecting) as proxy:
            pools = pools_through(proxy, "us%40er:p%3Aw@", ca_file=authority.file)
            pool = pools.pool(Origin.of("https://api.test")[0])
            for _ in range(2):
                assert (await get(pool).complete()).body == b"hi"
            assert connecting.requests == [
                b"CONNECT api.test:443 HTTP/1.1\r\nHost: api.test:443\r\n"
                b"Proxy-Authorization: Basic dXNAZXI6cDp3\r\n\r\n"
            ]
            assert fake.names == ["api.test"]
            assert (pool.opened, pool.reused) == (1, 1)
            await pools.close()


async def test_the_tunnel_does_not_lend_the_origin_its_trust(authority):
    async with (
        upstream(answering(OK), tls=authority.server("other.test")) as fake,
        upstream(Connecting(fake)) as proxy,
    ):
        pools = pools_through(proxy, ca_file=authority.file)
        error = await get(pools.pool(Origin.of("https://api.test")[0])).failed()
        assert error.kind == "tls"
        assert str(error).startswith(
            f"api.test:443 through proxy 127.0.0.1:{proxy.port}: certificate not accepted"
        )
        await pools.close()


async def test_an_http_origin_is_asked_for_by_its_absolute_address():
    requests = []

    async def play(peer: Peer) -> None:
        requests.append(await peer.request())
        await peer.send(OK)
        await peer.gone()

    async with upstream(play) as proxy:
        pools = pools_through(proxy, "u:p@")
        await get(pools.pool(Origin.of("http://plain.test:8080")[0]), b"/v1?x=y").complete()
        assert requests == [
            b"GET http://plain.test:8080/v1?x=y HTTP/1.1\r\nHost: plain.test:8080\r\n"
            b"Proxy-Authorization: Basic dTpw\r\n\r\n"
        ]
        await pools.close()


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        pytest.param(
            b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 4\r\n\r\nwho?",
            "the proxy answered 407 Proxy Authentication Required",
            id="407",
        ),
        pytest.param(b"HTTP/1.1 502 \r\n\r\n", "the proxy answered 502", id="502, no reason"),
        pytest.param(b"hello\r\n", "the proxy answered with bad HTTP", id="not HTTP"),
        pytest.param(b"HTTP/1.1 200", "the proxy closed the connection", id="hangs up"),
        pytest.param(b"HTTP/1.1 200 OK\r\n\r\nboo", "bytes of its own", id="speaks in the tunnel"),
        pytest.param(
            b"HTTP/1.1 200 OK\r\n" + b"A: " + b"b" * 70_000, "a head of more than", id="long head"
        ),
    ],
)
async def test_a_proxy_that_does_not_connect_is_a_connect_error(authority, reply, reason):
    async def play(peer: Peer) -> None:
        await peer.request()
        await peer.send(reply)

    async with upstream(play) as proxy:
        pools = pools_through(proxy, ca_file=authority.file)
        pool = pools.pool(Origin.of("https://api.test")[0])
        error = await get(pool).failed()
        assert (error.kind, error.started) == ("connect", False)
        assert f"api.test:443 through proxy 127.0.0.1:{proxy.port}: " in str(error)
        assert reason in str(error)
        await asyncio.wait_for(pools.close(), PATIENCE)


async def test_an_interim_answer_of_the_proxy_is_skipped(authority):
    async with upstream(answering(OK), tls=authority.server("api.test")) as fake:
        connecting = Connecting(fake)

        async def play(peer: Peer) -> None:
            await peer.send(b"HTTP/1.1 100 Continue\r\n\r\n")
            await connecting(peer)

        async with upstream(play) as proxy:
            pools = pools_through(proxy, ca_file=authority.file)
            await get(pools.pool(Origin.of("https://api.test")[0])).complete()
            await pools.close()


async def test_a_silent_proxy_is_a_connect_time_out(authority):
    async def silent(peer: Peer) -> None:
        await peer.request()
        await peer.gone()

    clock = Clock()
    async with upstream(silent) as proxy:
        pools = pools_through(proxy, ca_file=authority.file, clock=clock)
        answer = get(pools.pool(Origin.of("https://api.test")[0]))
        await proxy.until(lambda: proxy.open)
        clock.now += 11
        pools.sweep()
        assert (await answer.failed()).kind == "connect_timeout"
        await pools.close()


@pytest.mark.parametrize("turns", range(0, 60, 4))
async def test_cancelled_at_any_turn_of_tunnelling_nothing_is_left(authority, turns):
    async def silent(peer: Peer) -> None:
        await peer.gone()

    async with (
        upstream(silent, tls=authority.server("api.test")) as fake,
        upstream(Connecting(fake)) as proxy,
    ):
        pools = pools_through(proxy, ca_file=authority.file)
        pool = pools.pool(Origin.of("https://api.test")[0])
        answer = Answer()
        flight = pool.send(b"GET", b"/", b"", b"", answer)
        for _ in range(turns):
            await asyncio.sleep(0)
        flight.cancel()
        await asyncio.wait_for(pools.close(), PATIENCE)
        assert (answer.calls, pool.in_flight) == ([], 0)
