"""What is too much or too slow gets a clear answer, which the client can read."""

import asyncio
import json
import socket

import pytest
from tests.wire.fake_client import PATIENCE, Clock, FakeTransport, Scripted, feed, serving, until

from looptrap.wire import server as server_module
from looptrap.wire.limits import ServerLimits
from looptrap.wire.server import MAX_REFUSED_CONNECTIONS
from looptrap.wire.server_connection import ServerConnection, network_of

GET = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
LIMITS = ServerLimits(max_head=2048, max_headers=10, max_target=100, max_body=1000)


def get(*lines, target=b"/"):
    return b"\r\n".join([b"GET " + target + b" HTTP/1.1", b"Host: x", *lines]) + b"\r\n\r\n"


def headers(count, size=1):
    return [b"H%d: %b" % (n, b"v" * size) for n in range(count)]


def sized(length):
    return b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % length


CHUNKED = b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"


@pytest.mark.parametrize(
    ("raw", "status", "code"),
    [
        pytest.param(get(*headers(9)), 200, None, id="as many headers as allowed"),
        pytest.param(get(*headers(10)), 431, "too_many_headers", id="one header more"),
        pytest.param(get(*headers(5, 500)), 431, "headers_too_large", id="large headers"),
        pytest.param(get(*headers(1, 5000))[:-4], 431, "headers_too_large", id="endless header"),
        pytest.param(get(target=b"/" + b"a" * 99), 200, None, id="as long a URL as allowed"),
        pytest.param(get(target=b"/" + b"a" * 100), 414, "url_too_long", id="a URL too long"),
        pytest.param(get(target=b"/" + b"a" * 5000), 414, "url_too_long", id="a far longer URL"),
        pytest.param(b"GET /" + b"a" * 5000, 414, "url_too_long", id="an endless URL"),
        pytest.param(sized(1000) + b"x" * 1000, 200, None, id="as large a body as allowed"),
        pytest.param(sized(1001), 413, "request_too_large", id="announced too large"),
        pytest.param(sized(10**17), 413, "request_too_large", id="announced absurdly large"),
        pytest.param(
            CHUNKED + b"3e8\r\n" + b"x" * 1000 + b"\r\n0\r\n\r\n",
            200,
            None,
            id="chunked, at the limit",
        ),
        pytest.param(
            CHUNKED + b"3e8\r\n" + b"x" * 1000 + b"\r\n1\r\n",
            413,
            "request_too_large",
            id="chunked",
        ),
        pytest.param(CHUNKED + b"ffffffff\r\n", 413, "request_too_large", id="one huge chunk"),
        pytest.param(
            CHUNKED + b"0\r\n" + b"A: b\r\n" * 500, 431, "headers_too_large", id="endless trailers"
        ),
        pytest.param(
            CHUNKED + b"0\r\nA: " + b"b" * 3000, 431, "headers_too_large", id="an endless trailer"
        ),
    ],
)
@pytest.mark.parametrize("whole", [True, False], ids=["at once", "byte by byte"])
def test_a_limit_is_kept(raw, status, code, whole):
    pieces = [raw] if whole else [bytes([byte]) for byte in raw]
    transport, server, _ = feed(pieces, Scripted(), LIMITS)
    head, _, body = transport.sent.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 %d " % status)
    assert server.buffered_bytes == 0
    if code is not None:
        error = json.loads(body)["error"]
        assert (error["type"], error["param"], error["code"]) == (
            "invalid_request_error",
            None,
            code,
        )
        assert b"Connection: close" in head


async def test_ten_thousand_headers_are_refused_unread():
    handler = Scripted()
    async with serving(handler) as (_, connect):
        client = await connect()
        await client.send(get(*headers(10_000)))
        assert (await client.answer()).status == 431
    assert handler.heads == []


