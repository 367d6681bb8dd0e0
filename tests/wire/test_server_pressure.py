"""Slow readers and eager senders never make memory grow."""

import asyncio
import socket

from tests.wire.fake_client import Clock, Scripted, feed, serving, until

from looptrap.wire.limits import ServerLimits
from looptrap.wire.server_connection import MAX_HELD_BYTES

GET = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
PIECE = b"x" * 16_384


class Source:
    """Brings pieces without end, as fast as it may."""

    def __init__(self, exchange):
        self.exchange = exchange
        self.paused = False
        self.brought = 0
        self.pauses = 0

    def pause(self):
        self.paused = True
        self.pauses += 1

    def resume(self):
        self.paused = False
        asyncio.get_running_loop().call_soon(self.run)

    def run(self):
        while not self.paused and self.brought < 400 * len(PIECE):
            self.exchange.write(PIECE)
            self.exchange.flush()
            self.brought += len(PIECE)
        if not self.paused:
            self.exchange.finish()


class Sliced(bytes):
    """Bytes that count how many of them are copied out."""

    copied = 0

    def __getitem__(self, index):
        part = super().__getitem__(index)
        if isinstance(index, slice):
            self.copied += len(part)
        return part


def relay(exchange):
    exchange.source = Source(exchange)
    exchange.begin(200, b"OK", [], None)
    exchange.source.run()


def narrow(client):
    """Let the kernel hold little for this client."""
    client.writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)


async def test_a_slow_reader_pauses_the_source_and_still_gets_every_byte():
    handler = Scripted(relay)
    async with serving(handler) as (_, connect):
        client = await connect()
        narrow(client)
        client.writer.transport.pause_reading()
        await client.send(GET)
        source = (await handler.next_exchange()).source
        await until(lambda: source.paused)
        held = source.brought
        assert held < 400 * len(PIECE), "not everything was taken at once"
        client.writer.transport.resume_reading()
        answer = await client.answer()
    assert answer.body == PIECE * 400
    assert source.pauses > 1


async def test_a_reader_that_stops_is_cut_and_the_handler_told():
    handler = Scripted(relay)
    clock = Clock()
    async with serving(handler, clock=clock) as (server, connect):
        client = await connect()
        narrow(client)
        client.writer.transport.pause_reading()
        await client.send(GET)
        exchange = await handler.next_exchange()
        await until(lambda: exchange.source.paused)
        clock.now += 60
        server.sweep()
        assert await handler.next_departure() is exchange


def test_a_reader_that_makes_some_progress_is_given_more_time():
    handler = Scripted(answer=None)
    transport, server, connection = feed([GET], handler)
    transport.buffered = 1000
    connection.pause_writing()
    transport.buffered = 999
    server.clock.now += 60
    server.sweep()
    assert not transport.aborted
    server.clock.now += 60
    server.sweep()
    assert transport.aborted
    assert len(handler.lost) == 1


def test_pipelined_requests_wait_while_answers_are_not_read():
    handler = Scripted()
    transport, _, connection = feed([GET], handler)
    connection.pause_writing()
    connection.data_received(GET * 3)
    assert len(handler.requests) == 1
    connection.resume_writing()
    assert len(handler.requests) == 4
    assert transport.sent.count(b"HTTP/1.1 200 OK") == 4


def test_an_answer_that_fills_the_buffer_stops_the_pipeline():
    handler = Scripted()
    transport, _, connection = feed([], handler)
    handler.answer = lambda exchange: (connection.pause_writing(), exchange.answer(200, []))
    connection.data_received(GET * 3)
    assert len(handler.requests) == 1
    connection.resume_writing()
    assert len(handler.requests) == 2
    assert transport.sent.count(b"HTTP/1.1 200 OK") == 2


def test_a_late_answer_that_fills_the_buffer_stops_the_pipeline():
    handler = Scripted(answer=None)
    transport, _, connection = feed([GET * 2], handler)
    exchange = connection.exchange
    connection.pause_writing()
    exchange.answer(200, [])
    assert len(handler.requests) == 1
    connection.resume_writing()
    assert len(handler.requests) == 2
    assert transport.sent.count(b"HTTP/1.1 200 OK") == 1


def test_a_body_goes_on_when_an_early_answer_flows_again():
    """Bytes that arrive while the client does not read are kept, and read when it does."""
    handler = Scripted(on_head=lambda exchange: exchange.begin(200, b"OK", [], None))
    raw = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n"
    _, server, connection = feed([raw], handler)
    exchange = connection.exchange
    exchange.source = Source(exchange)
    connection.pause_writing()
    connection.data_received(b"0123456789")
    assert exchange.body == b""
    assert server.buffered_bytes == 10
    exchange.source.resume = lambda: setattr(exchange.source, "paused", False)
    connection.resume_writing()
    assert exchange.body == b"0123456789"
    assert not exchange.source.paused


def test_a_long_pipeline_costs_each_request_the_same():
    """A quarter of a megabyte of small requests in one piece: nothing is copied over and over."""
    handler = Scripted()
    raw = b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n"
    piece = Sliced((GET + raw) * 2000)
    feed([piece], handler)
    assert len(handler.requests) == 4000
    assert piece.copied < 2 * len(piece)


async def test_an_eager_sender_is_no_longer_read_while_a_request_waits():
    handler = Scripted(answer=None)
    async with serving(handler) as (server, connect):
        client = await connect()
        body = b"y" * 100_000
        raw = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n" + body
        client.writer.write(GET + raw * 100)
        exchange = await handler.next_exchange()
        await until(lambda: server.buffered_bytes > MAX_HELD_BYTES)
        for _ in range(50):
            await asyncio.sleep(0)
        assert server.buffered_bytes < 1_000_000
        assert len(handler.requests) == 1
        handler.answer = lambda exchange: exchange.answer(200, [])
        exchange.answer(200, [])
        for _ in range(101):
            assert (await client.answer()).status == 200
        assert server.buffered_bytes == 0
    assert [len(request.body) for request in handler.requests] == [0] + [100_000] * 100


async def test_a_client_that_leaves_with_a_request_queued_is_noticed():
    handler = Scripted(answer=None)
    async with serving(handler) as (server, connect):
        client = await connect()
        await client.send(GET + GET)
        exchange = await handler.next_exchange()
        client.close()
        assert await handler.next_departure() is exchange
        assert server.buffered_bytes == 0
    assert len(handler.requests) == 1


def test_one_byte_chunks_cost_no_more_than_their_bytes():
    handler = Scripted()
    limits = ServerLimits(max_body=100_000)
    head = b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
    _, server, connection = feed([head], handler, limits)
    connection.data_received(b"1\r\nz\r\n" * 50_000)
    assert server.buffered_bytes == 50_000
    connection.data_received(b"0\r\n\r\n")
    assert handler.requests[0].body == b"z" * 50_000
