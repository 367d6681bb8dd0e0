"""WriteQueue: sends what one turn of the event loop brought, at its end."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Protocol

MAX_QUEUED_BYTES = 16_384
"""Bytes that wait for the end of a turn on one connection; more are sent at once, while they are
in the processor's cache."""


class QueuedConnection(Protocol):
    """A connection that holds bytes until `send` is called."""

    def send(self) -> None:
        """Send what is held, if the connection is open."""


class WriteQueue:
    """Connections with bytes to send.

    A write to a program on the same machine wakes it, which takes longer than the write itself if
    its core is idle. Of many writes in a row, only the first few do so. A lone exchange does not
    wait: it would only be later.
    """

    __slots__ = ("_waiting",)

    def __init__(self) -> None:
        self._waiting: deque[QueuedConnection] = deque()

    def add(self, connection: QueuedConnection) -> None:
        """Call the connection's `send` when this turn of the loop has read everything."""
        if not self._waiting:
            asyncio.get_running_loop().call_soon(self.flush)
        self._waiting.append(connection)

    def flush(self) -> None:
        """Let all connections send."""
        waiting = self._waiting
        try:
            while waiting:
                waiting.popleft().send()
        finally:
            if waiting:  # one of them failed: the others must not wait for ever
                asyncio.get_running_loop().call_soon(self.flush)