def test_a_body_too_large_is_refused_before_the_client_is_told_to_continue():
    raw = sized(1001).replace(b"\r\n\r\n", b"\r\nExpect: 100-continue\r\n\r\n")
    handler = Scripted()
    transport, _, _ = feed([raw], handler, LIMITS)
    assert transport.sent.startswith(b"HTTP/1.1 413 ")
    assert handler.heads == []


def test_the_caller_words_the_refusals():
    def refuse(exchange, status, code, message):
        return [(b"X-Code", code.encode())], f"{exchange.target.decode()} {status}".encode()

    async def run():
        async with serving(limits=LIMITS, refuse=refuse) as (_, connect):
            client = await connect()
            await client.send(sized(1001))
            return await client.answer()

    answer = asyncio.run(run())
    assert answer.status == 413
    assert answer.headers[b"x-code"] == b"request_too_large"
    assert answer.body == b"/ 413"


async def test_a_client_that_goes_on_sending_50_mb_reads_the_refusal():
    """A blocking client, as most are: it sends everything, and only then reads."""

    def send_all(port):
        with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE) as sock:
            sock.sendall(sized(50_000_000))
            piece = b"x" * 65536
            sent = 0
            try:
                while sent < 50_000_000:
                    sent += sock.send(piece)
            except OSError:
                pass
            return sent, sock.recv(65536)

    clock = Clock()
    async with serving(limits=LIMITS, clock=clock) as (server, connect):
        sending = asyncio.create_task(asyncio.to_thread(send_all, connect.port))
        await until(lambda: server.bad_requests)
        assert server.buffered_bytes == 0
        clock.now += 2
        server.sweep()
        sent, answer = await sending
    assert answer.startswith(b"HTTP/1.1 413 ")
    assert sent < 50_000_000, "the rest was not waited for"


async def test_a_client_that_reads_while_sending_sees_the_refusal_at_once():
    async with serving(limits=LIMITS) as (_, connect):
        client = await connect()
        client.writer.write(sized(50_000_000) + b"x" * 8_000_000)
        assert (await client.answer()).status == 413
        client.writer.transport.abort()


def test_a_refused_sender_is_listened_to_for_a_megabyte_and_two_seconds():
    transport, server, connection = feed([sized(50_000_000)], Scripted(), LIMITS)
    assert transport.eof
    for _ in range(16):
        assert transport.reading
        connection.data_received(b"x" * 65536)
    connection.data_received(b"x")
    assert not transport.reading
    server.clock.now += 1.9
    server.sweep()
    assert not transport.closed
    server.clock.now += 0.1
    server.sweep()
    assert transport.closed
    assert transport.sent.count(b"HTTP/1.1") == 1


def test_connections_far_beyond_the_cap_are_cut_without_a_word():
    _, server, _ = feed([], Scripted(), ServerLimits(max_connections=1))
    answers = []
    for _ in range(MAX_REFUSED_CONNECTIONS + 1):
        transport = FakeTransport()
        ServerConnection(server).connection_made(transport)
        answers.append(transport.sent)
    *told, last = answers
    assert all(answer.startswith(b"HTTP/1.1 503 ") for answer in told)
    assert last == b""
    assert transport.aborted
    assert (server.connections, server.refused_connections) == (1, MAX_REFUSED_CONNECTIONS + 1)


async def test_connections_beyond_the_cap_are_told_to_come_back():
    async with serving(limits=ServerLimits(max_connections=2)) as (server, connect):
        first, second = await connect(), await connect()
        for client in (first, second):
            await client.send(GET)
            assert (await client.answer()).status == 200
        third = await connect()
        answer = await third.answer()
        assert (answer.status, answer.headers[b"retry-after"]) == (503, b"1")
        assert (server.connections, server.refused_connections) == (2, 1)
        first.close()
        await until(lambda: server.connections == 1)
        fourth = await connect()
        await fourth.send(GET)
        assert (await fourth.answer()).status == 200


# Connections of one address

OTHER = {"local_addr": ("127.0.0.2", 0)}
FULL = ServerLimits(max_connections=4)


