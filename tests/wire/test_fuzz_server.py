"""Whatever arrives: no exception, one answer a request, the same for every way of cutting it.

httptools (llhttp, strict) serves as a second opinion on every head that is accepted here.
"""

import itertools
import re

import httptools
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.examples import examples
from tests.wire.fake_client import Scripted, feed

from looptrap.wire.limits import ServerLimits

LIMITS = ServerLimits(max_head=600, max_headers=8, max_target=60, max_body=200)
SEEDS = [
    b"GET /a?b=c HTTP/1.1\r\nHost: x\r\nAccept: */*\r\n\r\n",
    b"POST /p HTTP/1.1\r\nHost: x:80\r\nContent-Length: 11\r\n\r\nhello world",
    b"POST /c HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
    b"5\r\nhello\r\n0\r\nT: v\r\n\r\n",
    b"HEAD / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
    b"POST / HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\nok",
    b"GET http://x/ HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
]
SPICE = [
    b"\r\n", b"\n", b"\r", b"\0", b" ", b"\t", b":", b"0", b"5", b"-", b"\xff", b"\x7f", b";", b",",
    b"Content-Length: 5\r\n", b"Transfer-Encoding: chunked\r\n", b"Host: y\r\n", b"\r\n\r\n",
    b"chunked", b"HTTP/1.1", b"HTTP/1.0", b"HTTP/2.0", b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
    b"a" * 70, b"A: b\r\n" * 9, b"0\r\n\r\n", b"5\r\nhello\r\n", b"ffffffff\r\n",
]  # fmt: skip
ANSWER = re.compile(rb"HTTP/1\.1 (\d{3}) [^\r\n]*\r\n(?:[^\r\n]+\r\n)*\r\n")


@st.composite
def mutated(draw):
    """A few good requests in a row, with a few things spliced in, cut out or written over."""
    raw = b"".join(draw(st.lists(st.sampled_from(SEEDS), min_size=1, max_size=4)))
    for _ in range(draw(st.integers(0, 4))):
        at = draw(st.integers(0, len(raw)))
        gone = draw(st.integers(0, 6))
        spice = draw(st.one_of(st.sampled_from(SPICE), st.binary(max_size=3)))
        raw = raw[:at] + spice + raw[at + gone :]
    return raw


def run(pieces):
    """Feed `pieces`; return what the handler saw and the statuses sent."""
    handler = Scripted()
    transport, server, connection = feed(pieces, handler, LIMITS)
    statuses = [int(status) for status in ANSWER.findall(transport.sent)]
    final = [status for status in statuses if status != 100]
    refused = server.bad_requests + (501 in final) + (505 in final)
    assert server.handler_errors == 0
    assert final.count(200) == len(handler.requests)
    assert len(final) == len(handler.requests) + refused
    assert refused <= 1
    assert 500 not in final
    connection.connection_lost(None)
    assert server.buffered_bytes == 0
    assert server.connections == 0
    return handler.requests, final


def cut(raw, cuts):
    edges = sorted({0, len(raw), *(at % (len(raw) + 1) for at in cuts)})
    return [raw[a:b] for a, b in itertools.pairwise(edges)]


@settings(max_examples=examples(500))
@given(raw=st.one_of(mutated(), st.binary(max_size=200)), cuts=st.lists(st.integers(0, 3000)))
@example(raw=b"\r\n\r\n\r", cuts=[1, 2])
@example(raw=b"GET / HTTP/1.5\r\nhello\r\n\n1\r\nHost: x\r\n\r\n", cuts=[])
@example(raw=SEEDS[0] + b"\n" + SEEDS[0], cuts=[len(SEEDS[0]) + 1])
def test_cuts_never_change_the_outcome(raw, cuts):
    assert run(cut(raw, cuts)) == run([raw]) == run([bytes([byte]) for byte in raw])


class SecondOpinion:
    def __init__(self):
        self.target = b""
        self.headers = []

    def on_url(self, target):
        self.target += target

    def on_header(self, name, value):
        self.headers.append((name.lower(), value.rstrip(b" \t")))


@settings(max_examples=examples(500))
@given(raw=mutated())
def test_a_head_that_is_accepted_means_the_same_to_llhttp(raw):
    handler = Scripted(answer=None)
    feed([raw], handler, LIMITS)
    if not handler.requests:
        return
    [request] = handler.requests
    opinion = SecondOpinion()
    parser = httptools.HttpRequestParser(opinion)
    try:
        parser.feed_data(raw.lstrip(b"\r\n").partition(b"\r\n\r\n")[0] + b"\r\n\r\n")
    except httptools.HttpParserUpgrade:
        pass
    except httptools.HttpParserInvalidMethodError:
        return  # llhttp knows a list of methods; here every method in capitals will do
    assert parser.get_method() == request.method
    assert opinion.target.endswith(request.target)
    told = [field for field in opinion.headers if field[0] != b"content-length"]
    assert told == list(request.headers)
