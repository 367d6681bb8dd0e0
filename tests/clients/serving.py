"""A real gateway on a real socket, on a thread of its own."""

import asyncio
import threading
from contextlib import contextmanager
from dataclasses import replace

import uvloop
from tests.patience import PATIENCE

from looptrap.gateway.app import App
from looptrap.testing import Signal


class RunningGateway:
    """A gateway that serves in the background."""

    def __init__(self, app: App, host: str, port: int, loop: asyncio.AbstractEventLoop) -> None:
        self.app = app
        self.url = f"http://{host}:{port}"
        self.loop = loop


@contextmanager
def running_gateway(config, env=None):
    """Serve a configuration on its own thread until the block ends."""
    ready, over = Signal(), Signal()
    found, failures = [], []

    async def serve():
        try:
            app = App(replace(config, history=""), env or {})
            [(host, port)] = await app.start()
            found.append(RunningGateway(app, host, port, asyncio.get_running_loop()))
            ready.set()
            await over.wait(timeout=None)
            await app.stop()
        except BaseException as error:
            failures.append(error)
            raise
        finally:
            ready.set()

    def work():
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(serve())

    thread = threading.Thread(target=work, name="gateway", daemon=True)
    thread.start()
    try:
        ready.wait_blocking(PATIENCE)
        assert not failures, failures
        yield found[0]
    finally:
        over.set()
        thread.join()
