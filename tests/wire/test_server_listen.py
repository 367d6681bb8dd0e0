"""Where the server listens, over what, and how it stops."""

import asyncio
import datetime
import ipaddress
import logging
import ssl

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from tests.wire.fake_client import PATIENCE, Client, Scripted, serving, until

from looptrap.wire.server import Server

GET = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"


@pytest.fixture(scope="module")
def contexts(tmp_path_factory):
    """TLS contexts for a server on 127.0.0.1 and for a client that trusts it."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "looptrap tests")])
    now = datetime.datetime.now(datetime.UTC)
    address = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([address]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem = certificate.public_bytes(serialization.Encoding.PEM)
    path = tmp_path_factory.mktemp("tls") / "both.pem"
    path.write_bytes(
        pem
        + key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(path)
    return server, ssl.create_default_context(cadata=pem.decode())


async def test_one_server_listens_at_several_addresses():
    server = Server(Scripted())
    try:
        bound = await server.listen("127.0.0.1", 0)
        bound += await server.listen("::1", 0)
        assert [host for host, _ in bound] == ["127.0.0.1", "::1"]
        for host, port in bound:
            client = Client(*await asyncio.open_connection(host, port))
            await client.send(GET)
            assert (await client.answer()).status == 200
            client.close()
        assert server.requests == 2
    finally:
        await server.close(0)


async def test_an_ipv6_peer_is_known_by_its_address():
    handler = Scripted()
    async with serving(handler, host="::1") as (_, connect):
        client = await connect()
        await client.send(GET)
        assert (await handler.next_exchange()).peer == "::1"


async def test_two_servers_share_a_port_that_both_open_for_it():
    first, second = Server(Scripted()), Server(Scripted())
    try:
        [(host, port)] = await first.listen("127.0.0.1", 0, reuse_port=True)
        assert await second.listen(host, port, reuse_port=True) == [(host, port)]
    finally:
        await first.close(0)
        await second.close(0)


async def test_an_address_in_use_is_an_error():
    async with serving() as (server, connect):
        with pytest.raises(OSError, match="in use"):
            await server.listen("127.0.0.1", connect.port)


async def test_requests_come_over_tls_too(contexts):
    server_context, client_context = contexts
    handler = Scripted()
    async with serving(handler, ssl=server_context) as (_, connect):
        client = await connect(ssl=client_context)
        await client.send(GET + GET)
        assert (await client.answer()).status == 200
        assert (await client.answer()).status == 200
        connection = (await handler.next_exchange()).connection
        assert connection.transport.get_extra_info("ssl_object") is not None


async def test_an_early_refusal_over_tls_is_read_in_full(contexts):
    server_context, client_context = contexts
    async with serving(ssl=server_context) as (_, connect):
        client = await connect(ssl=client_context)
        await client.send(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999\r\n\r\n")
        client.writer.write(b"x" * 500_000)
        assert (await client.answer()).status == 413


async def test_a_failed_handshake_is_no_event(contexts, caplog):
    caplog.set_level(logging.INFO)
    unhandled = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: unhandled.append(context))
    server_context, client_context = contexts
    async with serving(ssl=server_context) as (server, connect):
        plain = await connect()
        await plain.send(GET)
        with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
            await plain.head()
        with pytest.raises(ssl.SSLError):
            await connect(ssl=ssl.create_default_context())
        client = await connect(ssl=client_context)
        await client.send(GET)
        assert (await client.answer()).status == 200
        assert server.requests == 1
    assert unhandled == []
    assert caplog.records == []


async def test_closing_ends_idle_connections_and_lets_answers_finish():
    handler = Scripted(answer=None)
    server = Server(handler)
    [(host, port)] = await server.listen("127.0.0.1", 0)
    idle = Client(*await asyncio.open_connection(host, port))
    pending = Client(*await asyncio.open_connection(host, port))
    streaming = Client(*await asyncio.open_connection(host, port))
    await pending.send(GET)
    complete = await handler.next_exchange()
    await streaming.send(GET + GET)
    stream = await handler.next_exchange()
    stream.begin(200, b"OK", [], None)
    stream.flush()
    await until(lambda: server.connections == 3)

    closing = asyncio.create_task(server.close(PATIENCE))
    assert await idle.rest() == b""
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection(host, port)
    complete.answer(200, [], b"done")
    answer = await pending.answer()
    assert (answer.body, answer.headers[b"connection"]) == (b"done", b"close")
    stream.write(b"all of it")
    stream.finish()
    assert (await streaming.answer()).body == b"all of it"
    assert await streaming.rest() == b""
    streaming.close()
    await asyncio.wait_for(closing, PATIENCE)
    assert (server.connections, server.disconnects, len(handler.requests)) == (0, 0, 2)
    for client in (idle, pending):
        client.close()


async def test_a_request_half_sent_at_closing_is_still_answered():
    async with serving() as (server, connect):
        client = await connect()
        await client.send(GET[:10])
        await until(lambda: server.buffered_bytes == 10)
        closing = asyncio.create_task(server.close(PATIENCE))
        await asyncio.sleep(0)
        await client.send(GET[10:])
        assert (await client.answer()).headers[b"connection"] == b"close"
        await asyncio.wait_for(closing, PATIENCE)


async def test_what_outlasts_the_grace_is_cut():
    handler = Scripted(answer=None)
    async with serving(handler) as (server, connect):
        client = await connect()
        await client.send(GET)
        exchange = await handler.next_exchange()
        await server.close(0.01)
        assert handler.lost == [exchange]
        with pytest.raises((ConnectionResetError, asyncio.IncompleteReadError)):
            await client.head()
