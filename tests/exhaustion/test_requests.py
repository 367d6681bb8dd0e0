"""Requests that ask too much: each is answered, nothing of it is kept, and others are served."""

import asyncio
import gc
import time

import pytest
from bench import attempts
from tests.gateway.serving import JSON, chat, until

from looptrap.engine import counters

LIMIT = """
max_fingerprints = 1_000
[gateway]
max_body = "8MB"
"""

SLOWEST = 5.0
"""Seconds that others may wait, on a machine that does much else."""


async def held_up(here, asking):
    """Return the answer to a request, and how long an honest one took that came with it."""
    asked = asyncio.ensure_future(asking)
    await asyncio.sleep(0)
    began = time.monotonic()
    honest = await here.ask(headers=JSON, body=chat(f"What about {began}?"))
    waited = time.monotonic() - began
    assert honest.status == 200
    return await asked, waited


async def raw(here, data):
    client = await here.connect()
    client.writer.write(data)
    return await client.answer(b"POST")


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        pytest.param(attempts.many_tools, 200, id="10,000 tools"),
        pytest.param(attempts.many_messages, 200, id="100,000 messages"),
        pytest.param(attempts.many_keys, 200, id="200,000 keys"),
        pytest.param(attempts.deep, 200, id="100,000 levels"),
        pytest.param(attempts.huge_numbers, 200, id="numbers of a million digits"),
        pytest.param(attempts.too_large, 413, id="50 MB, announced"),
        pytest.param(lambda _: attempts.too_large(1), 413, id="50 MB, in a chunk"),
        pytest.param(attempts.many_headers, 431, id="10,000 headers"),
        pytest.param(lambda _: attempts.bomb(30_000_000), 200, id="30 MB in 30 KB"),
        pytest.param(attempts.long_named, 429, id="a loop of long names"),
    ],
)
async def test_is_answered_and_others_are_served(serve, make, expected):
    here = await serve(LIMIT)
    answer, waited = await held_up(here, raw(here, make(0)))
    assert answer.status == expected
    assert waited < SLOWEST
    await until(lambda: not here.app.server.buffered_bytes)


async def test_more_fingerprints_than_have_room_push_out_the_oldest_and_loops_are_still_seen(serve):
    here = await serve(LIMIT)
    client = await here.connect()
    for number in range(1_500):
        await client.send(attempts._prompt(number))
        assert (await client.answer(b"POST")).status == 200
    assert len(here.app.store) <= 1_000
    assert here.app.store.evicted >= 500
    statuses = [(await here.ask(headers=JSON, body=chat("Again?"))).status for _ in range(6)]
    assert statuses == [200] * 5 + [429]


async def test_names_without_end_leave_the_metrics_bounded(serve):
    here = await serve(LIMIT)
    for number in range(700):
        client = await here.connect()
        await client.send(attempts.named(number))
        assert (await client.answer(b"POST")).status == 200
        client.close()
    counted = here.app.gateway.runtime.engine.tally
    assert len(counted.used) <= counters.MAX_MODELS + 1
    assert len(counted.caller_costs) <= counters.MAX_CALLERS + 1
    assert len(counted.requests) < 10


async def test_nothing_is_left_of_clients_that_went_away(serve):
    here = await serve("[gateway]\nkeepalive_timeout = 1\n")
    await here.ask(headers=JSON, body=chat("Warm?"))
    gc.collect()
    before = len(asyncio.all_tasks())
    for number in range(60):
        client = await here.connect()
        await client.send(attempts._prompt(number)[: 60 + 5 * number])
        client.writer.transport.abort()
    await until(lambda: here.app.server.connections == 0)
    await until(lambda: all(pool.in_flight == 0 for pool in here.app.pools))
    assert here.app.server.buffered_bytes == 0
    await until(lambda: len(asyncio.all_tasks()) <= before + 1)


async def test_what_large_heads_say_is_not_remembered(serve):
    here = await serve()
    for number in range(20):
        large = {**JSON, "X-Large": "x" * 20_000 + str(number)}
        assert (await here.ask(headers=large, body=chat(f"Question {number}?"))).status == 200
    envelopes = here.app.gateway.runtime.contexts
    assert len(envelopes._cached) == 0
    await here.ask(headers=JSON, body=chat("A small one?"))
    assert len(envelopes._cached) == 1