@pytest.mark.parametrize(
    ("begun", "told"),
    [
        pytest.param(b"", b"", id="idle"),
        pytest.param(GET[:10], b"HTTP/1.1 503 ", id="a slow head"),
        pytest.param(sized(10) + b"x", b"HTTP/1.1 503 ", id="a slow body"),
    ],
)
async def test_an_address_that_holds_every_connection_makes_room_for_another(begun, told):
    async with serving(limits=FULL) as (server, connect):
        greedy = [await connect() for _ in range(4)]
        await until(lambda: server.connections == 4)
        for client in greedy:
            await client.send(begun)
        await until(lambda: server.buffered_bytes >= 4 * min(len(begun), 1))
        newcomer = await connect(**OTHER)
        await newcomer.send(GET)
        assert (await newcomer.answer()).status == 200
        assert (await greedy[0].rest()).startswith(told)
        await until(lambda: (server.connections, server.refused_connections) == (4, 1))
        assert not any(client.reader.at_eof() for client in greedy[1:])


async def test_an_address_that_keeps_coming_keeps_nobody_out(monkeypatch):
    monkeypatch.setattr(server_module, "MAX_REFUSED_CONNECTIONS", 1)
    async with serving(limits=FULL) as (server, connect):
        greedy = [await connect() for _ in range(9)]
        await until(lambda: server.refused_connections == 5)
        assert len(server._open) == 5, "one of those that are refused has not gone yet"
        newcomer = await connect(**OTHER)
        await newcomer.send(GET)
        assert (await newcomer.answer()).status == 200
        with pytest.raises(ConnectionResetError):
            await greedy[0].rest()
        assert len(server._open) <= 5


async def test_no_address_gets_more_than_its_share_by_that():
    async with serving(limits=FULL) as (server, connect):
        for _ in range(4):
            await connect()
        await until(lambda: server.connections == 4)
        others = [await connect(**OTHER) for _ in range(3)]
        for client in others[:2]:
            await client.send(GET)
            assert (await client.answer()).status == 200
        assert (await others[2].answer()).status == 503


async def test_an_answer_under_way_is_never_cut_to_make_room():
    handler = Scripted(answer=None)
    async with serving(handler, FULL) as (_, connect):
        busy = [await connect() for _ in range(4)]
        for client in busy:
            await client.send(GET)
        exchanges = [await handler.next_exchange() for _ in busy]
        assert (await (await connect(**OTHER)).answer()).status == 503
        exchanges[2].answer(200, [])
        assert (await busy[2].answer()).status == 200
        newcomer = await connect(**OTHER)
        assert await busy[2].rest() == b""
        await newcomer.send(GET)
        (await handler.next_exchange()).answer(200, [])
        assert (await newcomer.answer()).status == 200


async def test_one_address_alone_may_hold_every_connection():
    async with serving(limits=FULL) as (server, connect):
        clients = [await connect() for _ in range(4)]
        await until(lambda: server.connections == 4)
        assert (await (await connect()).answer()).status == 503
        for client in clients:
            await client.send(GET)
            assert (await client.answer()).status == 200


async def test_connections_that_end_are_held_by_nobody():
    async with serving(limits=FULL) as (server, connect):
        for options in ({}, OTHER, {}):
            (await connect(**options)).close()
        await until(lambda: not server._open)
        assert (server.connections, server._admitted) == (0, {})


@pytest.mark.parametrize(
    ("one", "other", "is_one"),
    [
        ("192.0.2.1", "192.0.2.1", True),
        ("192.0.2.1", "192.0.2.2", False),
        ("2001:db8:0:1::1", "2001:db8:0:1:ffff::2", True),
        ("2001:db8:0:1::1", "2001:db8:0:2::1", False),
        ("::ffff:192.0.2.1", "192.0.2.1", True),
        ("::ffff:192.0.2.1", "::ffff:192.0.2.2", False),
        ("fe80::1%eth0", "fe80::2", True),
        ("", "", True),
    ],
)
def test_a_holder_is_an_address_or_the_network_that_one_host_gets(one, other, is_one):
    assert (network_of(one) == network_of(other)) is is_one


