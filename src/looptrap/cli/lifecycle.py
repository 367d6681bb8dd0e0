"""The life cycle of `looptrap serve`: alone or with workers, its banner, signals and reloads."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from collections.abc import Callable, Coroutine, Iterator
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Any

import click

from looptrap import __version__
from looptrap.admin.auth import configured_access
from looptrap.admin.server import AdminServer
from looptrap.admin.worker_proxy import WorkerProxy
from looptrap.cli.output import plural
from looptrap.cli.start_check import has_route_for_all, routed_providers
from looptrap.config import Config, description
from looptrap.config.kind import MEMORY, Address, StorePlace
from looptrap.errors import ConfigError
from looptrap.gateway.app import App, tune_gc
from looptrap.gateway.state_file import StateFile, digest_secret
from looptrap.schema.wording import listed
from looptrap.workers.embedded_valkey import EmbeddedValkey, find_valkey_program
from looptrap.workers.pool import SharedPort, WorkerPool

log = logging.getLogger("looptrap")

ConfigReader = Callable[[], Config]
"""Reads the configuration again."""


async def serve_alone(config: Config, read: ConfigReader) -> None:
    """Run the gateway in this process until a signal stops it."""
    access = configured_access(config, os.environ)
    app = App(config, os.environ)
    admin = AdminServer(app, config.gateway.admin, access)

    listening = await app.start()
    try:
        admin_at = await admin.start()
        tune_gc()
        stopped = _handle_signals(Reloader(app, read).begin)
        # Last: signals may be sent once it was printed.
        click.echo(banner(config, listening[0], admin_at, app.ring.has_keys), err=True)
        await stopped.wait()
        _log_stop(app)
    finally:
        await app.stop()
        await admin.stop()


async def serve_workers(config: Config, read: ConfigReader) -> None:
    """Run the workers, and what they need, until a signal stops them."""
    access = configured_access(config, os.environ)
    app = App(config, os.environ)  # never started: it finds mistakes, now and at every reload
    async with AsyncExitStack() as stack:
        port = SharedPort(config.gateway.listen)
        stack.callback(port.close)
        embedded = _embedded_store(config)
        if embedded is not None:
            stack.push_async_callback(embedded.stop)
        store = config.store if embedded is None else embedded.url
        shared = replace(config, store=store, gateway=replace(config.gateway, listen=port.address))
        pool = WorkerPool(shared, embedded.folder if embedded else None)

        def kill() -> None:
            pool.kill()
            if embedded is not None:
                embedded.kill()

        stopped = _handle_signals(Reloader(app, read, pool).begin, kill)
        proxy = WorkerProxy(app, pool, config.gateway.admin, access)
        admin_at = await proxy.start()
        stack.push_async_callback(proxy.stop)
        stack.push_async_callback(pool.stop)

        async def work() -> None:
            if embedded is not None:
                embedded.start()
                await embedded.first_ready
            await pool.start()
            at = (port.address.host, port.address.port)
            click.echo(banner(config, at, admin_at, pool.asks_for_keys), err=True)
            await pool.failed

        await _until(stopped, work())
        _log_stop(app)


class Reloader:
    """Reads the configuration again, and applies it to the app and to workers, if any."""

    def __init__(self, app: App, read: ConfigReader, pool: WorkerPool | None = None) -> None:
        self._app = app
        self._read = read
        self._pool = pool
        self._tasks: set[asyncio.Task[None]] = set()

    def begin(self) -> None:
        """Begin to reload; a file with mistakes changes nothing."""
        try:
            restart_needed = self._app.reload(self._read())
        except ConfigError as error:
            log.error("the configuration has mistakes, the old one stays:\n%s", error)
            return
        task = asyncio.ensure_future(self._finish(restart_needed))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _finish(self, restart_needed: list[str]) -> None:
        if self._pool is not None:
            await self._pool.reload(self._app.config)
        log.info("the configuration was read again")
        for place in restart_needed:
            log.warning("%s: changed, takes effect at the next start", place)


def _handle_signals(
    on_reload: Callable[[], None], on_kill: Callable[[], None] = lambda: None
) -> asyncio.Event:
    """Reload on SIGHUP; return an event that SIGTERM and SIGINT set.

    A second one of these calls `on_kill` and ends the process at once.
    """
    stopped = asyncio.Event()

    def stop(number: int) -> None:
        if stopped.is_set():
            log.warning("second signal: ending at once")
            on_kill()
            os._exit(128 + number)
        stopped.set()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop, number)
    loop.add_signal_handler(signal.SIGHUP, on_reload)
    return stopped


def banner(
    config: Config, listening: tuple[str, int], admin: tuple[str, int], asks_for_keys: bool
) -> str:
    """Return the start-up message: addresses for clients, upstream, alerts and policies."""
    scheme = "https" if config.gateway.tls_cert else "http"
    url = f"{scheme}://{Address(*listening)}"
    keys = "Asks for gateway keys." if asks_for_keys else "Callers use their own keys."
    alerts = "" if config.channels else " No alerts are sent."
    lines = [
        f"Looptrap {__version__} guards {url}",
        f"  Clients    OPENAI_BASE_URL={url}/v1 ANTHROPIC_BASE_URL={url}"
        f" GOOGLE_GEMINI_BASE_URL={url}",
        f"  Dashboard  http://{Address(*admin)}/",
        f"Forwards to {_destinations(config)}. {keys}{alerts}",
        *_store_lines(config),
    ]
    if config.capture != "off":
        lines.append(f"Capturing {config.capture} to {config.gateway.capture_dir}.")
    lines += [f"{description.of_channel(channel)}." for channel in config.channels]
    lines.append(_policy_line(config))
    return "\n".join(lines)


def _destinations(config: Config) -> str:
    """Say where calls go: by routes, and all others."""
    routed = listed(routed_providers(config), "and")
    if routed and has_route_for_all(config):
        return routed
    others = config.gateway.upstream or "OpenAI, Anthropic and Gemini, by the path"
    return f"{routed} by routes; else to {others}" if routed else others


def _policy_line(config: Config) -> str:
    """Say how many rules, rates and budgets there are, and how to see them."""
    policies = config.policies
    numbers = [
        (sum(rule.enabled for one in policies for rule in one.rules), "rule"),
        (sum(rate.enabled for one in policies for rate in one.rates), "rate"),
        (len(config.budgets), "budget"),
    ]
    counted = [plural(number, noun) for number, noun in numbers if number]
    preset = f" of preset {config.preset}" if config.preset else ""
    return f"Policies{preset}: {listed(counted, 'and') or 'none'}; `looptrap check` lists them."


def _store_lines(config: Config) -> Iterator[str]:
    """Yield a line about where calls are counted, unless in this process alone."""
    workers = config.gateway.workers
    if config.store != MEMORY:
        who = f"{workers} workers count" if workers > 1 else "Counts"
        place = StorePlace().plain(config.store)
        yield f"{who} in {place}, with all other instances that do."
    elif workers > 1:
        yield f"{workers} workers count together, in a Valkey that ends with them."


def _embedded_store(config: Config) -> EmbeddedValkey | None:
    """Return the embedded store, which workers share where none is configured."""
    if config.store != MEMORY:
        return None
    return EmbeddedValkey(
        find_valkey_program(),
        max_fingerprints=config.max_fingerprints,
        secret=digest_secret(StateFile(config.gateway.state), os.environ),
    )


def _log_stop(app: App) -> None:
    settings = app.config.gateway
    first = f"new ones are accepted for {settings.stop_delay:g} s, " if settings.stop_delay else ""
    log.info("stopping: %scalls in flight have %g s to finish", first, settings.grace)


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
