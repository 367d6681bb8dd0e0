"""What instances agree on, beside counts: settings, and the key of all digests."""

from __future__ import annotations

import asyncio
import logging
import secrets
from binascii import crc_hqx
from collections.abc import AsyncIterator, Callable
from importlib.resources import files
from typing import Any, Protocol

from looptrap.store.redis.address import StoreAddress
from looptrap.store.redis.connection import Argument, RedisConnection, connect
from looptrap.store.redis.script import SLOT_COUNT

SETTINGS_KEY = b"lt:cfg:settings"
SECRET_KEY = b"lt:cfg:secret"
CHANGES_CHANNEL = b"lt:cfg:news"
"""The channel on which the name of a changed setting is told."""

log = logging.getLogger("looptrap")

SECRET_BYTES = 32
POLL_INTERVAL_S = 1.0

SET_SCRIPT = files("looptrap.store.redis").joinpath("configure.lua").read_bytes()


class CommandSender(Protocol):
    """One server, or a cluster."""

    @property
    def address(self) -> StoreAddress:
        """Return the address of a server on which news can be heard."""
        ...

    async def call(self, slot: int, /, *command: Argument) -> Any:
        """Send one command about a key of this slot, and return its reply."""
        ...


class SharedConfiguration:
    """Settings that have no end: they live under `lt:cfg:` until somebody changes them."""

    def __init__(self, server: CommandSender, poll_every: float = POLL_INTERVAL_S) -> None:
        self._server = server
        self._poll_every = poll_every
        self._watched: list[Callable[[], None]] = []
        self._watching: asyncio.Task[None] | None = None
        self._news = asyncio.Event()
        self._heard: RedisConnection | None = None

    async def secret(self, offered: bytes | None = None) -> bytes:
        """Return the key of all digests: where there is none, the one offered, or a new one."""
        made = secrets.token_bytes(SECRET_BYTES) if offered is None else offered
        await self.command(b"SET", SECRET_KEY, made, b"NX")
        secret: bytes = await self.command(b"GET", SECRET_KEY)
        return secret

    async def get(self, name: str) -> bytes | None:
        """Return the value of a setting, or None where nobody has set it."""
        value: bytes | None = await self.command(b"HGET", SETTINGS_KEY, name)
        return value

    async def set(self, name: str, value: bytes | None) -> None:
        """Set a setting, or drop it, and tell all instances."""
        values = () if value is None else (value,)
        await self.command(b"EVAL", SETTINGS_KEY, CHANGES_CHANNEL, name, *values, script=SET_SCRIPT)

    async def first(self, key: bytes, value: str, seconds: int) -> str:
        """Return the value of a key: ours, unless somebody came first; it ends by itself."""
        await self.command(b"SET", key, value, b"NX", b"EX", seconds)
        there: bytes | None = await self.command(b"GET", key)
        return value if there is None else there.decode("latin-1")

    def on_change(self, then: Callable[[], None]) -> None:
        """Call this when watching has begun, and within a second of every change, whoever made it.

        So nothing is missed by an instance that starts while another changes something.
        """
        self._watched.append(then)
        if self._watching is None:
            self._watching = asyncio.get_running_loop().create_task(self._watch())

    async def stop(self) -> None:
        """Watch no longer."""
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.gather(self._watching, return_exceptions=True)

    async def command(self, name: bytes, key: bytes, *more: Argument, script: bytes = b"") -> Any:
        """Send a command about a key of the configuration, and return its reply."""
        scripted = (script, 1) if script else ()
        slot = crc_hqx(key, 0) % SLOT_COUNT
        return await self._server.call(slot, name, *scripted, key, *more)

    # Watching

    async def _watch(self) -> None:
        changes = None
        try:
            while True:
                await self._listen()
                latest = await self._changes()
                if latest is not None and latest != changes:
                    changes = latest
                    self._tell()
                await self._wait()
        finally:
            if self._heard is not None:
                self._heard.close()

    def _tell(self) -> None:
        for then in self._watched:
            # One that fails must not make the others, or the next change, go unheard.
            try:
                then()
            except Exception:
                log.exception("a change of settings could not be followed")

    async def _changes(self) -> bytes | None:
        """Return how many changes there have been; None while the store does not say."""
        try:
            return await self.command(b"HGET", SETTINGS_KEY, b"") or b"0"
        except OSError:
            return None

    async def _wait(self) -> None:
        """Wait for news; polling is the net for those that get lost."""
        try:
            async with asyncio.timeout(self._poll_every):
                await self._news.wait()
        except TimeoutError:
            pass
        self._news.clear()

    async def _listen(self) -> None:
        """Subscribe, unless that is done; where it cannot be, there is the net."""
        if self._heard is not None:
            return
        try:
            async with asyncio.timeout(self._poll_every):
                heard = await connect(self._server.address, self._deaf, self._told)
                try:
                    await heard.call(b"SUBSCRIBE", CHANGES_CHANNEL)
                except BaseException:
                    heard.close()
                    raise
        except OSError:
            return
        self._heard = heard

    def _deaf(self, _reason: str) -> None:
        self._heard = None

    def _told(self, _message: Any) -> None:
        self._news.set()


READ_BATCH_ENTRIES = 200
"""Entries that are read at a time."""


class SharedStream:
    """One stream, followed from its beginning; fails with an OSError while the store is away."""

    def __init__(
        self, configuration: SharedConfiguration, key: bytes, *, max_entries: int, seconds: int
    ) -> None:
        """About the latest `max_entries` entries are kept, for `seconds` after the last."""
        self._command = configuration.command
        self._key = key
        self._max_entries = max_entries
        self._seconds = seconds
        self._heard = b"0-0"

    async def push(self, value: bytes) -> None:
        """Tell all instances something."""
        command = self._command
        await command(b"XADD", self._key, b"MAXLEN", b"~", self._max_entries, b"*", b"value", value)
        await command(b"EXPIRE", self._key, self._seconds)

    async def pull(self) -> AsyncIterator[bytes]:
        """Yield what was told since the last look; an entry that is not ours is empty."""
        while True:
            entries = await self._command(
                b"XRANGE", self._key, b"(" + self._heard, b"+", b"COUNT", READ_BATCH_ENTRIES
            )
            for entry_id, fields in entries:
                yield fields[1] if len(fields) > 1 else b""
                self._heard = entry_id
            if len(entries) < READ_BATCH_ENTRIES:
                return
