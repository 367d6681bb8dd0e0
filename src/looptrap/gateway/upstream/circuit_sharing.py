"""What instances with one store tell each other of circuits.

An instance that opens a circuit tells the others, who leave the provider alone as well; of all that
would probe it again, the first to claim that does. While the store is away, each goes on alone.
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
"""Seconds between two looks at what others opened."""

MAX_STREAM_ENTRIES = 1_000
STREAM_TTL_S = 3_600

PROBE_CLAIM_TTL_S = 60
"""Seconds after which a probe of which nothing was heard is another's to make."""


class OpenedCircuit(msgspec.Struct, frozen=True, gc=False):
    """An opening as it is told: the key alone, for how long says the store."""

    instance: str
    provider: str
    credential: str | None = None
    caller: str | None = None
    """Whom it is open for; None for everybody."""


_encode = msgspec.json.encode
_decode = msgspec.json.Decoder(OpenedCircuit).decode


class CircuitSharing:
    """Tells of circuits, hears of them, and claims probes; asks the store while any is in use."""

    _configuration: SharedConfiguration
    _stream: SharedStream
    """There once it follows."""

    def __init__(
        self,
        store: RedisStore,
        learn: Callable[[CircuitOpening], None],
        *,
        every: float = POLL_INTERVAL_S,
    ) -> None:
        self.ignored = 0
        """Entries that could not be read."""
        self._store = store
        self._learn = learn
        self._every = every
        self._instance = token_hex(8)
        self._following: asyncio.Task[None] | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self) -> None:
        """Begin to follow, unless that has been done."""
        if self._following is None:
            self._configuration = self._store.configuration
            self._stream = SharedStream(
                self._configuration, LOG_KEY, max_entries=MAX_STREAM_ENTRIES, seconds=STREAM_TTL_S
            )
            self._following = asyncio.get_running_loop().create_task(self._follow())

    async def stop(self) -> None:
        """End."""
        tasks = [*self._tasks, *([self._following] if self._following is not None else ())]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def opened(self, opening: CircuitOpening) -> None:
        """Tell the others of a circuit that was opened here."""
        self._spawn(self._tell(opening))

    def claim(self, keys: Iterable[CircuitKey], then: Callable[[bool], None]) -> None:
        """Ask to probe these circuits; `then` hears whether that is this instance's to do."""
        self._spawn(self._claim(tuple(keys), then))

    def release(self, keys: Iterable[CircuitKey]) -> None:
        """Give claims back, so that others may probe at once."""
        for key in keys:
            self._spawn(self._release(key))

    def hold(self, key: CircuitKey, seconds: float) -> None:
        """Keep the claim of a probe that failed for as long as the circuit stays open."""
        self._spawn(self._hold(key, seconds))

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _tell(self, opening: CircuitOpening) -> None:
        key, lasts = opening.key, max(1, round(opening.seconds * 1000))
        name = OPEN_KEY_PREFIX + _digest(key)
        try:
            await self._configuration.command(b"SET", name, self._instance, b"PX", lasts)
            told = OpenedCircuit(self._instance, key.provider, key.credential, opening.caller)
            await self._stream.push(_encode(told))
        except OSError:
            return  # they will find out by themselves

    async def _claim(self, keys: tuple[CircuitKey, ...], then: Callable[[bool], None]) -> None:
        for at, key in enumerate(keys):
            if not await self._is_first(PROBE_KEY_PREFIX + _digest(key)):
                self.release(keys[:at])
                then(False)
                return
        then(True)

    async def _is_first(self, name: bytes) -> bool:
        try:
            first = await self._configuration.set_if_absent(name, self._instance, PROBE_CLAIM_TTL_S)
        except OSError:
            return True
        return first == self._instance

    async def _release(self, key: CircuitKey) -> None:
        command, name = self._configuration.command, PROBE_KEY_PREFIX + _digest(key)
        try:
            if await command(b"GET", name) == self._instance.encode():
                await command(b"DEL", name)
        except OSError:
            return  # it ends by itself

    async def _hold(self, key: CircuitKey, seconds: float) -> None:
        command, name = self._configuration.command, PROBE_KEY_PREFIX + _digest(key)
        with suppress(OSError):  # it ends by itself
            if await command(b"GET", name) == self._instance.encode():
                await command(b"PEXPIRE", name, max(1, round(seconds * 1000)))

    async def _follow(self) -> None:
        while True:
            with suppress(OSError):  # the next look tries again
                await self._pull()
            await asyncio.sleep(self._every)

    async def _pull(self) -> None:
        """Hear what others opened since the last look; at first, all that is still open."""
        async for text in self._stream.pull():
            await self._hear(text)

    async def _hear(self, text: bytes) -> None:
        try:
            told = _decode(text)
        except UNREADABLE:
            self.ignored += 1
            return
        if told.instance == self._instance:
            return
        key = CircuitKey(told.provider, told.credential)
        left: int = await self._configuration.command(b"PTTL", OPEN_KEY_PREFIX + _digest(key))
        if left > 0:
            self._learn(CircuitOpening(key, left / 1000, told.caller))


def _digest(key: CircuitKey) -> bytes:
    text = f"{key.provider}\0{key.credential or ''}"
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest().encode()
