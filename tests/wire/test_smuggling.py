"""Requests on which two servers might disagree: refused with 400, nothing after them is read."""

import httptools
import pytest
from tests.wire.fake_client import Scripted, feed, serving

NEXT = b"GET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n"


def get(*lines, first=b"GET / HTTP/1.1"):
    return b"\r\n".join([first, *lines]) + b"\r\n\r\n"


def post(*lines, body=b""):
    return get(b"Host: x", *lines, first=b"POST / HTTP/1.1") + body


def chunked(body):
    return post(b"Transfer-Encoding: chunked", body=body)


LENGTH = b"Content-Length: 5"
CODING = b"Transfer-Encoding: chunked"
AMBIGUOUS = {
    "differing lengths": post(LENGTH, b"Content-Length: 6", body=b"hello!"),
    "the same length twice": post(LENGTH, LENGTH, body=b"hello"),
    "a list of lengths": post(b"Content-Length: 5, 5", body=b"hello"),
    "a signed length": post(b"Content-Length: +5", body=b"hello"),
    "a negative length": post(b"Content-Length: -5", body=b"hello"),
    "a hexadecimal length": post(b"Content-Length: 0x5", body=b"hello"),
    "a length with a gap": post(b"Content-Length: 5 5", body=b"hello"),
    "an empty length": post(b"Content-Length:", body=b"hello"),
    "a length beyond 64 bits": post(b"Content-Length: 99999999999999999999", body=b"hello"),
    "a length in other digits": post("Content-Length: ٥".encode(), body=b"hello"),
    "length, then chunked": post(LENGTH, CODING, body=b"0\r\n\r\n"),
    "chunked, then length": post(CODING, LENGTH, body=b"0\r\n\r\n"),
    "gzip, chunked": post(b"Transfer-Encoding: gzip, chunked", body=b"0\r\n\r\n"),
    "chunked, identity": post(b"Transfer-Encoding: chunked, identity", body=b"0\r\n\r\n"),
    "identity": post(b"Transfer-Encoding: identity"),
    "xchunked": post(b"Transfer-Encoding: xchunked", body=b"0\r\n\r\n"),
    "chunked twice": post(CODING, CODING, body=b"0\r\n\r\n"),
    "chunked behind a vertical tab": post(b"Transfer-Encoding: \x0bchunked", body=b"0\r\n\r\n"),
    "quoted chunked": post(b'Transfer-Encoding: "chunked"', body=b"0\r\n\r\n"),
    "an empty coding": post(b"Transfer-Encoding:", body=b"0\r\n\r\n"),
    "chunked in HTTP/1.0": get(CODING, first=b"POST / HTTP/1.0") + b"0\r\n\r\n",
    "space before the colon": get(b"Host: x", b"Content-Length : 5"),
    "tab before the colon": get(b"Host: x", b"Transfer-Encoding\t: chunked"),
    "a folded header": get(b"Host: x", b"A: b", b" Content-Length: 5"),
    "a header folded with a tab": get(b"Host: x", b"A: b", b"\tc"),
    "a space before the first header": get(b" Host: x", b"Host: x"),
    "no colon": get(b"Host: x", b"nothing"),
    "no name": get(b"Host: x", b": nothing"),
    "a control byte in a name": get(b"Host: x", b"A\x01: b"),
    "a non-ASCII byte in a name": get(b"Host: x", b"A\xe9: b"),
    "a delimiter in a name": get(b"Host: x", b"A(b): c"),
    "NUL in a value": get(b"Host: x", b"A: b\0c"),
    "a control byte in a value": get(b"Host: x", b"A: b\x1fc"),
    "DEL in a value": get(b"Host: x", b"A: b\x7fc"),
    "bare CR in a value": get(b"Host: x", b"A: b\rContent-Length: 5"),
    "bare LF in a value": get(b"Host: x", b"A: b\nContent-Length: 5"),
    "bare LF after the request line": b"GET / HTTP/1.1\nHost: x\r\n\r\n",
    "bare LF after a header": b"GET / HTTP/1.1\r\nHost: x\n\r\n",
    "bare LF throughout": b"GET / HTTP/1.1\nHost: x\n\n",
    "bare LF at the end": b"GET / HTTP/1.1\r\nHost: x\r\n\n",
    "CR CR LF": b"GET / HTTP/1.1\r\r\nHost: x\r\n\r\n",
    "bare LF first": b"\nGET / HTTP/1.1\r\nHost: x\r\n\r\n",
    "bare CR first": b"\rGET / HTTP/1.1\r\nHost: x\r\n\r\n",
    "no Host": get(),
    "two Hosts": get(b"Host: x", b"Host: x"),
    "two Hosts that differ": get(b"Host: x", b"host: y"),
    "a Host with a path": get(b"Host: x/y"),
    "a Host with a user": get(b"Host: u@x"),
    "a list of Hosts": get(b"Host: x, y"),
    "a URL for another host": get(b"Host: x", first=b"GET http://y/ HTTP/1.1"),
    "a URL with a user": get(b"Host: x", first=b"GET http://u@x/ HTTP/1.1"),
    "a URL of another scheme": get(b"Host: x", first=b"GET ftp://x/ HTTP/1.1"),
    "a fragment": get(b"Host: x", first=b"GET /a#b HTTP/1.1"),
    "a relative target": get(b"Host: x", first=b"GET a HTTP/1.1"),
    "an asterisk for GET": get(b"Host: x", first=b"GET * HTTP/1.1"),
    "no target": get(b"Host: x", first=b"GET HTTP/1.1"),
    "HTTP/0.9": b"GET /\r\n\r\n",
    "two spaces before the target": get(b"Host: x", first=b"GET  / HTTP/1.1"),
    "two spaces before the version": get(b"Host: x", first=b"GET /  HTTP/1.1"),
    "a space after the version": get(b"Host: x", first=b"GET / HTTP/1.1 "),
    "a space in the target": get(b"Host: x", first=b"GET /a b HTTP/1.1"),
    "a tab for a space": get(b"Host: x", first=b"GET\t/ HTTP/1.1"),
    "a space first": get(b"Host: x", first=b" GET / HTTP/1.1"),
    "a lower-case method": get(b"Host: x", first=b"get / HTTP/1.1"),
    "a lower-case version": get(b"Host: x", first=b"GET / http/1.1"),
    "a version with more digits": get(b"Host: x", first=b"GET / HTTP/1.10"),
    "NUL in the target": get(b"Host: x", first=b"GET /\0 HTTP/1.1"),
    "a control byte in the target": get(b"Host: x", first=b"GET /\x01 HTTP/1.1"),
    "a non-ASCII byte in the target": get(b"Host: x", first=b"GET /\xe9 HTTP/1.1"),
    "a TLS greeting": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    "chunk size: not a number": chunked(b"x\r\nhello\r\n0\r\n\r\n"),
    "chunk size: empty": chunked(b"\r\nhello\r\n0\r\n\r\n"),
    "chunk size: 0x prefix": chunked(b"0x5\r\nhello\r\n0\r\n\r\n"),
    "chunk size: signed": chunked(b"+5\r\nhello\r\n0\r\n\r\n"),
    "chunk size: negative": chunked(b"-5\r\nhello\r\n0\r\n\r\n"),
    "chunk size: underscore": chunked(b"0_5\r\nhello\r\n0\r\n\r\n"),
    "chunk size: space first": chunked(b" 5\r\nhello\r\n0\r\n\r\n"),
    "chunk size: space after": chunked(b"5 \r\nhello\r\n0\r\n\r\n"),
    "chunk size: overflow": chunked(b"10000000000000005\r\nhello\r\n0\r\n\r\n"),
    "chunk size: bare LF": chunked(b"5\nhello\r\n0\r\n\r\n"),
    "chunk extension with bare LF": chunked(b"5;a\nb\r\nhello\r\n0\r\n\r\n"),
    "chunk extension with bare CR": chunked(b"5;a\rb\r\nhello\r\n0\r\n\r\n"),
    "chunk extension without end": chunked(b"5;" + b"a" * 4096),
    "chunk shorter than its size": chunked(b"6\r\nhello\r\n0\r\n\r\n"),
    "chunk longer than its size": chunked(b"4\r\nhello\r\n0\r\n\r\n"),
    "chunk data ended by other bytes": chunked(b"5\r\nhelloXX0\r\n\r\n"),
    "chunk data ended by LF CR": chunked(b"5\r\nhello\n\r0\r\n\r\n"),
    "chunk data ended by bare LF": chunked(b"5\r\nhello\n0\r\n\r\n"),
    "last chunk with bare LF": chunked(b"5\r\nhello\r\n0\n\r\n"),
    "end with bare LF": chunked(b"5\r\nhello\r\n0\r\n\n"),
    "a trailer without colon": chunked(b"0\r\nnothing\r\n\r\n"),
    "a folded trailer": chunked(b"0\r\nA: b\r\n c\r\n\r\n"),
    "a trailer with NUL": chunked(b"0\r\nA: \0\r\n\r\n"),
}


