"""Encoded bodies: opened for judging where that is possible and safe, else left as they are."""

import gzip
import tracemalloc
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from looptrap.gateway.encoding import decoded

PLAIN = b'{"model": "gpt-5.3"}'
ROOM = 1 << 20


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
        pytest.param(b"gzip", gzip.compress(PLAIN)[:-4], None, id="cut off"),
        pytest.param(b"gzip", gzip.compress(PLAIN) + gzip.compress(b"!"), None, id="two members"),
        pytest.param(b"gzip", gzip.compress(PLAIN) + b"rest", None, id="something behind its end"),
        pytest.param(b"gzip", b"", b"", id="empty"),
    ],
)
def test_decoding(encoding, body, expected):
    assert decoded(body, encoding, ROOM) == (body if expected is None else expected)


def test_a_bomb_is_never_opened_beyond_the_limit():
    bomb = gzip.compress(bytes(100 << 20))
    tracemalloc.start()
    try:
        assert decoded(bomb, b"gzip", ROOM) is bomb
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 4 * ROOM


@given(st.binary(max_size=4096), st.sampled_from([b"gzip", b"deflate"]))
def test_what_was_encoded_comes_back(plain, encoding):
    packed = gzip.compress(plain) if encoding == b"gzip" else zlib.compress(plain)
    assert decoded(packed, encoding, ROOM) == plain


@given(st.binary(max_size=200), st.sampled_from([b"gzip", b"deflate", b"br", b"x-gzip"]))
def test_whatever_arrives_nothing_is_raised(body, encoding):
    assert isinstance(decoded(body, encoding, ROOM), bytes)
