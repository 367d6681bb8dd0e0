"""A request in, its one answer out: framing, persistence, order, and handlers that fail."""

import asyncio
import socket
import struct

import pytest
from tests.wire.fake_client import JSON, Scripted, feed, serving

GET = b"GET /a HTTP/1.1\r\nHost: x\r\n\r\n"


def post(body, *lines, target=b"/p"):
    head = [b"POST " + target + b" HTTP/1.1", b"Host: x", b"Content-Length: %d" % len(body), *lines]
    return b"\r\n".join(head) + b"\r\n\r\n" + body


CHUNKED = (
    b"POST /c HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
    b"3\r\nabc\r\nA;ext=1\r\n0123456789\r\n0\r\nX-Trailer: dropped\r\n\r\n"
)


@pytest.mark.parametrize(
    ("raw", "method", "target", "body"),
    [
        pytest.param(GET, b"GET", b"/a", b"", id="no body"),
        pytest.param(post(b"hello"), b"POST", b"/p", b"hello", id="sized body"),
        pytest.param(post(b""), b"POST", b"/p", b"", id="empty sized body"),
        pytest.param(CHUNKED, b"POST", b"/c", b"abc0123456789", id="chunks, extension, trailer"),
        pytest.param(b"GET /o HTTP/1.0\r\n\r\n", b"GET", b"/o", b"", id="HTTP/1.0 without Host"),
        pytest.param(
            b"OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n", b"OPTIONS", b"*", b"", id="asterisk form"
        ),
        pytest.param(
            b"GET http://X:80/p?q=1 HTTP/1.1\r\nHost: x:80\r\n\r\n",
            b"GET",
            b"/p?q=1",
            b"",
            id="absolute form for this host",
        ),
        pytest.param(
            b"GET http://x?q HTTP/1.1\r\nHost: x\r\n\r\n",
            b"GET",
            b"/?q",
            b"",
            id="absolute, no path",
        ),
        pytest.param(b"\r\n\r\n" + GET, b"GET", b"/a", b"", id="empty lines first"),
        pytest.param(
            b"PROPFIND /d HTTP/1.1\r\nHost: [::1]:8\r\n\r\n",
            b"PROPFIND",
            b"/d",
            b"",
            id="any method",
        ),
        pytest.param(
            b"POST /u HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
            b"Content-Length: 2\r\n\r\nhi",
            b"POST",
            b"/u",
            b"hi",
            id="an upgrade is not taken up",
        ),
    ],
)
async def test_a_request_is_understood(raw, method, target, body):
    handler = Scripted()
    async with serving(handler) as (server, connect):
        client = await connect()
        await client.send(raw)
        answer = await client.answer()
    assert answer.status == 200
    assert answer.body == body
    [seen] = handler.requests
    assert (seen.method, seen.target, seen.body) == (method, target, body)
    assert handler.heads == [target]
    assert (server.requests, server.bad_requests, server.buffered_bytes) == (1, 0, 0)


def test_headers_keep_order_and_duplicates_with_lower_case_names():
    handler = Scripted()
    feed([b"GET / HTTP/1.1\r\nHost: x\r\nX-B:  one \t\r\nX-A:\r\nx-b: t\xc3\xa9\r\n\r\n"], handler)
    assert handler.requests[0].headers == (
        (b"host", b"x"),
        (b"x-b", b"one"),
        (b"x-a", b""),
        (b"x-b", b"t\xc3\xa9"),
    )


async def test_an_exchange_knows_its_peer_and_that_it_is_in_the_clear():
    handler = Scripted()
    async with serving(handler) as (_, connect):
        client = await connect()
        await client.send(GET)
        exchange = await handler.next_exchange()
        await client.answer()
    assert (exchange.peer, exchange.head.version) == ("127.0.0.1", "1.1")
    assert exchange.connection.transport.get_extra_info("ssl_object") is None


