"""What signals ask of a running gateway: to stop, to end at once, to read its settings again."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from collections.abc import Callable

from looptrap.config import Config
from looptrap.errors import ConfigError
from looptrap.gateway.app import KEPT, App

log = logging.getLogger("looptrap")


class Orders:
    """Takes SIGTERM and SIGINT, of which a second one ends the process at once, and SIGHUP."""

    def __init__(
        self, on_reload: Callable[[], None], on_end: Callable[[], None] = lambda: None
    ) -> None:
        """`on_end` is the last that is done when there is no time for more."""
        self.stopped = asyncio.Event()
        self._on_end = on_end
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stop, number)
        loop.add_signal_handler(signal.SIGHUP, on_reload)

    def _stop(self, number: int) -> None:
        if self.stopped.is_set():
            log.warning("told again: ending at once")
            self._on_end()
            os._exit(128 + number)
        self.stopped.set()


def read_again(app: App, read: Callable[[], Config]) -> list[str] | None:
    """Go on under the file as it is now; return the settings that wait for the next start.

    One with mistakes changes nothing, and None is returned.
    """
    before = app.config
    try:
        waiting = app.reload(read())
    except ConfigError as error:
        log.error("the configuration has mistakes, the old one stays:\n%s", error)
        return None
    after = app.config
    kept = [name for name in KEPT if getattr(before, name) != getattr(after, name)]
    return [*(f"gateway.{name}" for name in waiting), *kept]


def tell(waiting: list[str]) -> None:
    """Say that the configuration was read, and what of it is not in effect."""
    log.info("the configuration was read again")
    for place in waiting:
        log.warning("%s: changed, takes effect at the next start", place)
