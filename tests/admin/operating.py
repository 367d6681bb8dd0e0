"""A gateway with its admin listener, and a client of that."""

from contextlib import asynccontextmanager

import aiohttp
from tests.gateway.serving import serving

from looptrap.admin.auth import configured_access, token_access
from looptrap.admin.server import DEFAULT_TIMEOUTS, AdminServer
from looptrap.config.kind import Address


@asynccontextmanager
async def operating(
    folder, toml="", *, token="", read_token="", tokens=None, timeouts=DEFAULT_TIMEOUTS, **options
):
    """Serve a configuration and its operators; `tokens` are variables that it names."""
    async with serving(folder, toml, **options) as here:
        access = token_access(token, read_token)
        if tokens is not None:
            access = configured_access(here.app.config, tokens)
        admin = AdminServer(here.app, Address("127.0.0.1", 0), access, timeouts=timeouts)
        here.admin = admin
        host, port = await admin.start()
        try:
            async with aiohttp.ClientSession(f"http://{host}:{port}") as operator:
                yield here, operator
        finally:
            await admin.stop()


async def told(operator, method, path, *, status=200, **sent):
    """Send a request, see that it has this status, and return what it was answered."""
    async with operator.request(method, path, **sent) as answer:
        content = await answer.json()
        assert answer.status == status, content
        return content
