"""What attempts to exhaust a gateway share: the gateway on the test's own loop, and its figures."""

from contextlib import AsyncExitStack

import pytest
import uvloop
from tests.gateway.serving import serving


def pytest_asyncio_loop_factories():
    """Give every asynchronous test here the loop that the product runs on."""
    return {"uvloop": uvloop.new_event_loop}


@pytest.fixture
async def serve(tmp_path):
    """Start a gateway in front of a provider: `await serve(toml, script=…, **flags)`."""
    async with AsyncExitStack() as stack:

        async def start(toml="", **options):
            return await stack.enter_async_context(serving(tmp_path, toml, **options))

        yield start
