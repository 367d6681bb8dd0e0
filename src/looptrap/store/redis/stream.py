"""Streams: what instances tell each other, in order; the latest is there for who comes later."""

from __future__ import annotations

from collections.abc import AsyncIterator

from looptrap.store.redis.configuration import Configuration

AT_ONCE = 200
"""Entries that are read at a time."""


class Stream:
    """One stream, followed from its beginning; fails with an OSError while the store is away."""

    def __init__(
        self, configuration: Configuration, key: bytes, *, most: int, seconds: int
    ) -> None:
        """About the latest `most` entries are kept, for `seconds` after the last."""
        self._command = configuration.command
        self._key = key
        self._most = most
        self._seconds = seconds
        self._heard = b"0-0"

    async def push(self, value: bytes) -> None:
        """Tell all instances something."""
        command = self._command
        await command(b"XADD", self._key, b"MAXLEN", b"~", self._most, b"*", b"value", value)
        await command(b"EXPIRE", self._key, self._seconds)

    async def pull(self) -> AsyncIterator[bytes]:
        """Yield what was told since the last look; an entry that is not ours is empty."""
        while True:
            entries = await self._command(
                b"XRANGE", self._key, b"(" + self._heard, b"+", b"COUNT", AT_ONCE
            )
            for entry_id, fields in entries:
                yield fields[1] if len(fields) > 1 else b""
                self._heard = entry_id
            if len(entries) < AT_ONCE:
                return