@pytest.mark.parametrize(
    ("method", "status", "expected"),
    [
        pytest.param(
            b"GET", 200, b"HTTP/1.1 200 OK\r\nA: b\r\nContent-Length: 4\r\n\r\nbody", id="a body"
        ),
        pytest.param(
            b"HEAD", 200, b"HTTP/1.1 200 OK\r\nA: b\r\nContent-Length: 4\r\n\r\n", id="HEAD"
        ),
        pytest.param(b"GET", 204, b"HTTP/1.1 204 No Content\r\nA: b\r\n\r\n", id="204"),
        pytest.param(b"GET", 304, b"HTTP/1.1 304 Not Modified\r\nA: b\r\n\r\n", id="304"),
        pytest.param(
            b"GET",
            599,
            b"HTTP/1.1 599 \r\nA: b\r\nContent-Length: 4\r\n\r\nbody",
            id="unregistered",
        ),
    ],
)
def test_an_answer_is_framed_by_method_and_status(method, status, expected):
    handler = Scripted(lambda exchange: exchange.answer(status, [(b"A", b"b")], b"body"))
    transport, _, _ = feed([method + b" / HTTP/1.1\r\nHost: x\r\n\r\n"], handler)
    assert transport.writes == [expected]


def stream(length, *chunks):
    def answer(exchange):
        exchange.begin(200, b"Fine", [(b"A", b"b")], length)
        for chunk in chunks:
            exchange.write(chunk)
        exchange.finish()

    return answer


@pytest.mark.parametrize(
    ("request_line", "answer", "expected", "ends"),
    [
        pytest.param(
            b"GET / HTTP/1.1",
            stream(None, b"abc", b"", b"x" * 16),
            b"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n10\r\n" + b"x" * 16 + b"\r\n0\r\n\r\n",
            False,
            id="unknown length: chunked, an empty write does not end it",
        ),
        pytest.param(
            b"GET / HTTP/1.0",
            stream(None, b"abc"),
            b"Connection: close\r\n\r\nabc",
            True,
            id="unknown length to HTTP/1.0: up to the close",
        ),
        pytest.param(
            b"GET / HTTP/1.1",
            stream(5, b"abc", b"de"),
            b"Content-Length: 5\r\n\r\nabcde",
            False,
            id="known length",
        ),
        pytest.param(
            b"HEAD / HTTP/1.1",
            stream(5, b"abcde"),
            b"Content-Length: 5\r\n\r\n",
            False,
            id="HEAD, length known",
        ),
        pytest.param(b"HEAD / HTTP/1.1", stream(None, b"abc"), b"\r\n", False, id="HEAD, unknown"),
    ],
)
def test_a_streamed_answer_is_framed_in_one_write(request_line, answer, expected, ends):
    transport, _, _ = feed([request_line + b"\r\nHost: x\r\n\r\n"], Scripted(answer))
    assert transport.writes == [b"HTTP/1.1 200 Fine\r\nA: b\r\n" + expected]
    assert transport.closed is ends


def test_each_flush_is_one_write():
    handler = Scripted(answer=None)
    transport, _, connection = feed([GET], handler)
    exchange = connection.exchange
    exchange.begin(200, b"OK", [], None)
    assert transport.writes == []
    exchange.write(b"a")
    exchange.write(b"b")
    exchange.flush()
    exchange.flush()
    exchange.write(b"c")
    exchange.flush()
    exchange.finish()
    assert transport.writes == [
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n1\r\nb\r\n",
        b"1\r\nc\r\n",
        b"0\r\n\r\n",
    ]


@pytest.mark.parametrize(
    "chunks",
    [
        pytest.param([b"abc"], id="shorter than announced"),
        pytest.param([b"abc", b"defg"], id="longer than announced"),
    ],
)
async def test_an_answer_of_the_wrong_length_is_cut(chunks):
    handler = Scripted(stream(5, *chunks))
    async with serving(handler) as (_, connect):
        client = await connect()
        await client.send(GET)
        with pytest.raises((ConnectionResetError, asyncio.IncompleteReadError)):
            await client.answer()
    assert handler.lost == []


