"""WorkerPool: all workers of a gateway, the messages to them, and the port that they share."""

from __future__ import annotations

import asyncio
import logging
import pickle
import secrets
import socket
import sys
from asyncio.subprocess import DEVNULL, Process
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from looptrap.admin.worker_proxy import WorkerEndpoint
from looptrap.config import Config
from looptrap.config.kind import Address
from looptrap.errors import ConfigError, Problem
from looptrap.gateway.app import listen_error
from looptrap.workers.supervised_process import MAX_FAILED_STARTS, SupervisedProcess

RELOAD_TIMEOUT_S = 10.0
"""Seconds for a worker to reload."""

log = logging.getLogger("looptrap")


@dataclass(frozen=True, slots=True)
class StartMessage:
    """The first message to a worker; each later one is a Config to reload."""

    config: Config
    token: str
    """The token of the worker's own admin address."""
    leftover: str
    """A folder to remove if the supervisor was killed; may be empty."""


@dataclass(frozen=True, slots=True)
class ReadyMessage:
    """The worker serves, and its own admin address is open."""

    admin: tuple[str, int]
    asks_for_keys: bool


@dataclass(frozen=True, slots=True)
class ReloadedMessage:
    """The worker has reloaded the configuration."""


@dataclass(frozen=True, slots=True)
class FailedMessage:
    """The worker could not start or reload."""

    problems: tuple[Problem, ...]


WorkerMessage = StartMessage | Config | ReadyMessage | ReloadedMessage | FailedMessage


class WorkerChannel:
    """Sends and receives messages; when one side ends, the other's channel ends."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def over(cls, end: socket.socket) -> WorkerChannel:
        """Return a channel over one end of a pair of sockets."""
        return cls(*await asyncio.open_connection(sock=end))

    def send(self, message: WorkerMessage) -> None:
        """Send a message; does nothing if the other side is gone."""
        content = pickle.dumps(message)
        self._writer.write(len(content).to_bytes(4, "big") + content)

    async def receive(self) -> WorkerMessage | None:
        """Return the next message, or None if the other side is gone."""
        try:
            size = int.from_bytes(await self._reader.readexactly(4), "big")
            # Safe to unpickle: it comes from our own process, over a private descriptor.
            message: WorkerMessage = pickle.loads(await self._reader.readexactly(size))
        except (EOFError, OSError):
            return None
        return message

    async def close(self) -> None:
        """Send what is buffered, and close."""
        self._writer.close()
        try:
            await self._writer.wait_closed()
        except OSError:
            return


class WorkerProcess(SupervisedProcess):
    """Keeps one worker running; each restart gets the current configuration.

    A new interpreter, not a fork: workers are replaced while a loop and threads run here, whose
    locks cannot be copied safely.
    """

    name = "worker"

    def __init__(self, config: Config, leftover: str, on_end: Callable[[], None]) -> None:
        super().__init__(on_end)
        self.config = config
        self.admin = ("", 0)
        """The worker's own admin address; valid while it is ready."""
        self.asks_for_keys = False
        self.token = secrets.token_urlsafe(32)
        self._leftover = leftover
        self._channel: WorkerChannel | None = None
        self._reloaded = asyncio.Event()

    async def reload(self, config: Config) -> None:
        """Reload the worker; return when it has reloaded, failed or timed out."""
        self.config = config
        if not self.ready.is_set() or self._channel is None:
            return  # it gets the configuration when it is ready
        self._reloaded.clear()
        self._channel.send(config)
        with suppress(TimeoutError):
            await asyncio.wait_for(self._reloaded.wait(), RELOAD_TIMEOUT_S)

    async def _spawn(self) -> Process:
        ours, theirs = socket.socketpair()
        try:
            with theirs:
                process = await asyncio.create_subprocess_exec(
                    *(sys.executable, "-P", "-m", "looptrap.workers.worker"),
                    str(theirs.fileno()),
                    stdin=DEVNULL,
                    pass_fds=[theirs.fileno()],
                    start_new_session=True,  # Ctrl-C is for the supervisor
                )
        except BaseException:
            ours.close()
            raise
        self._channel = await WorkerChannel.over(ours)
        return process

    async def _supervise(self) -> None:
        channel, config = self._channel, self.config
        assert channel is not None  # set by _spawn
        channel.send(StartMessage(config, self.token, self._leftover))
        try:
            while (message := await channel.receive()) is not None:
                match message:
                    case ReadyMessage():
                        self.admin = message.admin
                        self.asks_for_keys = message.asks_for_keys
                        self._set_ready()
                        if self.config is not config:
                            channel.send(self.config)
                    case ReloadedMessage():
                        self._reloaded.set()
                    case FailedMessage():
                        error = ConfigError(message.problems)
                        self._reloaded.set()
                        if self.first_ready.done():
                            log.error("%s %s: %s", self.name, self.pid, error)
                        self._cannot_start(error)
        finally:
            self._channel = None
            self._reloaded.set()
            await channel.close()


