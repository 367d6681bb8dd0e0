"""Giving up at every stage, and holding an answer back."""

import asyncio

import pytest
from tests.wire.fake_upstream import (
    OK,
    PATIENCE,
    Answer,
    Clock,
    FakeUpstream,
    Peer,
    answering,
    full_listener,
    get,
    pool_of,
    upstream,
)

from looptrap.wire.exchange import UpstreamExchange
from looptrap.wire.limits import UpstreamLimits
from looptrap.wire.pool import Pool

PART = b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc"


def send(pool: Pool, answer: Answer) -> UpstreamExchange:
    return pool.send(b"POST", b"/", b"", b"body", answer)


async def quiet(fake: FakeUpstream) -> None:
    """Wait until every connection is gone, and then for whatever would still come."""
    await fake.until(lambda: fake.open == 0)
    for _ in range(5):
        await asyncio.sleep(0)


async def test_cancelled_at_once_nothing_is_heard_and_nothing_left():
    async with upstream(answering(OK)) as fake, pool_of(fake) as pool:
        answer = Answer()
        send(pool, answer).cancel()
        assert pool.in_flight == 0
        await quiet(fake)
        assert answer.calls == []
        await get(pool).complete()


@pytest.mark.parametrize("turns", range(8))
async def test_cancelled_while_connecting_nothing_is_heard_and_nothing_left(turns):
    async with upstream(answering(OK, OK)) as fake, pool_of(fake, max_connections=1) as pool:
        answer = Answer()
        flight = send(pool, answer)
        for _ in range(turns):
            await asyncio.sleep(0)
        was_over = answer.is_over
        flight.cancel()
        calls = list(answer.calls)
        next_one = get(pool)  # has the only place now
        await next_one.complete()
        assert answer.calls == calls
        assert was_over or not answer.is_over
        await pool.close()
        await quiet(fake)


async def test_cancelled_while_connecting_it_leaves_its_place_to_the_queue():
    async with upstream(answering(OK)) as fake, pool_of(fake, max_connections=1) as pool:
        answer = Answer()
        flight = send(pool, answer)
        queued = get(pool)
        flight.cancel()
        await queued.complete()
        assert answer.calls == []


async def test_cancelled_while_a_connect_hangs():
    with full_listener() as origin:
        pool = Pool(origin, UpstreamLimits())
        answer = Answer()
        flight = send(pool, answer)
        for _ in range(5):
            await asyncio.sleep(0)
        flight.cancel()
        await asyncio.wait_for(pool.close(), PATIENCE)
        assert (answer.calls, pool.in_flight, pool.opened) == ([], 0, 0)


async def test_cancelled_in_the_queue_it_leaves_the_queue():
    seen = []

    async def play(peer: Peer) -> None:
        while True:
            seen.append((await peer.request()).split()[1])
            await peer.send(OK)

    async with upstream(play) as fake, pool_of(fake, max_connections=1, max_queued=2) as pool:
        first, dropped = get(pool, b"/first"), Answer()
        flight = pool.send(b"GET", b"/dropped", b"", b"", dropped)
        last = get(pool, b"/last")
        flight.cancel()
        also = get(pool, b"/also")  # there is room in the queue again
        for answer in (first, last, also):
            await answer.complete()
        assert seen == [b"/first", b"/last", b"/also"]
        assert dropped.calls == []


async def test_cancelled_after_sending_the_connection_is_dropped():
    heard = asyncio.Event()

    async def play(peer: Peer) -> None:
        await peer.request()
        heard.set()
        assert await peer.gone() == b""
        await peer.send(OK)

    async with upstream(play) as fake, pool_of(fake) as pool:
        answer = Answer()
        flight = send(pool, answer)
        await asyncio.wait_for(heard.wait(), PATIENCE)
        flight.cancel()
        await quiet(fake)
        assert (answer.calls, pool.in_flight) == ([], 0)


async def test_cancelled_on_a_reused_connection_nothing_is_retried():
    async def play(peer: Peer) -> None:
        await peer.request()
        await peer.send(OK)
        await peer.gone()

    async with upstream(play) as fake, pool_of(fake) as pool:
        await get(pool).complete()
        answer = Answer()
        send(pool, answer).cancel()
        await quiet(fake)
        assert (answer.calls, pool.retried_stale, fake.connections) == ([], 0, 1)


async def test_cancelled_in_mid_body_the_upstream_sees_it_at_once():
    async def play(peer: Peer) -> None:
        await peer.request()
        await peer.send(PART)
        await peer.gone()

    async with upstream(play) as fake, pool_of(fake) as pool:
        answer = Answer()
        flight = send(pool, answer)
        await answer.until(lambda: answer.body == b"abc")
        flight.cancel()
        flight.cancel()  # twice is once
        await quiet(fake)
        assert answer.calls == ["head", "data", "flush"]


