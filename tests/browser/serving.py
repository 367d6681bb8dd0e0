"""A gateway with its provider and its admin address, on a thread of their own, for a browser."""

import asyncio
import threading
from contextlib import contextmanager
from dataclasses import dataclass

import aiohttp
import uvloop
from tests.admin.operating import told
from tests.gateway.serving import CHAT, JSON, Serving, serving, until
from tests.store.serving import PATIENCE

from looptrap.admin.auth import token_access
from looptrap.admin.server import AdminServer
from looptrap.config.kind import Address


@dataclass
class Gateway:
    """What a test can do with a running gateway while a browser looks at it."""

    here: Serving
    loop: asyncio.AbstractEventLoop
    tokens: tuple[str, str]
    port: int = 0
    admin: AdminServer | None = None

    @property
    def url(self):
        """Where the dashboard is."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def provider(self):
        return self.here.provider

    def wait(self, coroutine):
        """Run something on the gateway's loop; return what it returns."""
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result(PATIENCE)

    def until(self, is_so):
        """Wait until something is so, which is looked at on the gateway's loop."""
        self.wait(until(is_so))

    def incidents(self, **wanted):
        """Return incidents that the history has, the latest opened first."""
        return self.here.app.recorder.history.incidents(**wanted).items

    def ask(self, body, **headers):
        """Send one call; return its answer."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return self.wait(self.here.ask(target=CHAT, headers=JSON | named, body=body))

    def change(self, method, path, value):
        """Change something as an operator does who has no browser; return what is answered."""

        async def send():
            async with aiohttp.ClientSession(self.url) as operator:
                return await told(operator, method, path, json=value)

        return self.wait(send())

    async def open_admin(self):
        """Listen for operators, where they were listened for before."""
        self.admin = AdminServer(
            self.here.app, Address("127.0.0.1", self.port), token_access(*self.tokens)
        )
        _, self.port = await self.admin.start()

    async def close_admin(self):
        await self.admin.stop()


@contextmanager
def watched(folder, toml="", *, token="", read_token="", **options):
    """Serve a configuration, and its operators."""
    ready, found, failed = threading.Event(), [], []

    async def serve():
        stopped = asyncio.Event()
        async with serving(folder, toml, **options) as here:
            gateway = Gateway(here, asyncio.get_running_loop(), (token, read_token))
            await gateway.open_admin()
            try:
                found.append((gateway, stopped))
                ready.set()
                await stopped.wait()
            finally:
                await gateway.close_admin()

    def work():
        try:
            with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                runner.run(serve())
        except BaseException as error:  # noqa: BLE001 - raised again by the thread that waits
            failed.append(error)
        finally:
            ready.set()

    thread = threading.Thread(target=work, name="gateway", daemon=True)
    thread.start()
    assert ready.wait(PATIENCE)
    if not found:
        raise failed[0]
    gateway, stopped = found[0]
    try:
        yield gateway
    finally:
        gateway.loop.call_soon_threadsafe(stopped.set)
        thread.join(PATIENCE)
    if failed:
        raise failed[0]
