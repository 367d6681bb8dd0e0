"""What one turn of the loop brings is sent at its end."""

import asyncio

import pytest
from tests.patience import PATIENCE
from tests.wire.fake_client import Clock, FakeTransport, Scripted
from tests.wire.fake_upstream import Answer

from looptrap.wire.limits import ServerLimits, UpstreamLimits
from looptrap.wire.origin import Origin
from looptrap.wire.pool import Pool
from looptrap.wire.server import Server
from looptrap.wire.server_connection import ServerConnection
from looptrap.wire.upstream_connection import UpstreamConnection
from looptrap.wire.write_queue import MAX_QUEUED_BYTES, WriteQueue

GET = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


def connect(server):
    connection, transport = ServerConnection(server), FakeTransport()
    connection.connection_made(transport)
    return connection, transport


@pytest.fixture
def lone_server():
    return Server(Scripted(), ServerLimits(), clock=Clock())


@pytest.fixture
def server(lone_server):
    """A server with another exchange under way."""
    connection, _ = connect(lone_server)
    connection.data_received(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n")
    return lone_server


async def test_a_lone_answer_is_sent_at_once(lone_server):
    for _ in range(2):
        connection, transport = connect(lone_server)
        connection.data_received(GET)
        assert transport.sent.startswith(b"HTTP/1.1 200")
    assert lone_server.open_exchanges == 0


async def test_exchanges_are_counted_until_they_end(lone_server):
    connection, _ = connect(lone_server)
    connection.data_received(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n")
    assert lone_server.open_exchanges == 1
    connection.connection_lost(None)
    assert lone_server.open_exchanges == 0


async def test_answers_are_sent_when_all_requests_of_the_turn_are_read(server):
    connections = [connect(server) for _ in range(3)]
    for connection, _ in connections:
        connection.data_received(GET)
    assert not any(transport.sent for _, transport in connections)
    await asyncio.sleep(0)
    assert all(transport.sent.startswith(b"HTTP/1.1 200") for _, transport in connections)


async def test_the_answers_of_a_pipeline_leave_in_one_write(server):
    connection, transport = connect(server)
    connection.data_received(GET * 4)
    await asyncio.sleep(0)
    assert len(transport.writes) == 1
    assert transport.sent.count(b"HTTP/1.1 200") == 4


async def test_much_is_sent_at_once_and_in_order(server):
    connection, transport = connect(server)
    connection.write(b"a")
    connection.write(b"b" * MAX_QUEUED_BYTES)
    assert transport.sent == b"a" + b"b" * MAX_QUEUED_BYTES
    connection.write(b"c")
    await asyncio.sleep(0)
    assert transport.sent.endswith(b"bc")


@pytest.mark.parametrize(
    "end",
    [
        pytest.param(lambda connection: connection.eof_received(), id="the client's EOF"),
        pytest.param(lambda connection: connection.close_if_idle(), id="an idle close"),
        pytest.param(lambda connection: connection.cut(), id="a reset"),
        pytest.param(lambda connection: connection.data_received(b"\0"), id="a bad request"),
    ],
)
async def test_an_answer_is_sent_before_its_connection_ends(server, end):
    connection, transport = connect(server)
    connection.data_received(GET)
    end(connection)
    assert transport.sent.startswith(b"HTTP/1.1 200")


async def test_nothing_is_written_to_a_connection_that_was_lost_meanwhile(server):
    connection, transport = connect(server)
    connection.data_received(GET)
    transport.closed = True
    connection.connection_lost(None)
    await asyncio.sleep(0)
    assert not transport.writes


async def test_a_failed_connection_does_not_hold_up_the_others():
    class Failing:
        def send(self):
            raise OSError("gone")

    class Sending:
        is_sent = False

        def send(self):
            self.is_sent = True

    queue, after = WriteQueue(), Sending()
    loop, errors = asyncio.get_running_loop(), []
    loop.set_exception_handler(lambda _loop, context: errors.append(context["exception"]))
    queue.add(Failing())
    queue.add(after)
    async with asyncio.timeout(PATIENCE):
        while not after.is_sent:
            await asyncio.sleep(0)
    assert [str(error) for error in errors] == ["gone"]


def start_exchange(others=1):
    pool = Pool(Origin("http", "upstream", 80), UpstreamLimits(), clock=lambda: 1.0)
    connection, transport = UpstreamConnection(pool), FakeTransport()
    connection.connection_made(transport)
    pool._connections.add(connection)
    pool._idle.append(connection)
    pool.in_flight = others
    answer = Answer()
    return pool, transport, connection, answer, pool.send(b"GET", b"/", b"", b"", answer)


async def test_a_connection_that_answers_before_it_is_asked_is_not_used_again():
    _, transport, connection, answer, _ = start_exchange()
    connection.data_received(OK)
    assert answer.body == b"ok"
    assert transport.aborted
    await asyncio.sleep(0)
    assert not transport.writes


async def test_a_request_that_is_cancelled_in_its_turn_is_not_sent():
    _, transport, _, _, exchange = start_exchange()
    exchange.cancel()
    await asyncio.sleep(0)
    assert not transport.writes


async def test_a_lone_request_is_sent_at_once():
    _, transport, _, _, _ = start_exchange(others=0)
    assert transport.sent.startswith(b"GET / HTTP/1.1")


async def test_a_request_is_sent_at_the_end_of_its_turn():
    _, transport, connection, answer, _ = start_exchange()
    assert not transport.writes
    await asyncio.sleep(0)
    assert transport.sent.startswith(b"GET / HTTP/1.1")
    connection.data_received(OK)
    assert answer.body == b"ok"
    assert not transport.aborted
