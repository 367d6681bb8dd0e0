"""Shares circuits between instances with one store.

An instance that opens a circuit tells the others, which then skip the provider too; of all that
would probe it, the first to claim the probe does. While the store is down, each decides alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from contextlib import suppress
from hashlib import blake2b
from secrets import token_hex
from typing import Any

import msgspec

from looptrap.dialect.content import UNREADABLE
from looptrap.retry.breaker import CircuitKey, CircuitOpening
from looptrap.store.redis import RedisStore
from looptrap.store.redis.shared_configuration import SharedConfiguration, SharedStream

LOG_KEY = b"lt:brk:log"
OPEN_KEY_PREFIX = b"lt:brk:open:"
PROBE_KEY_PREFIX = b"lt:brk:probe:"

POLL_INTERVAL_S = 1.0
"""Seconds between two reads of what others opened."""

MAX_STREAM_ENTRIES = 1_000
STREAM_TTL_S = 3_600

PROBE_CLAIM_TTL_S = 60
"""Seconds after which another instance may claim a probe without a result."""


class OpenedCircuit(msgspec.Struct, frozen=True, gc=False):
    """An opening as others read it: only its key, since the store has the time that is left."""

    instance: str
    provider: str
    credential: str | None = None
    caller: str | None = None
    """For whom it is open; None for all."""


_encode = msgspec.json.encode
_decode = msgspec.json.Decoder(OpenedCircuit).decode


class CircuitSharing:
    """Announces circuits, learns of others', and claims probes; polls once any is in use."""

    _configuration: SharedConfiguration
    _stream: SharedStream
    """Set by `start`."""

    def __init__(self, store: RedisStore, learn: Callable[[CircuitOpening], None]) -> None:
        self.ignored = 0
        """Entries that could not be read."""
        self._store = store
        self._learn = learn
        self._instance = token_hex(8)
        self._following: asyncio.Task[None] | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self) -> None:
        """Begin to poll, unless it has begun."""
        if self._following is None:
            self._configuration = self._store.configuration
            self._stream = SharedStream(
                self._configuration, LOG_KEY, max_entries=MAX_STREAM_ENTRIES, seconds=STREAM_TTL_S
            )
            self._following = asyncio.get_running_loop().create_task(self._follow())

    async def stop(self) -> None:
        """Cancel all that is under way."""
        tasks = [*self._tasks, *([self._following] if self._following is not None else ())]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def opened(self, opening: CircuitOpening) -> None:
        """Tell the others of a circuit that was opened here."""
        self._spawn(self._announce(opening))

    def claim(self, keys: Iterable[CircuitKey], then: Callable[[bool], None]) -> None:
        """Claim the probe of these circuits; `then` is called with whether it succeeded."""
        self._spawn(self._claim(tuple(keys), then))

    def end_probe(self, key: CircuitKey, seconds: float = 0.0) -> None:
        """Release the claim of a probe; if it failed, when the circuit's `seconds` are over."""
        self._spawn(self._end_probe(key, seconds))

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Do some work; where the store is down, claims expire and others notice by themselves."""

        async def run() -> None:
            with suppress(OSError):
                await work

        task = asyncio.get_running_loop().create_task(run())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _announce(self, opening: CircuitOpening) -> None:
        key, milliseconds = opening.key, _milliseconds(opening.seconds)
        name = OPEN_KEY_PREFIX + _digest(key)
        await self._configuration.command(b"SET", name, self._instance, b"PX", milliseconds)
        entry = OpenedCircuit(self._instance, key.provider, key.credential, opening.caller)
        await self._stream.push(_encode(entry))

    async def _claim(self, keys: tuple[CircuitKey, ...], then: Callable[[bool], None]) -> None:
        for at, key in enumerate(keys):
            if not await self._is_first(PROBE_KEY_PREFIX + _digest(key)):
                for claimed in keys[:at]:
                    self.end_probe(claimed)
                then(False)
                return
        then(True)

    async def _is_first(self, name: bytes) -> bool:
        try:
            first = await self._configuration.set_if_absent(name, self._instance, PROBE_CLAIM_TTL_S)
        except OSError:
            return True
        return first == self._instance

    async def _end_probe(self, key: CircuitKey, seconds: float) -> None:
        command, name = self._configuration.command, PROBE_KEY_PREFIX + _digest(key)
        if await command(b"GET", name) == self._instance.encode():
            if seconds:
                await command(b"PEXPIRE", name, _milliseconds(seconds))
            else:
                await command(b"DEL", name)

    async def _follow(self) -> None:
        while True:
            with suppress(OSError):  # the next poll tries again
                async for text in self._stream.pull():
                    await self._hear(text)
            await asyncio.sleep(POLL_INTERVAL_S)

    async def _hear(self, text: bytes) -> None:
        try:
            entry = _decode(text)
        except UNREADABLE:
            self.ignored += 1
            return
        if entry.instance == self._instance:
            return
        key = CircuitKey(entry.provider, entry.credential)
        left: int = await self._configuration.command(b"PTTL", OPEN_KEY_PREFIX + _digest(key))
        if left > 0:
            self._learn(CircuitOpening(key, left / 1000, entry.caller))


def _milliseconds(seconds: float) -> int:
    return max(1, round(seconds * 1000))


def _digest(key: CircuitKey) -> bytes:
    text = f"{key.provider}\0{key.credential or ''}"
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest().encode()