@pytest.mark.parametrize("raw", AMBIGUOUS.values(), ids=AMBIGUOUS)
async def test_an_ambiguous_request_is_refused_and_nothing_after_it_read(raw):
    handler = Scripted()
    async with serving(handler) as (server, connect):
        client = await connect()
        await client.send(raw + NEXT)
        answer = await client.answer()
        assert answer.status == 400
        assert answer.headers[b"connection"] == b"close"
        assert b'"malformed_request"' in answer.body
        assert await client.rest() == b""
        assert server.bad_requests == 1
        assert server.buffered_bytes == 0
    assert handler.requests == []


@pytest.mark.parametrize("raw", AMBIGUOUS.values(), ids=AMBIGUOUS)
def test_it_is_refused_the_same_byte_by_byte(raw):
    handler = Scripted()
    whole, _, _ = feed([raw + NEXT], handler)
    pieces, _, _ = feed([bytes([byte]) for byte in raw + NEXT], handler)
    assert pieces.sent.startswith(b"HTTP/1.1 400 ")
    assert whole.sent.startswith(b"HTTP/1.1 400 ")
    assert handler.requests == []


@pytest.mark.parametrize("version", [b"HTTP/2.0", b"HTTP/0.9", b"HTTP/1.2", b"HTTP/3.0"])
def test_another_version_is_not_spoken(version):
    transport, _, _ = feed([get(b"Host: x", first=b"GET / " + version)], Scripted())
    assert transport.sent.startswith(b"HTTP/1.1 505 ")
    assert transport.eof


def test_a_request_hidden_in_the_body_of_an_upgrade_stays_a_body():
    """llhttp, asked alone, takes these bytes for a request of their own."""
    handler = Scripted()
    raw = post(b"Connection: Upgrade", b"Upgrade: websocket", b"Content-Length: %d" % len(NEXT))
    with pytest.raises(httptools.HttpParserUpgrade):
        httptools.HttpRequestParser(object()).feed_data(raw + NEXT)
    feed([raw + NEXT], handler)
    assert [request.body for request in handler.requests] == [NEXT]
