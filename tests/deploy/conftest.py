"""What the tests of proxies that ask Looptrap share."""

from contextlib import AsyncExitStack

import pytest
import uvloop
from tests.deploy.proxying import envoy_command, find_envoy, nginx_command, running
from tests.gateway.serving import serving

from looptrap.testing import Reply

READS = """
[[policies]]
name = "reads"
select = { methods = ["GET", "POST", "DELETE"] }
  [[policies.rules]]
  name = "same-request"
  watch = "request"
  threshold = 4
  retry_after = 60
"""

COMMANDS = {"nginx": nginx_command, "envoy": envoy_command}

KNOWN_STATUS = {"nginx": "decision_status = 403", "envoy": ""}
"""What each proxy needs Looptrap to be told."""


def pytest_asyncio_loop_factories():
    """Give every asynchronous test here the loop that the product runs on."""
    return {"uvloop": uvloop.new_event_loop}


def answered(_):
    """Answer what a proxy forwards."""
    return Reply.status(200, {"ok": True})


@pytest.fixture
async def start(tmp_path, needs):
    """Start a proxy by its name, before a gateway: `await start("nginx", toml, script=…)`."""
    async with AsyncExitStack() as stack:

        async def begin(name, toml=READS, *, told=None, script=answered, asked=None, **options):
            program = needs("nginx", "nginx-light") if name == "nginx" else find_envoy()
            toml = f"{toml}\n[gateway]\n{KNOWN_STATUS[name] if told is None else told}"
            here = await stack.enter_async_context(
                serving(tmp_path, toml, script=script, **options)
            )
            proxy = running(COMMANDS[name], program, tmp_path, here, asked=asked)
            return await stack.enter_async_context(proxy)

        yield begin


@pytest.fixture(params=COMMANDS)
def name(request):
    return request.param


@pytest.fixture
async def proxy(start, name):
    """Every proxy that is shipped a configuration, before a gateway that counts reads."""
    return await start(name)
