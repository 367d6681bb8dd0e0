"""Where `looptrap keys` finds keys: a state file, or the store that gateways share.

Every failure is a ConfigError; the text of a place says where it is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from looptrap.config.kind import StorePlace
from looptrap.errors import ConfigError, Problem
from looptrap.gateway.key_store import FileKeyStore, KeyStore, SharedKeyStore
from looptrap.gateway.shared_settings import EntryStore
from looptrap.gateway.state_file import StateFile
from looptrap.store.redis import RedisStore
from looptrap.store.redis.address import parse_store_url
from looptrap.store.redis.connection import connect
from looptrap.store.redis.topology import servers_of

STORE_TIMEOUT_S = 1.0
"""Seconds that a store may take for one answer."""

T = TypeVar("T")

Action = Callable[[KeyStore], Awaitable[T]]


class StateFilePlace:
    """Keys in a state file."""

    def __init__(self, path: str) -> None:
        self._file = StateFile(path)

    def __str__(self) -> str:
        return str(self._file.path)

    def run(self, action: Action[T]) -> T:
        """Do something with the keys."""

        async def run() -> T:
            return await action(FileKeyStore(self._file))

        return asyncio.run(run())

    def warning(self) -> str | None:
        """Return what is wrong with the file, if anything."""
        return self._file.exposure()


class SharedStorePlace:
    """The same in a shared store."""

    def __init__(self, url: str) -> None:
        self._url = url

    def __str__(self) -> str:
        return f"the store {StorePlace().plain(self._url)}"

    def run(self, action: Action[T]) -> T:
        async def run() -> T:
            await _check_reachable(self._url)
            store = RedisStore(self._url, timeout=STORE_TIMEOUT_S)
            await store.start()
            try:
                return await action(SharedKeyStore(EntryStore(store.configuration)))
            finally:
                await store.stop()

        try:
            return asyncio.run(run())
        except OSError as error:
            message = f"{str(error) or 'no answer'}; nothing was changed"
            raise ConfigError([Problem(str(self), message)]) from None

    def warning(self) -> None:
        return None


async def _check_reachable(url: str) -> None:
    """Check that one of the store's servers accepts us; an OSError says why none does."""
    async with asyncio.timeout(STORE_TIMEOUT_S):
        addresses = await servers_of(parse_store_url(url))
    for address in addresses:
        try:
            async with asyncio.timeout(STORE_TIMEOUT_S):
                (await connect(address, lambda _reason: None)).close()
        except OSError as error:
            failure = error
        else:
            return
    raise failure
