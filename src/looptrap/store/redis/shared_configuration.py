"""What instances share beside counts: settings, the digest secret, and streams."""

from __future__ import annotations

import asyncio
import logging
import secrets
from binascii import crc_hqx
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from importlib.resources import files
from typing import Any

from looptrap.store.redis.connection import Argument, RedisConnection, connect
from looptrap.store.redis.node import RedisNode
from looptrap.store.redis.request import SLOT_COUNT
from looptrap.store.redis.topology import RedisCluster

SETTINGS_KEY = b"lt:cfg:settings"
SECRET_KEY = b"lt:cfg:secret"
CHANGES_CHANNEL = b"lt:cfg:news"
"""The channel on which the name of a changed setting is published."""

log = logging.getLogger("looptrap")

SECRET_BYTES = 32
POLL_INTERVAL_S = 1.0

SET_SCRIPT = files("looptrap.store.redis").joinpath("configure.lua").read_bytes()


class SharedConfiguration:
    """Settings without expiry, under `lt:cfg:`."""

    def __init__(self, server: RedisNode | RedisCluster) -> None:
        self._server = server
        self._callbacks: list[Callable[[], None]] = []
        self._watch_task: asyncio.Task[None] | None = None
        self._changed = asyncio.Event()
        self._subscription: RedisConnection | None = None

    async def secret(self, offered: bytes | None = None) -> bytes:
        """Return the digest secret; if there is none, set the one offered, or a new one."""
        new = secrets.token_bytes(SECRET_BYTES) if offered is None else offered
        await self.command(b"SET", SECRET_KEY, new, b"NX")
        secret: bytes = await self.command(b"GET", SECRET_KEY)
        return secret

    async def get(self, name: str) -> bytes | None:
        """Return the value of a setting, None if it is not set."""
        value: bytes | None = await self.command(b"HGET", SETTINGS_KEY, name)
        return value

    async def set(self, name: str, value: bytes | None) -> None:
        """Set or delete a setting, and notify all instances."""
        values = () if value is None else (value,)
        await self.command(b"EVAL", SETTINGS_KEY, CHANGES_CHANNEL, name, *values, script=SET_SCRIPT)

    async def set_if_absent(self, key: bytes, value: str, seconds: int) -> str:
        """Set a key that expires, unless it exists; return its value."""
        await self.command(b"SET", key, value, b"NX", b"EX", seconds)
        current: bytes | None = await self.command(b"GET", key)
        return value if current is None else current.decode("latin-1")

    def on_change(self, callback: Callable[[], None]) -> None:
        """Call this once at the start, and within a second of every change by any instance.

        So an instance that starts while another changes a setting misses nothing.
        """
        self._callbacks.append(callback)
        if self._watch_task is None:
            self._watch_task = asyncio.get_running_loop().create_task(self._watch())

    async def stop(self) -> None:
        """Stop watching."""
        if self._watch_task is not None:
            self._watch_task.cancel()
            await asyncio.gather(self._watch_task, return_exceptions=True)

    async def command(self, name: bytes, key: bytes, *more: Argument, script: bytes = b"") -> Any:
        """Send a command about one key, and return its reply."""
        scripted = (script, 1) if script else ()
        slot = crc_hqx(key, 0) % SLOT_COUNT
        return await self._server.call(slot, name, *scripted, key, *more)

    # Watching

    async def _watch(self) -> None:
        changes = None
        try:
            while True:
                await self._subscribe()
                latest = await self._changes()
                if latest is not None and latest != changes:
                    changes = latest
                    self._notify()
                await self._wait_for_change()
        finally:
            if self._subscription is not None:
                self._subscription.close()

    def _notify(self) -> None:
        for callback in self._callbacks:
            # A failing callback must not stop the others, or the next change.
            try:
                callback()
            except Exception:
                log.exception("the callback of a settings change failed")

    async def _changes(self) -> bytes | None:
        """Return the number of changes so far; None while the store is away."""
        try:
            return await self.command(b"HGET", SETTINGS_KEY, b"") or b"0"
        except OSError:
            return None

    async def _wait_for_change(self) -> None:
        """Wait for a message; polling finds changes whose message got lost."""
        with suppress(TimeoutError):
            async with asyncio.timeout(POLL_INTERVAL_S):
                await self._changed.wait()
        self._changed.clear()

    async def _subscribe(self) -> None:
        """Subscribe if needed; if that fails, polling still finds changes."""
        if self._subscription is not None:
            return
        with suppress(OSError):
            async with asyncio.timeout(POLL_INTERVAL_S):
                self._subscription = await connect(
                    self._server.address,
                    self._on_lost,
                    self._on_message,
                    prepare=lambda connection: connection.call(b"SUBSCRIBE", CHANGES_CHANNEL),
                )

    def _on_lost(self, _reason: str) -> None:
        self._subscription = None

    def _on_message(self, _message: Any) -> None:
        self._changed.set()


READ_BATCH_ENTRIES = 200
"""Entries read at a time."""


class SharedStream:
    """One stream, read from its beginning; raises OSError while the store is away."""

    def __init__(
        self, configuration: SharedConfiguration, key: bytes, *, max_entries: int, seconds: int
    ) -> None:
        """About the latest `max_entries` entries are kept, for `seconds` after the last."""
        self._command = configuration.command
        self._key = key
        self._max_entries = max_entries
        self._seconds = seconds
        self._last_id = b"0-0"

    async def push(self, value: bytes) -> None:
        """Append an entry."""
        command = self._command
        await command(b"XADD", self._key, b"MAXLEN", b"~", self._max_entries, b"*", b"value", value)
        await command(b"EXPIRE", self._key, self._seconds)

    async def pull(self) -> AsyncIterator[bytes]:
        """Yield the entries since the last call; an entry in another format is empty."""
        while True:
            entries = await self._command(
                b"XRANGE", self._key, b"(" + self._last_id, b"+", b"COUNT", READ_BATCH_ENTRIES
            )
            for entry_id, fields in entries:
                yield fields[1] if len(fields) > 1 else b""
                self._last_id = entry_id
            if len(entries) < READ_BATCH_ENTRIES:
                return
