"""One origin's connections: what is sent on them, when they are used again, and stale ones."""

import asyncio

import pytest
from tests.wire.fake_upstream import OK, Answer, Peer, answering, get, pool_of, upstream

from looptrap.wire.limits import UpstreamLimits
from looptrap.wire.origin import Origin
from looptrap.wire.pool import Pool


@pytest.mark.parametrize(
    ("method", "body", "expected"),
    [
        pytest.param(b"GET", b"", b"", id="GET"),
        pytest.param(b"DELETE", b"", b"", id="DELETE"),
        pytest.param(b"DELETE", b"x", b"Content-Length: 1\r\n", id="DELETE with a body"),
        pytest.param(b"POST", b"", b"Content-Length: 0\r\n", id="empty POST"),
        pytest.param(b"PUT", b"", b"Content-Length: 0\r\n", id="empty PUT"),
        pytest.param(b"PATCH", b"abc", b"Content-Length: 3\r\n", id="PATCH"),
        pytest.param(b"POST", b"x" * 65_536, b"Content-Length: 65536\r\n", id="one write"),
        pytest.param(b"POST", b"x" * 65_537, b"Content-Length: 65537\r\n", id="two buffers"),
    ],
)
async def test_frames_the_request_itself(method, body, expected):
    requests = []

    async def play(peer: Peer) -> None:
        requests.append(await peer.request())
        await peer.send(OK)
        await peer.gone()

    async with upstream(play) as fake, pool_of(fake) as pool:
        answer = Answer()
        pool.send(method, b"/v1/x?y=z", b"accept: */*\r\nX-A: 1\r\n", body, answer)
        await answer.complete()
        line = method + b" /v1/x?y=z HTTP/1.1\r\n"
        host = b"Host: 127.0.0.1:%d\r\n" % fake.port
        assert requests == [line + host + expected + b"accept: */*\r\nX-A: 1\r\n\r\n" + body]


async def test_a_large_body_arrives_whole_and_the_connection_stays():
    body = bytes(range(256)) * 40_000
    received = []

    async def play(peer: Peer) -> None:
        for _ in range(2):
            received.append((await peer.request()).partition(b"\r\n\r\n")[2])
            await peer.send(OK)
        await peer.gone()

    async with upstream(play) as fake, pool_of(fake) as pool:
        for _ in range(2):
            await get(pool, method=b"POST", body=body).complete()
        assert received == [body, body]
        assert pool.reused == 1


async def test_a_pooled_request_is_written_within_send():
    async with upstream(answering(OK, OK)) as fake, pool_of(fake) as pool:
        await get(pool).complete()
        tasks = asyncio.all_tasks()
        answer = get(pool)
        assert asyncio.all_tasks() == tasks
        assert answer.calls == []
        await answer.complete()


async def test_uses_the_connection_last_used_first():
    order = []

    def play(name: str):
        async def serve(peer: Peer) -> None:
            while True:
                request = await peer.request()
                order.append((name, request.split()[1]))
                await peer.send(OK)

        return serve

    async with upstream(play("first"), play("second")) as fake, pool_of(fake) as pool:
        first, second = get(pool, b"/1"), get(pool, b"/2")
        await first.complete()
        await second.complete()
        last = order[-1][0]
        for _ in range(3):
            await get(pool, b"/again").complete()
        assert order[2:] == [(last, b"/again")] * 3
        assert (pool.opened, pool.reused) == (2, 3)


@pytest.mark.parametrize("most", [1, 2], ids=["no room beside it", "room for another"])
async def test_a_fresh_one_is_sent_over_no_connection_that_was_used(most):
    async with upstream(answering(OK, OK)) as fake, pool_of(fake, max_connections=most) as pool:
        await get(pool).complete()
        answer = Answer()
        pool.send(b"GET", b"/", b"", b"", answer, fresh=True)
        await answer.complete()
        assert (pool.opened, pool.reused) == (2, 0)


async def test_an_end_may_send_the_next_request_on_the_same_connection():
    class Chain(Answer):
        def on_end(self) -> None:
            super().on_end()
            self.next = get(self.pool)

    async with upstream(answering(OK, OK)) as fake, pool_of(fake) as pool:
        answer = Chain()
        answer.pool = pool
        pool.send(b"GET", b"/", b"", b"", answer)
        await answer.complete()
        await answer.next.complete()
        assert (pool.opened, pool.reused) == (1, 1)


# Stale connections


