"""Messages between supervisor and worker, over a private pair of sockets."""

from __future__ import annotations

import asyncio
import pickle
import socket
from dataclasses import dataclass

from looptrap.config import Config
from looptrap.errors import Problem


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