@pytest.mark.parametrize("length", [None, 100], ids=["chunked", "sized"])
async def test_an_aborted_answer_is_read_up_to_where_it_broke(length):
    handler = Scripted(answer=None)
    async with serving(handler) as (_, connect):
        client = await connect()
        await client.send(GET)
        exchange = await handler.next_exchange()
        exchange.begin(200, b"OK", [], length)
        exchange.write(b"half")
        exchange.abort()
        exchange.write(b"dropped")
        exchange.finish()
        await client.head()
        assert await client.rest() == (b"4\r\nhalf\r\n" if length is None else b"half")
    assert handler.lost == []


async def test_an_aborted_answer_never_looks_complete_even_where_the_close_delimits_it():
    handler = Scripted(answer=None)
    async with serving(handler) as (_, connect):
        client = await connect()
        await client.send(b"GET / HTTP/1.0\r\n\r\n")
        exchange = await handler.next_exchange()
        exchange.begin(200, b"OK", [], None)
        exchange.write(b"half")
        exchange.flush()
        await client.head()
        exchange.abort()
        with pytest.raises(ConnectionResetError):
            await client.rest()
    assert handler.lost == []


@pytest.mark.parametrize(
    ("version", "connection", "persists", "says"),
    [
        pytest.param(b"1.1", None, True, None, id="1.1 persists"),
        pytest.param(b"1.1", b"close", False, b"close", id="1.1 with close"),
        pytest.param(b"1.1", b"Keep-Alive, CLOSE", False, b"close", id="close in a list"),
        pytest.param(b"1.0", None, False, b"close", id="1.0 closes"),
        pytest.param(b"1.0", b"Keep-Alive", True, b"keep-alive", id="1.0 with keep-alive"),
    ],
)
async def test_the_connection_persists_as_the_client_asks(version, connection, persists, says):
    line = b"" if connection is None else b"Connection: " + connection + b"\r\n"
    raw = b"GET / HTTP/" + version + b"\r\nHost: x\r\n" + line + b"\r\n"
    async with serving() as (_, connect):
        client = await connect()
        await client.send(raw)
        answer = await client.answer()
        assert answer.headers.get(b"connection") == says
        if persists:
            await client.send(raw)
            assert (await client.answer()).status == 200
        else:
            assert await client.rest() == b""


async def test_a_handler_may_close_after_its_answer():
    handler = Scripted(lambda exchange: exchange.answer(401, JSON, b"{}", close=True))
    async with serving(handler) as (_, connect):
        client = await connect()
        await client.send(GET + GET)
        answer = await client.answer()
        assert (answer.status, answer.headers[b"connection"]) == (401, b"close")
        assert await client.rest() == b""
    assert len(handler.requests) == 1


async def test_pipelined_requests_are_answered_one_after_the_other():
    handler = Scripted(answer=None)
    async with serving(handler) as (_, connect):
        client = await connect()
        await client.send(b"".join(post(b"%d" % n) for n in range(5)) + CHUNKED + GET)
        for n in range(7):
            exchange = await handler.next_exchange()
            assert len(handler.requests) == n + 1, "the next one waits for this answer"
            exchange.answer(200, [], b"%d" % n)
        assert [(await client.answer()).body for _ in range(7)] == [b"%d" % n for n in range(7)]


async def test_a_second_answer_is_an_error_and_nothing_of_it_is_sent():
    handler = Scripted()
    async with serving(handler) as (_, connect):
        client = await connect()
        await client.send(GET)
        exchange = await handler.next_exchange()
        with pytest.raises(RuntimeError, match="has been answered"):
            exchange.answer(200, [])
        with pytest.raises(RuntimeError, match="has been answered"):
            exchange.begin(200, b"OK", [], None)
        exchange.abort()
        assert (await client.answer()).status == 200
        await client.send(GET)
        assert (await client.answer()).status == 200


