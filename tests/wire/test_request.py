"""Heads that are remembered: the same object for the same head, and no way around the checks."""

import pytest

from looptrap.wire.limits import ServerLimits
from looptrap.wire.request import CHUNKED, HeadReader, RequestRefused

LINES = b"POST /v1 HTTP/1.1\r\nHost: x\r\nX-A: 1"


@pytest.fixture
def heads():
    return HeadReader(ServerLimits(max_headers=4))


def test_heads_that_differ_in_length_only_are_the_same_object(heads):
    first, length = heads.read(LINES + b"\r\nContent-Length: 5")
    second, other = heads.read(LINES + b"\r\nContent-Length: 70")
    assert (length, other) == (5, 70)
    assert first is second
    assert first.headers == [(b"host", b"x"), (b"x-a", b"1")]


@pytest.mark.parametrize("spelling", [b"Content-Length", b"content-length", b"CONTENT-LENGTH"])
@pytest.mark.parametrize("times", [1, 2], ids=["new", "known"])
def test_the_length_is_read_however_it_is_spelt(heads, spelling, times):
    for _ in range(times):
        assert heads.read(LINES + b"\r\n%b: 5" % spelling)[1] == 5
    assert heads.read(LINES)[1] == 0


@pytest.mark.parametrize(
    "more",
    [
        pytest.param(b"\r\nContent-Length: 5\r\nContent-Length: 6", id="two lengths"),
        pytest.param(b"\r\nContent-Length: 5\r\nCONTENT-LENGTH: 6", id="in two spellings"),
        pytest.param(b"\r\nCONTENT-LENGTH: 6\r\nContent-Length: 5", id="the other way round"),
        pytest.param(b"\r\nContent-Length: 5\r\nTransfer-Encoding: chunked", id="with a coding"),
        pytest.param(b"\r\nTransfer-Encoding: chunked\r\nContent-Length: 5", id="coding first"),
        pytest.param(b"\r\nContent-Length: +5", id="a sign"),
        pytest.param(b"\r\nContent-Length: 5, 5", id="a list"),
        pytest.param(b"\r\nContent-Length: 5\r\nX-B: 2\r\nX-C: 3", id="too many headers"),
    ],
)
def test_what_is_known_opens_no_way_around_the_checks(heads, more):
    for known in (b"", b"\r\nContent-Length: 5", b"\r\nCONTENT-LENGTH: 6",
                  b"\r\nTransfer-Encoding: chunked"):  # fmt: skip
        heads.read(LINES + known)
    with pytest.raises(RequestRefused):
        heads.read(LINES + more)


def test_a_chunked_head_stays_chunked_when_it_is_known(heads):
    chunked = LINES + b"\r\nTransfer-Encoding: chunked"
    assert [heads.read(chunked)[1] for _ in range(2)] == [CHUNKED, CHUNKED]
