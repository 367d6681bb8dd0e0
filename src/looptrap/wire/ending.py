"""How a server connection ends: politely, with a reset, or lingering so that an answer is read."""

from __future__ import annotations

import asyncio
import socket
import struct
from typing import TYPE_CHECKING

from looptrap.wire.limits import MEGABYTE

if TYPE_CHECKING:
    from looptrap.wire.server import Server

LINGER_BYTES = MEGABYTE
LINGER_SECONDS = 2.0
_RESET = struct.pack("ii", 1, 0)


class Ending(asyncio.Protocol):
    """The part of a connection that brings it to its end; what it reads afterwards is dropped."""

    __slots__ = (
        "_drained",
        "_ended",
        "_reading_paused",
        "_unsent",
        "_writing_paused",
        "deadline",
        "server",
        "transport",
    )

    transport: asyncio.Transport

    def __init__(self, server: Server) -> None:
        self.server = server
        self.deadline = 0.0
        self._ended = False  # nothing more is read as a request
        self._drained = 0
        self._reading_paused = False
        self._writing_paused = False
        self._unsent = 0  # of a slow reader's answer, when last looked at

    def _close(self) -> None:
        """Send what is written, then close."""
        self._ended = True
        self.deadline = self.server.clock() + self.server.limits.write_timeout
        self.transport.close()

    def _linger(self) -> None:
        """Send what is written and the end of our side; read on a while, unless the client stops.

        Closing with bytes unread would reset the connection, and the client might lose the answer.
        """
        self._ended = True
        self.deadline = self.server.clock() + LINGER_SECONDS
        self._resume_reading()
        if self.transport.can_write_eof() and not self.transport.is_closing():
            self.transport.write_eof()

    def _reset(self) -> None:
        """End at once: to the client, an unfinished answer must not look finished."""
        self._ended = True
        sock = self.transport.get_extra_info("socket")
        if sock is not None:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        self.transport.abort()

    def _drain(self, size: int) -> None:
        """Drop what a lingering connection still receives; leave the rest to the kernel."""
        self._drained += size
        if self._drained > LINGER_BYTES:
            self._pause_reading()

    def _pause_reading(self) -> None:
        if not self._reading_paused and not self.transport.is_closing():
            self._reading_paused = True
            self.transport.pause_reading()

    def _resume_reading(self) -> None:
        if self._reading_paused and not self.transport.is_closing():
            self._reading_paused = False
            self.transport.resume_reading()

    def _watch_writing(self) -> None:
        """Note that the client reads slowly, and until when some progress must be seen."""
        self._writing_paused = True
        self._unsent = self.transport.get_write_buffer_size()
        self.deadline = self.server.clock() + self.server.limits.write_timeout

    def _has_read_since(self, now: float) -> bool:
        """Has a slow reader taken anything since the last look? Then it gets more time."""
        unsent = self.transport.get_write_buffer_size()
        if unsent >= self._unsent:
            return False
        self._unsent = unsent
        self.deadline = now + self.server.limits.write_timeout
        return True