@pytest.mark.parametrize(
    "field", [(b"A", b"b\r\nSet-Cookie: c"), (b"A\n", b"b"), (b"A", b"b\n")], ids=repr
)
def test_a_line_break_in_an_answers_header_is_an_error(field):
    def answer(exchange):
        with pytest.raises(ValueError, match="line break"):
            exchange.answer(200, [field])
        with pytest.raises(ValueError, match="line break"):
            exchange.begin(200, b"OK", [field], None)
        exchange.answer(200, [])

    transport, server, _ = feed([GET], Scripted(answer))
    assert transport.sent == b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
    assert server.handler_errors == 0


EXPECTING = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nExpect: 100-Continue\r\n\r\n"


async def test_a_client_that_asks_is_told_to_continue():
    async with serving() as (_, connect):
        client = await connect()
        await client.send(EXPECTING)
        assert (await client.answer()).status == 100
        await client.send(b"hi")
        assert (await client.answer()).body == b"hi"


@pytest.mark.parametrize(
    "pieces",
    [
        pytest.param([EXPECTING + b"hi"], id="the body is here already"),
        pytest.param([EXPECTING + b"h", b"i"], id="the body has begun"),
        pytest.param([EXPECTING.replace(b"1.1", b"1.0"), b"hi"], id="HTTP/1.0 knows no 100"),
    ],
)
def test_nobody_is_told_to_continue_without_need(pieces):
    transport, _, _ = feed(pieces, Scripted())
    assert transport.sent.startswith(b"HTTP/1.1 200 ")


def test_an_unknown_expectation_fails():
    transport, _, _ = feed([EXPECTING.replace(b"100-Continue", b"a miracle")], Scripted())
    assert transport.sent.startswith(b"HTTP/1.1 417 ")
    assert transport.eof


async def test_an_answer_to_the_head_comes_before_the_body_and_ends_the_connection():
    handler = Scripted(on_head=lambda exchange: exchange.answer(401, JSON, b"{}"))
    async with serving(handler) as (_, connect):
        client = await connect()
        await client.send(EXPECTING)
        answer = await client.answer()
        assert (answer.status, answer.headers[b"connection"]) == (401, b"close")
        await client.send(b"hi" + GET)
        assert await client.rest() == b""
    assert handler.requests == []
    assert handler.lost == []


def test_a_body_that_goes_wrong_after_the_answer_began_cuts_it():
    def begin(exchange):
        exchange.begin(200, b"OK", [], None)
        exchange.flush()

    handler = Scripted(on_head=begin)
    transport, _, connection = feed([CHUNKED[: CHUNKED.index(b"3\r\n")]], handler)
    exchange = connection.exchange
    connection.data_received(b"not a chunk\r\n")
    assert transport.sent.count(b"HTTP/1.1") == 1
    assert transport.aborted
    assert handler.lost == [exchange]


def test_an_answer_streamed_to_the_head_does_not_wait_for_the_body():
    def begin(exchange):
        exchange.begin(200, b"OK", [], None)
        exchange.flush()

    handler = Scripted(on_head=begin)
    transport, server, connection = feed([post(b"hello")[:-2]], handler)
    exchange = connection.exchange
    connection.data_received(b"lo" + GET)
    exchange.write(b"hi")
    exchange.finish()
    assert handler.requests == []
    assert transport.sent.endswith(b"Connection: close\r\n\r\n2\r\nhi\r\n0\r\n\r\n")
    assert transport.eof
    assert server.buffered_bytes == 0


async def test_an_answer_to_the_head_of_a_whole_request_keeps_the_connection():
    handler = Scripted(on_head=lambda exchange: exchange.answer(401, JSON, b"{}"))
    async with serving(handler) as (_, connect):
        client = await connect()
        for _ in range(2):
            await client.send(post(b"hi"))
            assert (await client.answer()).status == 401
    assert handler.requests == []


