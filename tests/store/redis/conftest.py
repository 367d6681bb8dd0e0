"""All tests of the shared store run on the loop that the product runs on."""

from contextlib import AsyncExitStack

import pytest
import uvloop
from tests.store.serving import server

from looptrap.store.redis import RedisStore


def pytest_asyncio_loop_factories():
    """Give every asynchronous test here a uvloop."""
    return {"uvloop": uvloop.new_event_loop}


@pytest.fixture(scope="module")
def valkey():
    """Return a server that a module's tests share and leave as they found it."""
    with server() as one:
        yield one


@pytest.fixture
async def connect():
    """Start a store at a URL: `await connect(url, **options)`."""
    async with AsyncExitStack() as stack:

        async def start(url, **options):
            store = RedisStore(url, **{"timeout": 5, "probe_every": 0.05, **options})
            stack.push_async_callback(store.stop)
            await store.start()
            return store

        yield start
