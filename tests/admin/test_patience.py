"""Slow, large and broken requests to the admin address: none of them stays."""

import asyncio
import socket
import struct
import time
from contextlib import closing
from io import BytesIO

import pytest
from aiohttp import web
from tests.admin.operating import operating, told
from tests.gateway.serving import until
from tests.incident.history.test_usage import spent
from tests.store.serving import PATIENCE
from tests.wire.fake_client import Client

from looptrap.admin.server import ClientTimeouts

RELEASE = b"POST /api/v1/release HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"


LITTLE = ClientTimeouts(body=0.3, write=0.3, idle=0.3)


@pytest.fixture
async def operating_here(tmp_path):
    async with operating(tmp_path, timeouts=LITTLE) as both:
        yield both


@pytest.fixture
async def operator(operating_here):
    return operating_here[1]


async def connected(operator, **options):
    return await asyncio.open_connection("127.0.0.1", operator._base_url.port, **options)


async def test_a_body_that_does_not_come_is_not_waited_for(operator):
    reader, writer = await connected(operator)
    with closing(writer):
        writer.write(RELEASE + b'Content-Length: 50\r\n\r\n{"finger')
        answer = await Client(reader, writer).answer()
    assert answer.status == 408
    assert b"request_timeout" in answer.body


async def test_a_head_that_does_not_come_is_not_waited_for(operator):
    reader, writer = await connected(operator)
    with closing(writer):
        writer.write(b"GET /api/v1/status HTTP/1.1\r\nHost: local")
        async with asyncio.timeout(PATIENCE):
            assert await reader.read() == b""


async def test_who_does_not_read_the_answer_is_cut_off(operating_here):
    here, operator = operating_here
    calls = [(n, f"key:{n}" + "x" * 100, "", f"m{n}", 1) for n in range(1_000)]
    await asyncio.to_thread(here.app.recorder.history.put, spending=spent(*calls))
    # Together more than what sockets hold.
    span = b"since=2000-01-01T00:00:00Z&until=2100-01-01T00:00:00Z"
    question = b"GET /api/v1/spending?by=caller&limit=500&%b HTTP/1.1\r\n" % span
    with socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.connect(("127.0.0.1", operator._base_url.port))
        client.sendall((question + b"Host: localhost\r\n\r\n") * 60)
        await until(lambda: here.admin._runner.server.connections)
        await until(lambda: not here.admin._runner.server.connections)
        client.settimeout(PATIENCE)
        received = b"".join(iter(lambda: client.recv(1 << 16), b""))
    assert 0 < received.count(b"HTTP/1.1 200 OK") < 60
    await told(operator, "GET", "/api/v1/status")


@pytest.mark.parametrize(
    ("size", "status"), [(1_000_000, 400), (1_100_000, 413)], ids=["much", "too much"]
)
async def test_of_a_body_so_much_is_taken(operator, size, status):
    sent = {
        "data": BytesIO(b'"%b"' % (b"x" * size)),
        "headers": {"Content-Type": "application/json"},
    }
    found = await told(operator, "POST", "/api/v1/release", status=status, **sent)
    assert found["error"]["code"] == ("too_large" if status == 413 else "bad_request")


async def test_a_body_that_is_not_what_it_says_is_a_mistake(operator):
    headers = {"Content-Type": "application/json", "Content-Encoding": "gzip"}
    sent = {"data": b"no gzip at all", "headers": headers}
    found = await told(operator, "POST", "/api/v1/release", status=400, **sent)
    assert found["error"]["code"] == "bad_request"


async def test_what_fails_inside_is_answered_without_its_reasons(operator, monkeypatch, caplog):
    def broken(_app):
        raise RuntimeError("the caller's secret")

    monkeypatch.setattr("looptrap.admin.provider.provider_list", broken)
    found = await told(operator, "GET", "/api/v1/providers", status=500)
    assert found["error"]["code"] == "internal_error"
    assert "secret" not in str(found)
    assert "a question of an operator failed" in caplog.text


async def test_many_idle_clients_keep_nobody_out(operator):
    idle = [await connected(operator) for _ in range(50)]
    began = time.monotonic()
    await told(operator, "GET", "/api/v1/status")
    assert time.monotonic() - began < PATIENCE
    for _, writer in idle:
        writer.close()


async def test_a_stream_is_left_to_who_sends_it():
    answer = web.StreamResponse()
    assert await ClientTimeouts().send(None, answer) is answer


async def test_a_client_that_does_not_wait_for_its_answer_is_not_logged(operator, caplog):
    for _ in range(20):
        _, writer = await connected(operator)
        writer.write(b"GET /readyz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        # As load balancers end a check that took too long: with a reset.
        linger = struct.pack("ii", 1, 0)
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        writer.transport.abort()
    answer = await (await operator.get("/readyz")).json()
    assert answer == {"status": "ready"}
    assert caplog.records == []
