"""Deadlines, by a clock of the test's own."""

import asyncio

from tests.wire.fake_upstream import (
    OK,
    PATIENCE,
    Answer,
    Clock,
    Peer,
    answering,
    full_listener,
    get,
    pool_of,
    upstream,
)

from looptrap.wire.limits import UpstreamLimits
from looptrap.wire.pool import Pool


class Silence:
    """A play that reads a request, says so, and never answers."""

    def __init__(self) -> None:
        self.heard = asyncio.Event()

    async def __call__(self, peer: Peer) -> None:
        await peer.request()
        self.heard.set()
        await peer.gone()


async def test_no_byte_of_an_answer_is_a_first_byte_time_out():
    clock, silent = Clock(), Silence()
    async with upstream(silent) as fake, pool_of(fake, clock, first_byte_timeout=600) as pool:
        answer = get(pool)
        await asyncio.wait_for(silent.heard.wait(), PATIENCE)
        clock.now += 599
        pool.sweep()
        assert answer.calls == []
        clock.now += 2
        pool.sweep()
        error = await answer.failed()
        assert (error.kind, error.started) == ("first_byte_timeout", False)
        assert str(error) == f"127.0.0.1:{fake.port}: no byte of an answer within 600 s"


async def test_a_head_that_never_ends_is_a_first_byte_time_out():
    clock = Clock()
    sent = asyncio.Event()

    async def play(peer: Peer) -> None:
        await peer.request()
        await peer.send(b"HTTP/1.1 200 OK\r\nX-Slow")
        sent.set()
        await peer.gone()

    async with upstream(play) as fake, pool_of(fake, clock, first_byte_timeout=60) as pool:
        answer = get(pool)
        await asyncio.wait_for(sent.wait(), PATIENCE)
        clock.now += 61
        pool.sweep()
        error = await answer.failed()
        assert error.kind == "first_byte_timeout"
        assert str(error).endswith("no complete head of an answer within 60 s")


async def test_a_body_that_stops_is_an_idle_time_out_counted_from_its_last_byte():
    clock = Clock()
    go_on = asyncio.Event()

    async def play(peer: Peer) -> None:
        await peer.request()
        await peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc")
        await go_on.wait()
        await peer.send(b"def")
        await peer.gone()

    async with upstream(play) as fake, pool_of(fake, clock, idle_timeout=300) as pool:
        answer = get(pool)
        await answer.until(lambda: answer.body == b"abc")
        clock.now += 299
        pool.sweep()
        go_on.set()
        await answer.until(lambda: answer.body == b"abcdef")
        clock.now += 299
        pool.sweep()
        assert not answer.is_over
        clock.now += 2
        pool.sweep()
        error = await answer.failed()
        assert (error.kind, error.started) == ("idle_timeout", True)
        assert str(error).endswith("nothing more of an answer for 300 s")


async def test_a_connection_unused_for_the_keepalive_is_closed():
    clock = Clock()
    async with upstream(answering(OK), answering(OK)) as fake, pool_of(fake, clock) as pool:
        await get(pool).complete()
        clock.now += 54
        pool.sweep()
        assert fake.open == 1
        clock.now += 2
        pool.sweep()
        await fake.until(lambda: fake.open == 0)
        await get(pool).complete()
        assert (pool.opened, pool.reused) == (2, 0)


async def test_a_place_in_the_queue_is_given_up_after_the_connect_time_out():
    clock, silent = Clock(), Silence()
    async with (
        upstream(silent) as fake,
        pool_of(fake, clock, max_connections=1, connect_timeout=10) as pool,
    ):
        flight = pool.send(b"GET", b"/", b"", b"", Answer())
        queued = get(pool)
        await asyncio.wait_for(silent.heard.wait(), PATIENCE)
        clock.now += 11
        pool.sweep()
        error = await queued.failed()
        assert error.kind == "busy"
        assert str(error).endswith("all connections busy for 10 s")
        flight.cancel()


async def test_a_connection_that_cannot_be_made_in_time_is_a_connect_time_out():
    clock = Clock()
    with full_listener() as origin:
        pool = Pool(origin, UpstreamLimits(connect_timeout=10), clock=clock)
        answer = get(pool)
        await asyncio.sleep(0)
        clock.now += 9
        pool.sweep()
        assert answer.calls == []
        clock.now += 2
        pool.sweep()
        error = await answer.failed()
        assert (error.kind, error.started) == ("connect_timeout", False)
        assert str(error) == f"{origin}: no connection within 10 s"
        assert pool.in_flight == 0
        await pool.close()
