"""A gateway on a loop of its own, so that a command can wait for its answers."""

import asyncio
import threading
import time
from contextlib import contextmanager

from click.testing import CliRunner
from tests.admin.operating import operating
from tests.gateway.serving import JSON, chat
from tests.incident.alert.receiving import Receiver
from tests.store.serving import PATIENCE

from looptrap.cli import main


class Operated:
    """A gateway, somebody who gets its webhooks, and commands that reach it."""

    def __init__(self, here, admin, receiver, loop):
        self.here = here
        self.admin = admin
        self.receiver = receiver
        self.loop = loop

    def run(self, *arguments, **options):
        return CliRunner().invoke(main, [*arguments, "--admin", self.admin], **options)

    def wait(self, coroutine):
        """Run something on the gateway's loop; return what it returns."""
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result(PATIENCE)

    def ask(self, times=1, text="Again?", **headers):
        """Send the same so many times; return the statuses."""

        async def ask():
            asked = [
                await self.here.ask(headers=JSON | headers, body=chat(text)) for _ in range(times)
            ]
            return [answer.status for answer in asked]

        return self.wait(ask())

    def until(self, is_so, *arguments):
        """Run a command again and again until what it printed is as wanted; return its result."""
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            result = self.run(*arguments)
            if is_so(result.stdout):
                return result
            time.sleep(0.02)
        raise AssertionError(f"it still says: {result.output}")


@contextmanager
def operated(folder, toml="", **options):
    """Serve a configuration; `{hook}` in it leads to the receiver."""
    ready, stopped, found = threading.Event(), asyncio.Event(), []

    async def serve():
        async with Receiver.running() as receiver:
            text = toml.replace("{hook}", receiver.url)
            async with operating(folder, text, **options) as (here, operator):
                admin = f"127.0.0.1:{operator._base_url.port}"
                found.append(Operated(here, admin, receiver, asyncio.get_running_loop()))
                ready.set()
                await stopped.wait()

    thread = threading.Thread(target=asyncio.run, args=[serve()])
    thread.start()
    try:
        assert ready.wait(PATIENCE)
        yield found[0]
    finally:
        if found:
            found[0].loop.call_soon_threadsafe(stopped.set)
        thread.join(PATIENCE)
