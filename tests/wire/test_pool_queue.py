"""More requests than connections: who waits, in which order, and who is refused."""

from tests.wire.fake_upstream import OK, Answer, Peer, answering, get, pool_of, upstream

from looptrap.wire.limits import UpstreamLimits
from looptrap.wire.pool import Pool


async def test_waits_in_order_when_all_connections_are_busy():
    order = []

    async def play(peer: Peer) -> None:
        while True:
            order.append((await peer.request()).split()[1])
            await peer.send(OK)

    async with upstream(play) as fake, pool_of(fake, max_connections=1) as pool:
        answers = [get(pool, b"/%d" % n) for n in range(8)]
        assert pool.in_flight == 8
        for answer in answers:
            await answer.complete()
        assert order == [b"/%d" % n for n in range(8)]
        assert (fake.connections, pool.opened, pool.reused) == (1, 1, 7)


async def test_opens_no_more_connections_than_allowed():
    async with upstream(answering(*[OK] * 20)) as fake, pool_of(fake, max_connections=3) as pool:
        for answer in [get(pool) for _ in range(20)]:
            await answer.complete()
        assert fake.connections == 3


async def test_a_lost_connection_makes_room_for_the_next_in_the_queue():
    async def once(peer: Peer) -> None:
        await peer.request()

    async with upstream(once, answering(OK)) as fake, pool_of(fake, max_connections=1) as pool:
        lost, queued = get(pool), get(pool)
        await lost.failed()
        await queued.complete()


async def test_a_failed_connect_makes_room_for_the_next_in_the_queue():
    async with upstream(answering(OK)) as fake:
        origin = fake.origin()
    pool = Pool(origin, UpstreamLimits(max_connections=1))
    answers = [get(pool) for _ in range(3)]
    for answer in answers:
        assert (await answer.failed()).kind == "connect"


async def test_a_full_queue_refuses_but_not_from_inside_send():
    async with (
        upstream(answering(OK, OK)) as fake,
        pool_of(fake, max_connections=1, max_queued=1) as pool,
    ):
        flying, queued, refused = get(pool), get(pool), get(pool)
        assert refused.calls == []
        error = await refused.failed()
        assert error.kind == "busy"
        assert str(error).endswith("all 1 connections busy and 1 requests waiting")
        await flying.complete()
        await queued.complete()


async def test_a_refusal_cancelled_at_once_is_not_heard():
    async with upstream(answering(OK)) as fake:
        pool = Pool(fake.origin(), UpstreamLimits(max_connections=1, max_queued=0))
        flying, refused = get(pool), Answer()
        pool.send(b"GET", b"/", b"", b"", refused).cancel()
        await flying.complete()
        assert (refused.calls, pool.in_flight) == ([], 0)
        await pool.close()
