"""Clients that are slow, silent or do not read: they are let go of, and others are served."""

import asyncio
import socket

import pytest
from bench import attempts
from tests.gateway.serving import JSON, chat, request, until
from tests.wire.fake_client import PATIENCE

from looptrap.testing import Reply

SHORT = """
[gateway]
head_timeout = 1
body_timeout = 1
write_timeout = 1
"""
MANY = 200


async def served(here, number=20):
    """Say whether honest questions are answered."""
    answers = [await here.ask(headers=JSON, body=chat(f"Question {n}?")) for n in range(number)]
    return all(answer.status == 200 for answer in answers)


@pytest.mark.parametrize(
    ("attempt", "expected"),
    [
        pytest.param(attempts.held(attempts._HEAD, b"X", 0.2), "408", id="heads, byte by byte"),
        pytest.param(attempts.held(attempts._HEAD, b"", 5), "408", id="half a head"),
        pytest.param(attempts.held(attempts._SIZED, b"", 5), "408", id="half a body"),
    ],
)
async def test_many_slow_requests_end_by_a_time_out(serve, attempt, expected):
    here = await serve(SHORT)
    holding = asyncio.ensure_future(attempt(here.port, MANY, PATIENCE))
    await until(lambda: here.app.server.connections >= MANY)
    assert await served(here)
    assert await holding == {expected: MANY}
    await until(lambda: not here.app.server.buffered_bytes)


async def test_a_body_byte_by_byte_holds_no_more_than_its_connection(serve):
    here = await serve(SHORT)
    trickle = attempts.held(attempts._SIZED, b" ", 0.3)
    holding = asyncio.ensure_future(trickle(here.port, MANY, 2.0))
    await until(lambda: here.app.server.connections >= MANY)
    assert await served(here)
    assert here.app.server.buffered_bytes < 100 * MANY
    assert await holding == {"held": MANY}
    await until(lambda: not here.app.server.buffered_bytes)


async def test_an_answer_that_nobody_reads_is_held_back_at_its_source_and_cut(serve):
    events = [{"choices": [{"index": 0, "delta": {"content": "x" * 50_000}}]}] * 400
    here = await serve(SHORT, script=[Reply.sse(*events)])
    sock = socket.create_connection((here.host, here.port))
    with sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        sock.sendall(request(headers=JSON, body=chat("Go on.", stream=True)))
        await until(lambda: here.provider.requests)
        (connection,) = here.app.server._open
        await until(lambda: connection._writing_paused)
        # 20 MB are on their way, of which only what is under way may be here.
        assert connection.transport.get_write_buffer_size() < 2_000_000
        await until(lambda: not here.app.server.connections)
    await until(lambda: all(pool.in_flight == 0 for pool in here.app.pools))
