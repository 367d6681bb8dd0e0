"""TLS to the upstream: who is believed, what is asked for, and how answers end."""

import asyncio
from pathlib import Path

import pytest
from tests.wire.fake_upstream import (
    OK,
    PATIENCE,
    Answer,
    Authority,
    Clock,
    Peer,
    answering,
    get,
    upstream,
)

from looptrap.wire.exchange import UpstreamExchange
from looptrap.wire.limits import UpstreamLimits
from looptrap.wire.pool import Pools


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority.make(tmp_path_factory.mktemp("authority"))


def pools_trusting(ca_file: Path | None, **settings) -> Pools:
    return Pools(UpstreamLimits(), environ={}, ca_file=ca_file, **settings)


@pytest.mark.parametrize(
    ("host", "asked"),
    [
        pytest.param("localhost", "localhost", id="by name"),
        pytest.param("127.0.0.1", None, id="by address"),
    ],
)
async def test_talks_to_a_host_whose_certificate_is_of_a_trusted_authority(authority, host, asked):
    async with upstream(answering(OK, OK), tls=authority.server(host)) as fake:
        pools = pools_trusting(authority.file)
        pool = pools.pool(fake.origin("https", host))
        for _ in range(2):
            assert (await get(pool).complete()).body == b"hi"
        assert fake.names == [asked]
        assert (pool.opened, pool.reused) == (1, 1)
        await pools.close()


@pytest.mark.parametrize(
    ("certified", "trusted", "reason"),
    [
        pytest.param("localhost", False, "unable to get local issuer certificate", id="unknown"),
        pytest.param("elsewhere.test", True, "Hostname mismatch", id="another name"),
    ],
)
async def test_does_not_talk_to(authority, certified, trusted, reason):
    async with upstream(answering(OK), tls=authority.server(certified)) as fake:
        pools = pools_trusting(authority.file if trusted else None)
        pool = pools.pool(fake.origin("https", "localhost"))
        error = await get(pool).failed()
        assert (error.kind, error.started) == ("tls", False)
        assert f"localhost:{fake.port}: certificate not accepted: " in str(error)
        assert reason in str(error)
        assert pool.in_flight == 0
        await pools.close()


async def test_an_upstream_without_tls_is_a_tls_error(authority):
    async def plain(peer: Peer) -> None:
        await peer.reader.read(1)
        await peer.send(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    async with upstream(plain) as fake:
        pools = pools_trusting(authority.file)
        error = await get(pools.pool(fake.origin("https", "localhost"))).failed()
        assert error.kind == "tls"
        assert str(error).startswith(f"localhost:{fake.port}: TLS failed: ")
        await pools.close()


async def test_a_handshake_cut_off_is_a_connect_error(authority):
    async def rude(peer: Peer) -> None:
        await peer.reader.read(1)

    async with upstream(rude) as fake:
        pools = pools_trusting(authority.file)
        error = await get(pools.pool(fake.origin("https", "localhost"))).failed()
        assert error.kind == "connect"
        await pools.close()


async def hanging(peer: Peer) -> None:
    await peer.gone()


async def test_a_handshake_that_hangs_is_a_connect_time_out(authority):
    clock = Clock()
    async with upstream(hanging) as fake:
        pools = pools_trusting(authority.file, clock=clock)
        answer = get(pools.pool(fake.origin("https", "localhost")))
        await fake.until(lambda: fake.open)
        clock.now += 11
        pools.sweep()
        assert (await answer.failed()).kind == "connect_timeout"
        await pools.close()


async def test_cancelled_in_the_handshake_nothing_is_heard_and_nothing_left(authority):
    async with upstream(hanging) as fake:
        pools = pools_trusting(authority.file)
        answer = Answer()
        pool = pools.pool(fake.origin("https", "localhost"))
        flight = pool.send(b"GET", b"/", b"", b"", answer)
        await fake.until(lambda: fake.open)
        flight.cancel()
        await fake.until(lambda: fake.open == 0)
        assert answer.calls == []
        await asyncio.wait_for(pools.close(), PATIENCE)


@pytest.mark.parametrize("turns", range(0, 40, 3))
async def test_cancelled_at_any_turn_of_connecting_nothing_is_left(authority, turns):
    async with upstream(hanging, tls=authority.server("127.0.0.1")) as fake:
        pools = pools_trusting(authority.file)
        answer = Answer()
        pool = pools.pool(fake.origin("https"))
        flight = pool.send(b"GET", b"/", b"", b"", answer)
        for _ in range(turns):
            await asyncio.sleep(0)
        flight.cancel()
        await asyncio.wait_for(pools.close(), PATIENCE)
        assert (answer.calls, pool.in_flight) == ([], 0)


@pytest.mark.parametrize(
    ("goodbye", "complete"),
    [
        pytest.param(True, True, id="with a close_notify: complete"),
        pytest.param(False, False, id="without: cut short"),
    ],
)
async def test_an_answer_that_ends_with_the_connection(authority, goodbye, complete):
    async def play(peer: Peer) -> None:
        await peer.request()
        await peer.send(b"HTTP/1.1 200 OK\r\n\r\nto the end")
        if goodbye:
            peer.writer.close()
            await peer.writer.wait_closed()

    async with upstream(play, tls=authority.server("127.0.0.1")) as fake:
        pools = pools_trusting(authority.file)
        answer = get(pools.pool(fake.origin("https")))
        await answer.until(lambda: answer.is_over)
        assert answer.body == b"to the end"
        assert (answer.error is None) == complete
        await pools.close()


async def test_a_large_body_and_a_paused_answer_pass_through_tls(authority):
    size = 8_000_000
    received = []

    async def play(peer: Peer) -> None:
        received.append(len(await peer.request()))
        await peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % size)
        await peer.send(bytes(size))
        await peer.gone()

    class Slow(Answer):
        flight: UpstreamExchange

        def on_head(self, *head) -> None:
            super().on_head(*head)
            self.flight.pause()

    async with upstream(play, tls=authority.server("127.0.0.1")) as fake:
        pools = pools_trusting(authority.file)
        answer = Slow()
        pool = pools.pool(fake.origin("https"))
        answer.flight = pool.send(b"POST", b"/", b"", bytes(size), answer)
        await answer.until(lambda: answer.calls)
        for _ in range(50):
            await asyncio.sleep(0)
        assert len(answer.body) < 1_000_000
        answer.flight.resume()
        assert len((await answer.complete()).body) == size
        assert received[0] > size
        await pools.close()
