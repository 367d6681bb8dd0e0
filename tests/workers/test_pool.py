"""One port for all workers, which no stranger listens at."""

import socket

import pytest

from looptrap.config.kind import Address
from looptrap.errors import ConfigError
from looptrap.workers.pool import SharedPort


def sharing(address):
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    listener = socket.socket(family)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    listener.bind((address.host, address.port))
    listener.listen()
    return listener


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "localhost"])
def test_a_port_is_found_and_several_can_listen_at_it(host):
    port = SharedPort(Address(host, 0))
    assert port.address.host == host
    assert port.address.port > 0
    if host != "localhost":
        with sharing(port.address), sharing(port.address) as other:
            assert other.getsockname()[1] == port.address.port
    port.close()


def test_it_takes_no_connections_from_those_who_listen():
    port = SharedPort(Address("127.0.0.1", 0))
    with sharing(port.address) as listener:
        listener.settimeout(5)
        for _ in range(20):
            with socket.create_connection(("127.0.0.1", port.address.port), 5):
                listener.accept()[0].close()
    port.close()


def test_a_port_is_not_shared_with_another_gateway():
    first = SharedPort(Address("127.0.0.1", 0))
    with sharing(first.address), pytest.raises(ConfigError, match="address already in use"):
        SharedPort(first.address)
    first.close()
    SharedPort(first.address).close()


@pytest.mark.parametrize("host", ["192.0.2.1", "nowhere.invalid"])
def test_an_address_that_is_not_ours_is_refused_in_words(host):
    with pytest.raises(ConfigError, match=rf"gateway\.listen: cannot listen at {host}:0: \w+"):
        SharedPort(Address(host, 0))
