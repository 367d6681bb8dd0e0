"""A fake provider, and clients of it that are guarded in this process."""

import pytest
from tests.client.vendors import close

import looptrap
from looptrap.testing import FakeProvider


@pytest.fixture
def provider():
    with FakeProvider.running() as provider:
        yield provider


@pytest.fixture
async def guarded(provider):
    """Return a function that makes a guarded client, from a vendor's own or from TOML."""
    clients = []

    def make(way, *args, client=None, **options):
        if client is None:
            url = way.base_url(provider.url)
            client = way.plain(base_url=url, api_key="sk-test", max_retries=0)
        clients.append(looptrap.guard(client, *args, **options))
        return clients[-1]

    yield make
    for client in clients:
        await close(client)


@pytest.fixture
def config(tmp_path):
    """Return a function that writes a configuration and returns where."""

    def write(toml):
        file = tmp_path / "looptrap.toml"
        file.write_text(toml)
        return file

    return write