STOP_MARGIN_S = 15.0
"""Seconds beyond the grace for a worker to write its last captures."""


class WorkerPool:
    """Starts the workers, replaces each that ends, and stops them together."""

    def __init__(self, config: Config, leftover: Path | None = None) -> None:
        """`leftover` is a folder for workers to remove if their supervisor is killed."""
        self._config = config
        self._workers = [
            WorkerProcess(config, str(leftover or ""), self._check_all_failed)
            for _ in range(config.gateway.workers)
        ]
        self.is_complete = False
        self.is_stopping = False
        self.failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Fails with ConfigError when no worker can be started any more."""

    @property
    def size(self) -> int:
        """The configured number of workers."""
        return len(self._workers)

    @property
    def restarts(self) -> int:
        """The number of workers that ended and were replaced."""
        return sum(worker.restarts for worker in self._workers)

    @property
    def asks_for_keys(self) -> bool:
        """Whether callers need a gateway key."""
        return any(worker.asks_for_keys for worker in self._workers)

    def members(self) -> Sequence[WorkerEndpoint]:
        """Return the workers that are ready."""
        return [
            WorkerEndpoint(worker.pid, worker.admin, worker.token)
            for worker in self._workers
            if worker.ready.is_set() and worker.pid is not None
        ]

    async def start(self) -> None:
        """Start all workers; raise ConfigError if one cannot start."""
        for worker in self._workers:
            worker.start()
        await asyncio.gather(*(worker.first_ready for worker in self._workers))
        self.is_complete = True

    async def stop(self) -> None:
        """Stop every worker; requests in flight may finish within the grace."""
        self.is_stopping = True
        settings = self._config.gateway
        timeout = settings.stop_delay + settings.grace + STOP_MARGIN_S
        await asyncio.gather(*(worker.stop(timeout) for worker in self._workers))

    def kill(self) -> None:
        """Kill every worker."""
        self.is_stopping = True
        for worker in self._workers:
            worker.kill()

    async def reload(self, config: Config) -> None:
        """Reload all workers; settings that need a restart stay as they are."""
        self._config = self._config.after_reload(config)
        await asyncio.gather(*(worker.reload(self._config) for worker in self._workers))

    def _check_all_failed(self) -> None:
        """Fail when every worker has failed to start too often."""
        have_failed = all(worker.failed_starts >= MAX_FAILED_STARTS for worker in self._workers)
        if have_failed and not self.failed.done():
            self.failed.set_exception(self._workers[0].last_error())


class SharedPort:
    """Reserves an address for the workers; it accepts no connections itself."""

    def __init__(self, address: Address) -> None:
        """Choose the port for 0; raise ConfigError if the address is in use."""
        self.address = address
        self._sockets: list[socket.socket] = []
        try:
            for family, _, _, _, found in socket.getaddrinfo(
                address.host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
            ):
                self._reserve(family, found)
        except OSError as error:
            self.close()
            raise listen_error("listen", address, error) from None

    def close(self) -> None:
        """Release the address."""
        for sock in self._sockets:
            sock.close()

    def _reserve(self, family: int, address: tuple[object, ...]) -> None:
        # Sockets with SO_REUSEPORT would also share with another gateway; the probe does not.
        address = (address[0], self.address.port, *address[2:])
        with _bind_socket(family, address, reuse_port=False) as probe:
            bound = probe.getsockname()
        self._sockets.append(_bind_socket(family, bound, reuse_port=True))
        self.address = replace(self.address, port=bound[1])


def _bind_socket(family: int, address: tuple[object, ...], *, reuse_port: bool) -> socket.socket:
    bound = socket.socket(family, socket.SOCK_STREAM)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if reuse_port:
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        if family == socket.AF_INET6:
            bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        bound.bind(address)
    except BaseException:
        bound.close()
        raise
    return bound
