"""Slow bodies: unpacked where that is possible and safe, and read in their callers' turn."""

import asyncio
import gzip
import tracemalloc
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from looptrap.gateway.slow_body import (
    FREE_WORK_S,
    MAX_GZIP_MEMBERS,
    MAX_INLINE_BYTES,
    MAX_INLINE_PACKED_BYTES,
    MAX_WAITING_REQUESTS,
    REST_RATIO,
    Pacer,
    TooLargeError,
    Unpacker,
    decode_body,
)

PLAIN = b'{"model": "gpt-5.3"}'
ROOM = 1 << 20


def raw_deflate(plain):
    packer = zlib.compressobj(wbits=-15)
    return packer.compress(plain) + packer.flush()


@pytest.mark.parametrize(
    ("encoding", "body", "expected"),
    [
        pytest.param(b"gzip", gzip.compress(PLAIN), PLAIN, id="gzip"),
        pytest.param(b"x-gzip", gzip.compress(PLAIN), PLAIN, id="its old name"),
        pytest.param(b"deflate", zlib.compress(PLAIN), PLAIN, id="deflate"),
        pytest.param(b"br", b"whatever", b"whatever", id="an encoding not known here"),
        pytest.param(b"", PLAIN, PLAIN, id="none"),
        pytest.param(b"identity", PLAIN, PLAIN, id="identity"),
        pytest.param(b"gzip", PLAIN, PLAIN, id="not what it says"),
        pytest.param(b"deflate", raw_deflate(PLAIN), PLAIN, id="deflate without its header"),
        pytest.param(b"GZIP , identity", gzip.compress(PLAIN), PLAIN, id="gzip and identity"),
        pytest.param(b"gzip", gzip.compress(PLAIN)[:-4], PLAIN, id="cut off"),
        pytest.param(b"gzip", gzip.compress(PLAIN) + gzip.compress(b"!"), PLAIN + b"!", id="two"),
        pytest.param(b"gzip", gzip.compress(PLAIN) + b"rest", PLAIN, id="more behind its end"),
        pytest.param(b"gzip, gzip", gzip.compress(PLAIN), None, id="stacked"),
        pytest.param(b"gzip", b"", b"", id="empty"),
    ],
)
def test_decoding(encoding, body, expected):
    assert decode_body(body, encoding, ROOM) == (body if expected is None else expected)


@pytest.mark.parametrize("encoding", [b"gzip", b"deflate"])
def test_a_bomb_is_never_opened_beyond_the_limit(encoding):
    plain = bytes(100 << 20)
    bomb = gzip.compress(plain) if encoding == b"gzip" else zlib.compress(plain)
    tracemalloc.start()
    try:
        with pytest.raises(TooLargeError):
            decode_body(bomb, encoding, ROOM)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 4 * ROOM


def test_a_bomb_in_several_members_is_never_opened_beyond_the_limit():
    with pytest.raises(TooLargeError):
        decode_body(gzip.compress(bytes(ROOM // 3)) * 4, b"gzip", ROOM)


def test_exactly_as_much_as_there_may_be_is_unpacked():
    assert len(decode_body(gzip.compress(bytes(ROOM)), b"gzip", ROOM)) == ROOM


def test_members_beyond_the_most_are_left_alone():
    many = gzip.compress(b"a") * (MAX_GZIP_MEMBERS + 10)
    assert decode_body(many, b"gzip", ROOM) == b"a" * MAX_GZIP_MEMBERS


def test_what_unpacks_to_much_is_not_unpacked_on_the_loop():
    unpacker = Unpacker()
    assert unpacker.unpack_now(gzip.compress(bytes(MAX_INLINE_BYTES)), b"gzip") == bytes(
        MAX_INLINE_BYTES
    )
    assert unpacker.unpack_now(gzip.compress(bytes(MAX_INLINE_BYTES + 1)), b"gzip") is None
    assert unpacker.unpack_now(bytes(MAX_INLINE_PACKED_BYTES + 1), b"gzip") is None


def test_unpacked_bodies_take_room_until_they_are_gone():
    unpacker = Unpacker()
    first = unpacker.hold(bytes(600), 1_000)
    assert (unpacker.held, unpacker.hold(bytes(600), 1_000)) == (600, None)
    del first
    assert unpacker.held == 0


@given(st.binary(max_size=4096), st.sampled_from([b"gzip", b"deflate"]))
def test_what_was_encoded_comes_back(plain, encoding):
    packed = gzip.compress(plain) if encoding == b"gzip" else zlib.compress(plain)
    assert decode_body(packed, encoding, ROOM) == plain


@given(st.binary(max_size=200), st.sampled_from([b"gzip", b"deflate", b"br", b"x-gzip"]))
def test_whatever_arrives_nothing_is_raised(body, encoding):
    assert isinstance(decode_body(body, encoding, ROOM), bytes)


@given(st.binary(max_size=4096))
def test_deflate_comes_back_without_its_header_too(plain):
    assert decode_body(raw_deflate(plain), b"deflate", ROOM) == plain


class Clock:
    """A clock that goes on as work is done, or as somebody waits."""

    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def done():
    return []


@pytest.fixture
def pacer(clock):
    return Pacer(clock)


@pytest.fixture
def work(clock, done):
    """Return some work that takes a second of the clock's time."""

    def make(name, seconds=1.0):
        def do():
            clock.now += seconds
            done.append(name)

        return do

    return make


async def test_the_first_is_done_at_once_and_the_next_after_a_rest(pacer, clock, work, done):
    pacer.submit("a", work("first"))
    pacer.submit("a", work("second"))
    assert done == ["first"]
    clock.now += REST_RATIO
    pacer.submit("a", work("third"))
    assert done == ["first"]  # nobody overtakes what waits
    pacer.finish()
    assert done == ["first", "second", "third"]


async def test_callers_take_turns(pacer, work, done):
    pacer.submit("a", work("begin"))
    for number in range(3):
        pacer.submit("a", work(f"a{number}"))
    pacer.submit("b", work("b0"))
    pacer.finish()
    assert done == ["begin", "a0", "b0", "a1", "a2"]


async def test_what_takes_as_long_as_any_request_never_waits(pacer, work, done):
    for number in range(5):
        pacer.submit("a", work(number, seconds=FREE_WORK_S / 2))
    assert done == [0, 1, 2, 3, 4]


async def test_what_waits_is_done_when_its_time_has_come(pacer, work):
    over = asyncio.get_running_loop().create_future()
    pacer.submit("a", work("first", seconds=2 * FREE_WORK_S))
    pacer.submit("a", lambda: over.set_result(None))
    assert not over.done()
    await asyncio.wait_for(over, 5)


async def test_no_more_than_so_many_wait(pacer, work):
    pacer.submit("a", work("first"))
    for number in range(MAX_WAITING_REQUESTS):
        assert not pacer.is_full
        pacer.submit(str(number), work(number))
    assert pacer.is_full
    pacer.finish()
    assert not pacer.is_full
