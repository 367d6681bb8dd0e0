"""The life cycle of `looptrap serve`: start-up banner, signals, reloads."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from collections.abc import Callable, Iterator, Sequence

from looptrap import __version__
from looptrap.config import Config, description
from looptrap.config.kind import MEMORY, Address, StorePlace
from looptrap.errors import ConfigError
from looptrap.gateway.app import App

log = logging.getLogger("looptrap")


class SignalHandler:
    """Handles SIGTERM and SIGINT, of which a second one ends the process at once, and SIGHUP."""

    def __init__(
        self, on_reload: Callable[[], None], on_end: Callable[[], None] = lambda: None
    ) -> None:
        """`on_end` is called before the process is ended at once."""
        self.stopped = asyncio.Event()
        self._on_end = on_end
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stop, number)
        loop.add_signal_handler(signal.SIGHUP, on_reload)

    def _stop(self, number: int) -> None:
        if self.stopped.is_set():
            log.warning("second signal: ending at once")
            self._on_end()
            os._exit(128 + number)
        self.stopped.set()


def reload_config(app: App, read: Callable[[], Config]) -> list[str] | None:
    """Apply the current file; return the settings that take effect at the next start.

    A file with mistakes changes nothing, and None is returned.
    """
    try:
        return app.reload(read())
    except ConfigError as error:
        log.error("the configuration has mistakes, the old one stays:\n%s", error)
        return None


def log_reload(waiting: list[str]) -> None:
    """Log that the configuration was read, and what of it is not in effect."""
    log.info("the configuration was read again")
    for place in waiting:
        log.warning("%s: changed, takes effect at the next start", place)


def banner(
    config: Config,
    listening: Sequence[tuple[str, int]],
    admin: tuple[str, int],
    asks_for_keys: bool,
) -> str:
    """Return the start-up message: addresses for clients, upstream and policies."""
    scheme = "https" if config.gateway.tls_cert else "http"
    url = f"{scheme}://{Address(*listening[0])}"
    lines = [f"Looptrap {__version__} guards {url}", ""]
    lines += [
        f"  OpenAI clients     OPENAI_BASE_URL={url}/v1",
        f"  Anthropic clients  ANTHROPIC_BASE_URL={url}",
        f"  Gemini clients     http_options={{'base_url': '{url}'}}",
        f"  Dashboard          http://{Address(*admin)}/",
        "",
    ]
    where = config.gateway.upstream or "OpenAI, Anthropic and Gemini, by the path"
    lines.append(f"Forwards to {where}.")
    lines.append("Asks for gateway keys." if asks_for_keys else "Callers use their own keys.")
    lines += _counting(config)
    if config.capture != "off":
        lines.append(f"Capturing {config.capture} to {config.gateway.capture_dir}.")
    alerts = [description.of_channel(channel) for channel in config.channels]
    lines += [f"{channel}." for channel in alerts] or [
        "Nobody is told of loops: there are no channels."
    ]
    lines.append(f"Policies{f' of preset {config.preset}' if config.preset else ''}:")
    for policy in config.policies:
        lines += [f"  {description.of_rule(rule)}" for rule in policy.rules]
        lines += [f"  {description.of_rate(rate)}" for rate in policy.rates]
    if config.budgets:
        lines.append("Budgets:")
        lines += [f"  {description.of_budget(budget)}" for budget in config.budgets]
    return "\n".join(lines)


def _counting(config: Config) -> Iterator[str]:
    """Yield a line about where calls are counted, unless in this process alone."""
    workers = config.gateway.workers
    if config.store != MEMORY:
        who = f"{workers} workers count" if workers > 1 else "Counts"
        place = StorePlace().plain(config.store)
        yield f"{who} in {place}, with all other instances that do."
    elif workers > 1:
        yield f"{workers} workers count together, in a Valkey that ends with them."