async def test_request_bytes_are_bounded_over_all_connections():
    handler = Scripted(answer=None)
    limits = ServerLimits(max_buffered=3000, max_body=2000)
    async with serving(handler, limits) as (server, connect):
        holder, announcing, chunking, fitting = [await connect() for _ in range(4)]
        await holder.send(sized(2000) + b"x" * 2000)
        exchange = await handler.next_exchange()
        assert server.buffered_bytes == 2000

        await announcing.send(sized(1001))
        answer = await announcing.answer()
        assert (answer.status, answer.headers[b"retry-after"]) == (503, b"1")
        await chunking.send(CHUNKED + b"5dc\r\n" + b"x" * 1400)
        assert (await chunking.answer()).status == 503
        assert server.overloads == 2
        await fitting.send(sized(900) + b"x" * 900)
        (await handler.next_exchange()).answer(200, [])
        assert (await fitting.answer()).status == 200

        exchange.answer(200, [])
        assert server.buffered_bytes == 0


@pytest.mark.parametrize(
    ("sent", "wait", "status"),
    [
        pytest.param(b"GET / HT", 15, 408, id="part of a head"),
        pytest.param(sized(10) + b"12345", 30, 408, id="part of a body"),
        pytest.param(CHUNKED + b"5\r\nab", 30, 408, id="part of a chunk"),
        pytest.param(b"", 75, None, id="nothing at all"),
        pytest.param(b"\r\n", 75, None, id="an empty line"),
    ],
)
async def test_a_client_too_slow_is_given_up(sent, wait, status):
    clock = Clock()
    async with serving(clock=clock) as (server, connect):
        client = await connect()
        await client.send(sent)
        await until(lambda: server.connections == 1)
        if status is not None:
            await until(lambda: server.buffered_bytes or server.requests)
        clock.now += wait - 0.01
        server.sweep()
        assert server.connections == 1
        assert server.bad_requests == 0
        clock.now += 0.01
        server.sweep()
        if status is None:
            assert await client.rest() == b""
        else:
            assert (await client.answer()).status == status


async def test_an_idle_connection_is_closed_without_a_word_after_its_time():
    clock = Clock()
    async with serving(clock=clock) as (server, connect):
        client = await connect()
        await client.send(GET)
        await client.answer()
        clock.now += 75
        server.sweep()
        assert await client.rest() == b""


async def test_progress_in_a_body_earns_more_time_and_a_pending_answer_has_all_the_time():
    handler = Scripted(answer=None)
    clock = Clock()
    async with serving(handler, clock=clock) as (server, connect):
        client = await connect()
        await client.send(sized(3))
        for count, piece in enumerate((b"a", b"b")):
            await until(lambda: server.requests and server.buffered_bytes == count)  # noqa: B023
            clock.now += 29
            server.sweep()
            await client.send(piece)
        await until(lambda: server.buffered_bytes == 2)
        await client.send(b"c")
        exchange = await handler.next_exchange()
        clock.now += 10_000
        server.sweep()
        exchange.answer(200, [], exchange.body)
        assert (await client.answer()).body == b"abc"


def test_a_head_gets_no_more_time_by_trickling():
    handler = Scripted()
    transport, server, connection = feed([b"G"], handler)
    for byte in b"ET / HTTP/1.1":
        server.clock.now += 1.2
        server.sweep()
        connection.data_received(bytes([byte]))
    assert transport.sent.startswith(b"HTTP/1.1 408 ")


@pytest.mark.parametrize("name", ["max_body", "head_timeout", "max_connections"])
def test_a_limit_must_be_positive(name):
    with pytest.raises(ValueError, match=f"{name} is 0, must be more than 0"):
        ServerLimits(**{name: 0})