@pytest.mark.parametrize("end", ["close", "reset"])
async def test_a_stale_connection_is_retried_once_on_a_fresh_one(end):
    bodies = []

    async def stale(peer: Peer) -> None:
        await peer.request()
        await peer.send(OK)
        bodies.append(await peer.request())
        if end == "reset":
            peer.reset()

    async def fresh(peer: Peer) -> None:
        bodies.append(await peer.request())
        await peer.send(OK)
        await peer.gone()

    async with upstream(stale, fresh) as fake, pool_of(fake) as pool:
        await get(pool).complete()
        answer = await get(pool, method=b"POST", body=b"once more").complete()
        assert answer.calls == ["head", "data", "end"]
        assert len(bodies) == 2
        assert bodies[0] == bodies[1]
        assert (pool.retried_stale, pool.opened) == (1, 2)


async def test_the_retry_of_a_stale_connection_is_not_retried_again():
    async def stale(peer: Peer) -> None:
        await peer.request()
        await peer.send(OK)
        await peer.request()

    async def dead(peer: Peer) -> None:
        await peer.request()

    async with upstream(stale, dead) as fake, pool_of(fake) as pool:
        await get(pool).complete()
        error = await get(pool).failed()
        assert (error.kind, error.started) == ("reset", False)
        assert (fake.connections, pool.retried_stale) == (2, 1)


@pytest.mark.parametrize("heard", [b"H", b"HTTP/1.1 100 Continue\r\n\r\n"])
async def test_nothing_is_retried_once_a_byte_of_an_answer_was_seen(heard):
    async def play(peer: Peer) -> None:
        await peer.request()
        await peer.send(OK)
        await peer.request()
        await peer.send(heard)

    async with upstream(play) as fake, pool_of(fake) as pool:
        await get(pool).complete()
        assert (await get(pool).failed()).kind == "reset"
        assert (fake.connections, pool.retried_stale) == (1, 0)


async def test_a_connection_closed_while_idle_is_not_used():
    async def once(peer: Peer) -> None:
        await peer.request()
        await peer.send(OK)

    async with upstream(once) as fake, pool_of(fake) as pool:
        for _ in range(3):
            await get(pool).complete()
            await fake.until(lambda: fake.open == 0)
            await asyncio.sleep(0)
        assert (pool.opened, pool.reused) == (3, pool.retried_stale)


async def test_an_upstream_that_hangs_up_on_connecting_is_a_reset():
    async def rude(peer: Peer) -> None:
        peer.reset()

    async with upstream(rude) as fake, pool_of(fake) as pool:
        error = await get(pool).failed()
        assert error.kind in ("reset", "connect")
        assert str(error).startswith(f"127.0.0.1:{fake.port}: ")


async def test_an_upstream_that_speaks_first_is_not_believed():
    async def early(peer: Peer) -> None:
        await peer.send(OK)
        await peer.gone()

    async with upstream(early) as fake, pool_of(fake) as pool:
        answer = get(pool)
        await answer.until(lambda: answer.is_over)
        assert pool.reused == 0


async def test_an_answer_before_the_body_is_sent_is_delivered_and_the_connection_closed():
    refusal = b"HTTP/1.1 413 Too Large\r\nContent-Length: 2\r\n\r\nno"

    async def play(peer: Peer) -> None:
        await peer.reader.readuntil(b"\r\n\r\n")
        peer.writer.transport.pause_reading()
        await peer.send(refusal)
        await left.wait()

    left = asyncio.Event()
    async with upstream(play, answering(OK)) as fake, pool_of(fake) as pool:
        answer = await get(pool, method=b"POST", body=b"x" * 50_000_000).complete()
        left.set()
        assert (answer.status, answer.body) == (413, b"no")
        await get(pool).complete()
        assert (fake.connections, pool.reused) == (2, 0)


async def test_nobody_listening_is_a_connect_error():
    async with upstream(answering(OK)) as fake:
        origin = fake.origin()
    pool = Pool(origin, UpstreamLimits())
    error = await get(pool).failed()
    assert error.kind == "connect"
    assert str(error) == f"{origin}: cannot connect: Connection refused"
    assert pool.in_flight == 0


async def test_an_unknown_host_is_a_connect_error():
    pool = Pool(Origin.of("http://no-such-host.invalid")[0], UpstreamLimits())
    error = await get(pool).failed()
    assert error.kind == "connect"
    assert str(error).startswith("no-such-host.invalid:80: no address found: ")
