"""One worker as its supervisor sees it."""

from __future__ import annotations

import asyncio
import logging
import secrets
import socket
import sys
from asyncio.subprocess import DEVNULL, Process
from collections.abc import Callable
from contextlib import suppress

from looptrap.config import Config
from looptrap.errors import ConfigError
from looptrap.supervisor.channel import Channel, Failed, Order, Reloaded, Up
from looptrap.supervisor.child import Child

RELOAD_PATIENCE = 10.0
"""Seconds for a worker to go on under another configuration."""

log = logging.getLogger("looptrap")


class Post(Child):
    """Has a worker on it, and another when that one ends; each gets the configuration of the day.

    A fresh interpreter, not a fork: a worker is replaced while loop and threads run here, and what
    they hold in that moment cannot be copied safely.
    """

    name = "worker"

    def __init__(self, config: Config, leftover: str, on_end: Callable[[], None]) -> None:
        super().__init__(on_end)
        self.config = config
        self.admin = ("", 0)
        """Where the worker on this post tells of itself; good while it is up."""
        self.asks_for_keys = False
        self.token = secrets.token_urlsafe(32)
        self._leftover = leftover
        self._channel: Channel | None = None
        self._heard = asyncio.Event()

    async def reload(self, config: Config) -> None:
        """Go on under another configuration; return when the worker does, or has failed to."""
        self.config = config
        if not self.up.is_set() or self._channel is None:
            return  # it will be told as soon as it is up
        self._heard.clear()
        self._channel.send(config)
        with suppress(TimeoutError):
            await asyncio.wait_for(self._heard.wait(), RELOAD_PATIENCE)

    async def _spawn(self) -> Process:
        ours, theirs = socket.socketpair()
        try:
            with theirs:
                process = await asyncio.create_subprocess_exec(
                    *(sys.executable, "-P", "-m", "looptrap.supervisor.worker"),
                    str(theirs.fileno()),
                    stdin=DEVNULL,
                    pass_fds=[theirs.fileno()],
                    start_new_session=True,  # Ctrl-C is for the supervisor, which knows the order
                )
        except BaseException:
            ours.close()
            raise
        self._channel = await Channel.over(ours)
        return process

    async def _attend(self) -> None:
        channel, told = self._channel, self.config
        assert channel is not None  # made with the process
        channel.send(Order(told, self.token, self._leftover))
        try:
            while (message := await channel.receive()) is not None:
                match message:
                    case Up():
                        self.admin = message.admin
                        self.asks_for_keys = message.asks_for_keys
                        self._is_up()
                        if self.config is not told:
                            channel.send(self.config)
                    case Reloaded():
                        self._heard.set()
                    case Failed():
                        self._fail(ConfigError(message.problems))
        finally:
            self._channel = None
            self._heard.set()
            await channel.close()

    def _fail(self, error: ConfigError) -> None:
        self._heard.set()
        if self.first_up.done():
            log.error("%s %s: %s", self.name, self.pid, error)
        self._cannot_start(error)
