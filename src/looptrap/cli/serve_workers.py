"""`looptrap serve --workers N`: several processes behind one address."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Any

import click

from looptrap.admin.worker_proxy import WorkerProxy
from looptrap.cli.lifecycle import SignalHandler, banner, log_reload, reload_config
from looptrap.config import Config
from looptrap.config.kind import MEMORY
from looptrap.gateway.app import App
from looptrap.gateway.runtime import token_from_env
from looptrap.gateway.state_file import StateFile, digest_secret
from looptrap.workers.embedded_valkey import EmbeddedValkey, find_valkey_program
from looptrap.workers.pool import SharedPort, WorkerPool

log = logging.getLogger("looptrap")


async def serve_workers(config: Config, read: Callable[[], Config]) -> None:
    """Run the workers, and what they need, until a signal stops them."""
    token = token_from_env(config.gateway.admin_token_env, "admin", os.environ)
    read_token = token_from_env(config.gateway.read_token_env, "read", os.environ)
    app = App(config, os.environ)  # never started: it finds mistakes, now and at every reload
    async with AsyncExitStack() as stack:
        port = SharedPort(config.gateway.listen)
        stack.callback(port.close)
        embedded = _embedded(config)
        if embedded is not None:
            stack.push_async_callback(embedded.stop)
        pool = WorkerPool(
            _of_workers(config, port, embedded), embedded.folder if embedded else None
        )
        signals = SignalHandler(_Reloads(app, read, pool).begin, lambda: _end(pool, embedded))
        proxy = WorkerProxy(app, pool, config.gateway.admin, token, read_token)
        admin_at = await proxy.start()
        stack.push_async_callback(proxy.stop)
        stack.push_async_callback(pool.stop)

        async def work() -> None:
            if embedded is not None:
                embedded.start()
                await embedded.first_ready
            await pool.start()
            at = (port.address.host, port.address.port)
            click.echo(banner(config, [at], admin_at, pool.asks_for_keys), err=True)
            await pool.failed

        await _until(signals.stopped, work())
        log.info("stopping: calls in flight have %g s to finish", app.config.gateway.grace)


class _Reloads:
    """Reads the configuration again and applies it to all workers."""

    def __init__(self, app: App, read: Callable[[], Config], pool: WorkerPool) -> None:
        self._app = app
        self._read = read
        self._pool = pool
        self._running: set[asyncio.Task[None]] = set()

    def begin(self) -> None:
        """Begin to reload; mistakes in the file change nothing."""
        waiting = reload_config(self._app, self._read)
        if waiting is not None:
            task = asyncio.get_running_loop().create_task(self._finish(self._app.config, waiting))
            self._running.add(task)
            task.add_done_callback(self._running.discard)

    async def _finish(self, config: Config, waiting: list[str]) -> None:
        await self._pool.reload(config)
        log_reload(waiting)


def _embedded(config: Config) -> EmbeddedValkey | None:
    """Return the embedded store, which workers share where none is configured."""
    if config.store != MEMORY:
        return None
    return EmbeddedValkey(
        find_valkey_program(),
        max_fingerprints=config.max_fingerprints,
        secret=digest_secret(StateFile(config.gateway.state), os.environ),
    )


def _of_workers(config: Config, port: SharedPort, embedded: EmbeddedValkey | None) -> Config:
    """Return the configuration for workers: with the shared port and store."""
    store = config.store if embedded is None else embedded.url
    return replace(config, store=store, gateway=replace(config.gateway, listen=port.address))


def _end(pool: WorkerPool, embedded: EmbeddedValkey | None) -> None:
    pool.kill()
    if embedded is not None:
        embedded.kill()


async def _until(stopped: asyncio.Event, work: Coroutine[Any, Any, None]) -> None:
    """Do that work until a signal; raise its errors."""
    working = asyncio.ensure_future(work)
    stopping = asyncio.ensure_future(stopped.wait())
    await asyncio.wait([working, stopping], return_when=asyncio.FIRST_COMPLETED)
    stopping.cancel()
    if working.done():
        await working
    working.cancel()
    await asyncio.gather(working, return_exceptions=True)
