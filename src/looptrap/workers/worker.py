"""The worker process: serves at the shared port, and is controlled by a WorkerProcess."""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
import signal
import socket
import sys

import uvloop

from looptrap.admin.auth import token_access
from looptrap.admin.server import AdminServer
from looptrap.config import Config
from looptrap.config.kind import Address
from looptrap.errors import ConfigError
from looptrap.gateway.app import App, tune_gc
from looptrap.workers.pool import (
    FailedMessage,
    ReadyMessage,
    ReloadedMessage,
    StartMessage,
    WorkerChannel,
)

WORKER_ADMIN_ADDRESS = Address("127.0.0.1", 0)

log = logging.getLogger("looptrap")


def main(descriptor: int) -> int:
    """Serve under the supervisor at that descriptor; return the exit status."""
    logging.basicConfig(format="%(levelname)s [%(process)d] %(message)s", level=logging.INFO)
    # The supervisor handles these two.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(_run(socket.socket(fileno=descriptor)))


async def _run(end: socket.socket) -> int:
    stopped = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
    channel = await WorkerChannel.over(end)
    start = await channel.receive()
    if not isinstance(start, StartMessage):
        return 1  # the supervisor is gone
    try:
        # The folder to remove is that of the embedded store.
        app = App(start.config, os.environ, has_embedded_store=bool(start.leftover))
        admin = AdminServer(app, WORKER_ADMIN_ADDRESS, token_access(start.token))
        await app.start(reuse_port=True)
        admin_address = await admin.start()
        tune_gc()
        channel.send(ReadyMessage(admin_address, app.ring.has_keys))
    except ConfigError as error:
        channel.send(FailedMessage(tuple(error.problems)))
        await channel.close()
        return 2
    reloads = asyncio.ensure_future(_follow_reloads(channel, app))
    stopping = asyncio.ensure_future(stopped.wait())
    await asyncio.wait([reloads, stopping], return_when=asyncio.FIRST_COMPLETED)
    await app.stop()
    await admin.stop()
    if reloads.done() and start.leftover:
        # The supervisor was killed, and cannot remove it.
        shutil.rmtree(start.leftover, ignore_errors=True)
    stopping.cancel()
    reloads.cancel()
    return 0


async def _follow_reloads(channel: WorkerChannel, app: App) -> None:
    """Reload every configuration that is sent; return when the supervisor is gone."""
    while (message := await channel.receive()) is not None:
        if not isinstance(message, Config):
            continue
        try:
            app.reload(message)
        except ConfigError as error:
            channel.send(FailedMessage(tuple(error.problems)))
        else:
            channel.send(ReloadedMessage())
    log.warning("the supervisor is gone: stopping")


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1])))
