"""Ways to a server: a port, a Unix socket, TLS; one of several databases."""

import pytest
from tests.store.driving import hit
from tests.store.serving import free_port, server
from tests.wire.fake_upstream import Authority


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority.make(tmp_path_factory.mktemp("authority"))


@pytest.fixture
def secured(authority):
    """Return the port of a server that speaks TLS only: the Valkey of PyPI speaks none."""
    authority.server("127.0.0.1")
    certificate = authority.folder / "server.pem"
    port = free_port()
    with server(
        "redis",
        tls_port=port,
        tls_cert_file=certificate,
        tls_key_file=certificate,
        tls_ca_cert_file=authority.file,
        tls_auth_clients="no",
    ):
        yield port


async def test_talks_tls_with_a_server_that_is_trusted(secured, authority, connect, caplog):
    store = await connect(f"rediss://127.0.0.1:{secured}?ca={authority.file}")
    assert await hit(store, b"\0\0k") == (1, False), caplog.text


async def test_does_not_talk_to_a_server_that_is_not_trusted(secured, connect, caplog):
    store = await connect(f"rediss://127.0.0.1:{secured}")
    assert await hit(store, b"\0\0k") == (1, True)
    assert "certificate verify failed" in caplog.text


async def test_a_file_of_certificates_that_is_not_there_is_told(connect, caplog):
    store = await connect("rediss://127.0.0.1:1?ca=/nonexistent/ca.pem")
    assert store.is_degraded
    assert "cannot read /nonexistent/ca.pem: No such file" in caplog.text


async def test_databases_are_counted_apart(valkey, connect):
    stores = [await connect(f"{valkey.url}?db={number}") for number in (0, 3)]
    assert [await hit(store, b"\0\0db") for store in stores] == [(1, False)] * 2
    assert valkey.client(db=3).keys("lt:*:db")


async def test_a_port_and_a_socket_lead_to_the_same_counts(connect):
    with server(port=free_port()) as one:
        by_port = await connect(one.url)
        by_socket = await connect(f"unix://{one.socket}")
        assert await hit(by_port, b"\0\0k") == (1, False)
        assert await hit(by_socket, b"\0\0k") == (2, False)


async def test_a_host_that_cannot_be_one_is_told(connect, caplog):
    store = await connect(f"redis://{'x' * 80}")
    assert store.is_degraded
    assert "is not the name of a host" in caplog.text
