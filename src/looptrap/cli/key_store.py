"""Where `looptrap keys` finds keys: a state file, or the store that gateways share.

Every failure is a ConfigError; the text of a place says where it is.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from looptrap.cli.output import default_place
from looptrap.config import load
from looptrap.config.kind import MEMORY, StorePlace
from looptrap.errors import ConfigError, Problem
from looptrap.gateway.keys import FileKeyStore
from looptrap.gateway.shared_settings import EntryStore
from looptrap.gateway.shared_settings.shared_keys import KeyStore, SharedKeyStore
from looptrap.gateway.state_file import StateFile
from looptrap.store.redis import RedisStore
from looptrap.store.redis.address import parse_store_url
from looptrap.store.redis.connection import connect
from looptrap.store.redis.topology import servers_of

STORE_TIMEOUT_S = 1.0
"""Seconds that a store may take for one answer."""

T = TypeVar("T")

Action = Callable[[KeyStore], Coroutine[Any, Any, T]]


class StateFilePlace:
    """Keys in a state file."""

    def __init__(self, path: str) -> None:
        self._file = StateFile(path)

    def __str__(self) -> str:
        return str(self._file.path)

    def run(self, action: Action[T]) -> T:
        """Do something with the keys."""
        return asyncio.run(action(FileKeyStore(self._file)))

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


Place = StateFilePlace | SharedStorePlace


def find_place(file: str | None, state: str | None, store: str | None) -> Place:
    """Return where a gateway with this configuration looks for keys; --state is a file for sure."""
    if state is not None and store is not None:
        raise ConfigError("--state and --store: give one or the other")
    with default_place(file):
        config = load(file, env=os.environ, flags={"state": state, "store": store})
    if state is None and config.store != MEMORY:
        return SharedStorePlace(config.store)
    return StateFilePlace(config.gateway.state)
