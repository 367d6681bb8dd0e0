"""Where the network cuts the bytes makes no difference."""

import asyncio
import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.wire.fake_client import Scripted, feed, serving

GET = b"GET /first HTTP/1.1\r\nHost: x\r\n\r\n"
SIZED = b"POST /sized HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\nX-A: b \r\n\r\nhello\r\n\r\n"
CHUNKED = (
    b"POST /chunked HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
    b"5;ext\r\nhel\r\n\r\nC\r\n0\r\n\r\nGET / H\r\n0\r\nT: r\r\n\r\n"
)
UPGRADE = b"GET /up HTTP/1.1\r\nHost: x\r\nConnection: upgrade\r\nUpgrade: h2c\r\n\r\n"
PIPELINE = b"\r\n" + GET + SIZED + b"\r\n" + CHUNKED + UPGRADE + SIZED
TARGETS = [b"/first", b"/sized", b"/chunked", b"/up", b"/sized"]
BODIES = [b"", b"hello\r\n\r\n", b"hel\r\n0\r\n\r\nGET / H", b"", b"hello\r\n\r\n"]


def outcome(pieces):
    handler = Scripted()
    transport, server, _ = feed(pieces, handler)
    return handler.requests, transport.sent, transport.eof, server.buffered_bytes


WHOLE = outcome([PIPELINE])


def test_the_pipeline_holds_what_it_should():
    requests, sent, ended, buffered = WHOLE
    assert [request.target for request in requests] == TARGETS
    assert [request.body for request in requests] == BODIES
    assert sent.count(b"HTTP/1.1 200 OK") == len(TARGETS)
    assert (ended, buffered) == (False, 0)


@pytest.mark.parametrize("size", [1, 2, 3, 7, 64])
def test_a_pipeline_in_pieces_of_one_size(size):
    pieces = [PIPELINE[at : at + size] for at in range(0, len(PIPELINE), size)]
    assert outcome(pieces) == WHOLE


def test_a_pipeline_cut_once_at_every_byte():
    for at in range(1, len(PIPELINE)):
        assert outcome([PIPELINE[:at], PIPELINE[at:]]) == WHOLE, f"cut at {at}"


@given(cuts=st.lists(st.integers(1, len(PIPELINE) - 1), unique=True).map(sorted))
def test_a_pipeline_cut_anywhere(cuts):
    edges = [0, *cuts, len(PIPELINE)]
    pieces = [PIPELINE[a:b] for a, b in itertools.pairwise(edges)]
    assert outcome(pieces) == WHOLE


@given(body=st.binary(max_size=300), sizes=st.lists(st.integers(1, 40)), cut=st.integers(1, 60))
def test_a_chunked_body_arrives_byte_for_byte(body, sizes, cut):
    raw = bytearray(b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
    at = 0
    for size in [*sizes, len(body) + 1]:
        chunk = body[at : at + size]
        if chunk:
            raw += b"%X\r\n%b\r\n" % (len(chunk), chunk)
        at += size
    raw += b"0\r\n\r\n" + GET
    pieces = [bytes(raw[n : n + cut]) for n in range(0, len(raw), cut)]
    requests, _, _, _ = outcome(pieces)
    assert [request.body for request in requests] == [body, b""]


async def test_a_pipeline_byte_by_byte_over_a_socket():
    handler = Scripted()
    async with serving(handler) as (_, connect):
        client = await connect()
        for byte in PIPELINE:
            client.writer.write(bytes([byte]))
            await asyncio.sleep(0)
        assert [(await client.answer()).body for _ in TARGETS] == BODIES
    assert handler.requests == WHOLE[0]


async def test_a_pipeline_in_pieces_whose_answers_come_late():
    handler = Scripted(answer=None)
    async with serving(handler) as (_, connect):
        client = await connect()
        for at in range(0, len(PIPELINE), 11):
            client.writer.write(PIPELINE[at : at + 11])
            await asyncio.sleep(0)
        for body in BODIES:
            exchange = await handler.next_exchange()
            exchange.answer(200, [], exchange.body)
            assert (await client.answer()).body == body
    assert handler.requests == WHOLE[0]
