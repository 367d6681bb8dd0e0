"""What a supervisor and a worker tell each other, over a pair of sockets that nobody else has."""

from __future__ import annotations

import asyncio
import pickle
import socket
from dataclasses import dataclass

from looptrap.config import Config
from looptrap.errors import Problem


@dataclass(frozen=True, slots=True)
class StartMessage:
    """The first word to a worker: what to serve; whatever follows is a Config to go on under."""

    config: Config
    token: str
    """What the worker's own admin address asks for."""
    leftover: str
    """A folder to remove when the supervisor was killed; may be empty."""


@dataclass(frozen=True, slots=True)
class ReadyMessage:
    """A worker serves; its own admin address is there."""

    admin: tuple[str, int]
    asks_for_keys: bool


@dataclass(frozen=True, slots=True)
class ReloadedMessage:
    """A worker goes on under the configuration it was sent."""


@dataclass(frozen=True, slots=True)
class FailedMessage:
    """A worker cannot do what it was told."""

    problems: tuple[Problem, ...]


WorkerMessage = StartMessage | Config | ReadyMessage | ReloadedMessage | FailedMessage


class WorkerChannel:
    """Sends and receives messages; the end of one side is the end of the other's channel."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def over(cls, end: socket.socket) -> WorkerChannel:
        """Return a channel over one end of a pair of sockets."""
        return cls(*await asyncio.open_connection(sock=end))

    def send(self, message: WorkerMessage) -> None:
        """Send a message; where nobody is left to hear it, nothing happens."""
        content = pickle.dumps(message)
        self._writer.write(len(content).to_bytes(4, "big") + content)

    async def receive(self) -> WorkerMessage | None:
        """Return the next message, or None when the other side is gone."""
        try:
            size = int.from_bytes(await self._reader.readexactly(4), "big")
            # From a process of ours, over a descriptor that no other has.
            message: WorkerMessage = pickle.loads(await self._reader.readexactly(size))
        except (EOFError, OSError):
            return None
        return message

    async def close(self) -> None:
        """Send what waits, and end."""
        self._writer.close()
        try:
            await self._writer.wait_closed()
        except OSError:
            return