def test_connect_is_refused():
    transport, _, _ = feed([b"CONNECT x:443 HTTP/1.1\r\nHost: x:443\r\n\r\n"], Scripted())
    assert transport.sent.startswith(b"HTTP/1.1 501 ")
    assert transport.eof


def boom(exchange):
    raise RuntimeError("boom")


def boom_midway(exchange):
    exchange.begin(200, b"OK", [], None)
    exchange.write(b"half")
    exchange.flush()
    raise RuntimeError("boom")


@pytest.mark.parametrize(
    "handler",
    [
        pytest.param(lambda: Scripted(boom), id="on the request"),
        pytest.param(lambda: Scripted(on_head=boom), id="on the head"),
    ],
)
@pytest.mark.parametrize("raw", [post(b"hi"), CHUNKED], ids=["sized", "chunked"])
async def test_a_handler_that_raises_is_answered_for(handler, raw):
    errors = []
    async with serving(handler(), on_error=errors.append) as (server, connect):
        client = await connect()
        await client.send(raw)
        answer = await client.answer()
        assert answer.status == 500
        assert b"boom" not in answer.body
        assert [str(error) for error in errors] == ["boom"]
        assert server.handler_errors == 1
        server.handler = Scripted()
        again = await connect()
        await again.send(GET)
        assert (await again.answer()).status == 200


async def test_a_handler_that_raises_midway_cuts_its_answer():
    handler = Scripted(boom_midway)
    async with serving(handler) as (server, connect):
        client = await connect()
        await client.send(GET)
        with pytest.raises((ConnectionResetError, asyncio.IncompleteReadError)):
            await client.answer()
        assert server.handler_errors == 1
        assert len(handler.lost) == 1


@pytest.mark.parametrize("act", [boom, boom_midway], ids=["before its answer", "midway"])
async def test_a_handler_that_raises_can_drop_what_it_began_while_the_client_still_waits(act):
    told = []

    def begin(exchange):
        exchange.state = "work for it"
        act(exchange)

    class Working(Scripted):
        def on_disconnect(self, exchange):
            told.append((exchange.state, exchange.is_open))

    handler = Working(begin)
    async with serving(handler) as (server, connect):
        client = await connect()
        await client.send(GET)
        await client.rest()
        assert told == [("work for it", True)]
        assert (await handler.next_exchange()).state is None
        assert server.disconnects == 0


@pytest.mark.parametrize("raw", [GET, EXPECTING], ids=["while answering", "while sending"])
async def test_a_client_that_leaves_is_reported_once_and_at_once(raw):
    handler = Scripted(answer=None)
    async with serving(handler) as (server, connect):
        client = await connect()
        await client.send(raw)
        while not handler.heads:
            await asyncio.sleep(0)
        client.close()
        exchange = await handler.next_departure()
        exchange.answer(200, [], b"nobody reads this")
        exchange.abort()
        assert server.disconnects == 1
        assert server.buffered_bytes == 0
    assert handler.lost == [exchange]


@pytest.mark.parametrize("leave", ["close", "reset"])
async def test_a_client_that_leaves_mid_answer_is_reported_and_the_rest_dropped(leave):
    handler = Scripted(answer=None)
    async with serving(handler) as (_, connect):
        client = await connect()
        await client.send(GET)
        exchange = await handler.next_exchange()
        exchange.begin(200, b"OK", [], None)
        exchange.write(b"a")
        exchange.flush()
        await client.head()
        if leave == "reset":
            sock = client.writer.get_extra_info("socket")
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        client.close()
        assert await handler.next_departure() is exchange
        exchange.write(b"b")
        exchange.flush()
        exchange.finish()
    assert len(handler.lost) == 1


async def test_a_client_that_leaves_after_its_answer_is_no_disconnect():
    handler = Scripted()
    async with serving(handler) as (server, connect):
        client = await connect()
        await client.send(GET)
        await client.answer()
        client.close()
        while server.connections:
            await asyncio.sleep(0)
    assert handler.lost == []