@pytest.mark.parametrize("call", ["on_head", "on_data", "flush"])
async def test_cancelled_by_its_own_sink_nothing_more_is_heard(call):
    class Picky(Answer):
        flight: UpstreamExchange

        def on_head(self, *head) -> None:
            super().on_head(*head)
            self.give_up("on_head")

        def on_data(self, chunk: bytes) -> None:
            super().on_data(chunk)
            self.give_up("on_data")

        def flush(self) -> None:
            super().flush()
            self.give_up("flush")

        def give_up(self, now: str) -> None:
            if now == call:
                self.flight.cancel()

    raw = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n1\r\nb\r\n"
    async with upstream(answering([raw, b"0\r\n\r\n" + OK])) as fake, pool_of(fake) as pool:
        answer = Picky()
        answer.flight = send(pool, answer)
        await answer.until(lambda: answer.calls)
        await quiet(fake)
        heard = {"on_head": 1, "on_data": 2, "flush": 4}[call]
        assert answer.calls == ["head", "data", "data", "flush"][:heard]


async def test_a_handle_kept_after_the_end_touches_nobody_else():
    ready, go_on = asyncio.Event(), asyncio.Event()

    async def play(peer: Peer) -> None:
        await peer.request()
        await peer.send(OK)
        await peer.request()
        await peer.send(PART)
        ready.set()
        await go_on.wait()
        await peer.send(b"def", b"ghi")
        await peer.gone()

    async with upstream(play) as fake, pool_of(fake) as pool:
        first, second = Answer(), Answer()
        old = send(pool, first)
        await first.complete()
        send(pool, second)
        await asyncio.wait_for(ready.wait(), PATIENCE)
        old.pause()
        old.cancel()
        go_on.set()
        assert (await second.complete()).body == b"abcdefghi"


async def test_closing_the_pool_ends_what_is_under_way():
    async def silent(peer: Peer) -> None:
        await peer.gone()

    async with upstream(silent) as fake:
        pool = Pool(fake.origin(), UpstreamLimits(max_connections=1))
        flying, queued = get(pool), get(pool)
        await fake.until(lambda: fake.open)
        await pool.close()
        for answer in (flying, queued):
            error = await answer.failed()
            assert (error.kind, str(error)) == ("reset", f"{pool.origin}: closed on our side")
        assert pool.in_flight == 0


async def test_closing_the_pool_in_mid_body_tells_that_the_answer_had_started():
    async def play(peer: Peer) -> None:
        await peer.request()
        await peer.send(PART)
        await peer.gone()

    async with upstream(play) as fake:
        pool = Pool(fake.origin(), UpstreamLimits())
        answer = get(pool)
        await answer.until(lambda: answer.body)
        await pool.close()
        error = await answer.failed()
        assert (error.kind, error.started) == ("reset", True)


# Back-pressure


async def test_a_paused_answer_stops_the_upstream_and_has_no_deadline():
    size, clock = 30_000_000, Clock()

    async def play(peer: Peer) -> None:
        await peer.request()
        await peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % size)
        await peer.send(bytes(size))
        await peer.gone()

    class Slow(Answer):
        flight: UpstreamExchange

        def on_head(self, *head) -> None:
            super().on_head(*head)
            self.flight.pause()

    async with upstream(play) as fake, pool_of(fake, clock) as pool:
        answer = Slow()
        answer.flight = send(pool, answer)
        await answer.until(lambda: answer.calls)
        for _ in range(50):
            await asyncio.sleep(0)
        assert len(answer.body) < 1_000_000
        clock.now += 10_000
        pool.sweep()
        assert not answer.is_over
        answer.flight.resume()
        assert len((await answer.complete()).body) == size


async def test_the_deadline_returns_when_an_answer_is_resumed():
    async def play(peer: Peer) -> None:
        await peer.request()
        await peer.send(PART)
        await peer.gone()

    clock = Clock()
    async with upstream(play) as fake, pool_of(fake, clock, idle_timeout=300) as pool:
        answer = Answer()
        flight = send(pool, answer)
        await answer.until(lambda: answer.body)
        flight.pause()
        clock.now += 1000
        flight.resume()
        clock.now += 301
        pool.sweep()
        assert (await answer.failed()).kind == "idle_timeout"


async def test_paused_before_there_is_a_connection_it_stays_paused():
    async with upstream(answering(OK)) as fake, pool_of(fake) as pool:
        answer = Answer()
        flight = send(pool, answer)
        flight.pause()
        await fake.until(lambda: fake.open)
        for _ in range(50):
            await asyncio.sleep(0)
        assert answer.calls == []
        flight.resume()
        await answer.complete()


class PausesAtTheEnd(Answer):
    flight: UpstreamExchange

    def on_data(self, chunk: bytes) -> None:
        super().on_data(chunk)
        self.flight.pause()


async def test_a_connection_that_ended_its_answer_paused_reads_the_next_one():
    async with upstream(answering(OK, OK)) as fake, pool_of(fake) as pool:
        answer = PausesAtTheEnd()
        answer.flight = send(pool, answer)
        await answer.complete()
        await get(pool).complete()
        assert pool.reused == 1


async def test_resumed_after_the_end_an_idle_connection_keeps_its_own_deadline():
    clock = Clock()
    async with upstream(answering(OK)) as fake, pool_of(fake, clock, keepalive=55) as pool:
        answer = PausesAtTheEnd()
        answer.flight = send(pool, answer)
        await answer.complete()
        answer.flight.resume()
        clock.now += 56
        pool.sweep()
        await fake.until(lambda: fake.open == 0)
