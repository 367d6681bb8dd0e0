"""All workers of a gateway, from the first start to the last answer."""

from __future__ import annotations

import asyncio
import logging
import secrets
import socket
import sys
from asyncio.subprocess import DEVNULL, Process
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from looptrap.admin.worker_proxy import WorkerEndpoint
from looptrap.config import Config
from looptrap.config.kind import Address
from looptrap.errors import ConfigError, Problem
from looptrap.workers.channel import (
    FailedMessage,
    ReadyMessage,
    ReloadedMessage,
    StartMessage,
    WorkerChannel,
)
from looptrap.workers.supervised_process import MAX_FUTILE_STARTS, SupervisedProcess

RELOAD_TIMEOUT_S = 10.0
"""Seconds for a worker to go on under another configuration."""

log = logging.getLogger("looptrap")


class WorkerProcess(SupervisedProcess):
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
        self._channel: WorkerChannel | None = None
        self._heard = asyncio.Event()

    async def reload(self, config: Config) -> None:
        """Go on under another configuration; return when the worker does, or has failed to."""
        self.config = config
        if not self.up.is_set() or self._channel is None:
            return  # it will be told as soon as it is up
        self._heard.clear()
        self._channel.send(config)
        with suppress(TimeoutError):
            await asyncio.wait_for(self._heard.wait(), RELOAD_TIMEOUT_S)

    async def _spawn(self) -> Process:
        ours, theirs = socket.socketpair()
        try:
            with theirs:
                process = await asyncio.create_subprocess_exec(
                    *(sys.executable, "-P", "-m", "looptrap.workers.worker"),
                    str(theirs.fileno()),
                    stdin=DEVNULL,
                    pass_fds=[theirs.fileno()],
                    start_new_session=True,  # Ctrl-C is for the supervisor, which knows the order
                )
        except BaseException:
            ours.close()
            raise
        self._channel = await WorkerChannel.over(ours)
        return process

    async def _attend(self) -> None:
        channel, told = self._channel, self.config
        assert channel is not None  # made with the process
        channel.send(StartMessage(told, self.token, self._leftover))
        try:
            while (message := await channel.receive()) is not None:
                match message:
                    case ReadyMessage():
                        self.admin = message.admin
                        self.asks_for_keys = message.asks_for_keys
                        self._is_up()
                        if self.config is not told:
                            channel.send(self.config)
                    case ReloadedMessage():
                        self._heard.set()
                    case FailedMessage():
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


STOP_MARGIN_S = 15.0
"""Seconds beyond the grace in which a worker may write down its last captures."""


class WorkerPool:
    """Starts the workers, has each replaced when it ends, and stops them together."""

    def __init__(self, config: Config, leftover: Path | None = None) -> None:
        """`leftover` is a folder for workers to remove should their supervisor be killed."""
        self._config = config
        self._posts = [
            WorkerProcess(config, str(leftover or ""), self._take_stock)
            for _ in range(config.gateway.workers)
        ]
        self.is_complete = False
        self.is_stopping = False
        self.lost: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """A ConfigError when no worker is left and none can be started."""

    @property
    def size(self) -> int:
        """How many workers there should be."""
        return len(self._posts)

    @property
    def restarts(self) -> int:
        """How many workers ended and were replaced."""
        return sum(post.restarts for post in self._posts)

    @property
    def asks_for_keys(self) -> bool:
        """Whether callers need a gateway key."""
        return any(post.asks_for_keys for post in self._posts)

    def members(self) -> Sequence[WorkerEndpoint]:
        """Return the workers that serve."""
        return [
            WorkerEndpoint(post.pid, post.admin, post.token)
            for post in self._posts
            if post.up.is_set() and post.pid is not None
        ]

    async def start(self) -> None:
        """Start all workers; raise ConfigError where that cannot be done."""
        for post in self._posts:
            post.start()
        await asyncio.gather(*(post.first_up for post in self._posts))
        self.is_complete = True

    async def stop(self) -> None:
        """Let every worker finish what is in flight within the grace, and end."""
        self.is_stopping = True
        patience = self._config.gateway.grace + STOP_MARGIN_S
        await asyncio.gather(*(post.stop(patience) for post in self._posts))

    def kill(self) -> None:
        """End every worker at once."""
        self.is_stopping = True
        for post in self._posts:
            post.kill()

    async def reload(self, config: Config) -> None:
        """Go on under another configuration, in all workers; what a reload cannot change stays."""
        self._config = self._config.reloaded(config)
        await asyncio.gather(*(post.reload(self._config) for post in self._posts))

    def _take_stock(self) -> None:
        """Give up when there is nobody left, and starting others has come to nothing."""
        if all(post.futile >= MAX_FUTILE_STARTS for post in self._posts) and not self.lost.done():
            self.lost.set_exception(ConfigError([self._posts[0].ending()]))


class SharedPort:
    """An address that is ours for as long as this is open; it takes no connections itself."""

    def __init__(self, wanted: Address) -> None:
        """Find the port for 0; raise ConfigError where somebody else listens already."""
        self.address = wanted
        self._held: list[socket.socket] = []
        try:
            for family, _, _, _, place in socket.getaddrinfo(
                wanted.host, wanted.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
            ):
                self._hold(family, place)
        except OSError as error:
            self.close()
            why = (error.strerror or str(error)).lower()
            problem = Problem("gateway.listen", f"cannot listen at {wanted}: {why}")
            raise ConfigError([problem]) from None

    def close(self) -> None:
        """Let others have it."""
        for held in self._held:
            held.close()

    def _hold(self, family: int, place: tuple[object, ...]) -> None:
        # Sockets that share a port do not mind another gateway's: this one does.
        with _bind_socket(family, (place[0], self.address.port, *place[2:]), shares=False) as probe:
            found = probe.getsockname()
        self._held.append(_bind_socket(family, found, shares=True))
        self.address = replace(self.address, port=found[1])


def _bind_socket(family: int, place: tuple[object, ...], *, shares: bool) -> socket.socket:
    bound = socket.socket(family, socket.SOCK_STREAM)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if shares:
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        if family == socket.AF_INET6:
            bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        bound.bind(place)
    except BaseException:
        bound.close()
        raise
    return bound
