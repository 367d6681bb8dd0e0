"""What the tests of the gateway as a whole share."""

from contextlib import AsyncExitStack

import pytest
import uvloop
from tests.gateway.serving import serving
from tests.gateway.tracing import listening, relayed
from tests.patience import PATIENCE, STORE_TIMEOUT
from tests.store.serving import server

from looptrap.config.gateway import TraceSettings
from looptrap.dialect.model import Outcome, Usage
from looptrap.gateway.trace import Tracer


def pytest_asyncio_loop_factories():
    """Give every asynchronous test here the loop that the product runs on."""
    return {"uvloop": uvloop.new_event_loop}


@pytest.fixture
async def serve(tmp_path):
    """Start a gateway in front of a provider: `await serve(toml, script=…, env=…, **flags)`."""
    async with AsyncExitStack() as stack:

        async def start(toml="", **options):
            return await stack.enter_async_context(serving(tmp_path, toml, **options))

        yield start


@pytest.fixture
def valkey():
    with server() as one:
        yield one


@pytest.fixture
async def instances(tmp_path, valkey):
    """Start gateways, each in a folder of its own, that share nothing but the store's URL."""
    async with AsyncExitStack() as stack:

        async def start(count=2, toml="", **options):
            started = []
            for number in range(count):
                folder = tmp_path / f"{number}-{len(list(tmp_path.iterdir()))}"
                folder.mkdir()
                shared = {"store": valkey.url, "store_timeout": STORE_TIMEOUT}
                here = serving(folder, toml, **(shared | options))
                started.append(await stack.enter_async_context(here))
            return started

        yield start


@pytest.fixture
def collector():
    with listening() as one:
        yield one


@pytest.fixture
def trace(collector):
    """Send the span of one settled call, and return it as the collector received it."""

    def send(relay=None, outcome=None, *, fields=b"", env=None, began=1000.5, ended=1002.0, **more):
        relay = relay or relayed()
        tracer = Tracer.of(TraceSettings(endpoint=collector.url, **more), env or {})
        tracer.start()
        span = tracer.begin(fields, began)
        outcome = outcome or Outcome(200, Usage(12, 34))
        relay.status = relay.status or outcome.status
        tracer.settled(span, relay, outcome, ended)
        tracer.stop(PATIENCE)
        return collector.spans[-1]

    return send
