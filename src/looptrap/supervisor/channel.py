"""What a supervisor and a worker tell each other, over a pair of sockets that nobody else has."""

from __future__ import annotations

import asyncio
import pickle
import socket
from dataclasses import dataclass

from looptrap.config import Config
from looptrap.errors import Problem


@dataclass(frozen=True, slots=True)
class Order:
    """The first word to a worker: what to serve; whatever follows is a Config to go on under."""

    config: Config
    token: str
    """What the worker's own admin address asks for."""
    leftover: str
    """A folder to remove when the supervisor was killed; may be empty."""


@dataclass(frozen=True, slots=True)
class Up:
    """A worker serves; its own admin address is there."""

    admin: tuple[str, int]
    asks_for_keys: bool


@dataclass(frozen=True, slots=True)
class Reloaded:
    """A worker goes on under the configuration it was sent."""


@dataclass(frozen=True, slots=True)
class Failed:
    """A worker cannot do what it was told."""

    problems: tuple[Problem, ...]


Message = Order | Config | Up | Reloaded | Failed


class Channel:
    """Sends and receives messages; the end of one side is the end of the other's channel."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def over(cls, end: socket.socket) -> Channel:
        """Return a channel over one end of a pair of sockets."""
        return cls(*await asyncio.open_connection(sock=end))

    def send(self, message: Message) -> None:
        """Send a message; where nobody is left to hear it, nothing happens."""
        content = pickle.dumps(message)
        self._writer.write(len(content).to_bytes(4, "big") + content)

    async def receive(self) -> Message | None:
        """Return the next message, or None when the other side is gone."""
        try:
            size = int.from_bytes(await self._reader.readexactly(4), "big")
            # From a process of ours, over a descriptor that no other has.
            message: Message = pickle.loads(await self._reader.readexactly(size))
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
