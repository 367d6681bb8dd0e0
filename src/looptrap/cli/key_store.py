"""Where keys are stored: in a state file, or in the store that gateways share.

Every failure is a ConfigError; the text of a key store says where it is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import TypeVar

from looptrap.config.kind import StorePlace
from looptrap.errors import ConfigError, Problem
from looptrap.gateway import keys
from looptrap.gateway.shared_settings import EntryStore, shared_keys
from looptrap.gateway.state_file import GatewayKey, StateFile
from looptrap.store.redis import RedisStore
from looptrap.store.redis.address import parse_store_url
from looptrap.store.redis.connection import connect

STORE_TIMEOUT_S = 1.0
"""Seconds that a store may take for one answer."""

T = TypeVar("T")


class FileKeyStore:
    """Keys in a state file."""

    def __init__(self, path: str) -> None:
        self._file = StateFile(path)

    def __str__(self) -> str:
        return str(self._file.path)

    def add(self, name: str, project: str) -> tuple[GatewayKey, str]:
        """Make a key, and return it with its text."""
        return keys.add(self._file, name, project=project, now=datetime.now(UTC))

    def revoke(self, name: str) -> GatewayKey:
        """Refuse a key from now on."""
        return keys.revoke(self._file, name, now=datetime.now(UTC))

    def list_keys(self) -> tuple[GatewayKey, ...]:
        """Return all keys."""
        state = self._file.read()
        return state.keys if state is not None else ()

    def warning(self) -> str | None:
        """Return what is wrong with the file, if anything."""
        return self._file.exposure()


class SharedKeyStore:
    """The same in a shared store."""

    def __init__(self, url: str) -> None:
        self._url = url

    def __str__(self) -> str:
        return f"the store {StorePlace().plain(self._url)}"

    def add(self, name: str, project: str) -> tuple[GatewayKey, str]:
        now = datetime.now(UTC)
        return self._run(lambda entries: shared_keys.add(entries, name, project=project, now=now))

    def revoke(self, name: str) -> GatewayKey:
        now = datetime.now(UTC)
        return self._run(lambda entries: shared_keys.revoke(entries, name, now=now))

    def list_keys(self) -> tuple[GatewayKey, ...]:
        return self._run(shared_keys.list_keys)

    def warning(self) -> None:
        return None

    def _run(self, action: Callable[[EntryStore], Awaitable[T]]) -> T:
        async def run() -> T:
            await _check_reachable(self._url)
            store = RedisStore(self._url, timeout=STORE_TIMEOUT_S)
            await store.start()
            try:
                return await action(EntryStore(store.configuration))
            finally:
                await store.stop()

        try:
            return asyncio.run(run())
        except OSError as error:
            message = f"{str(error) or 'no answer'}; nothing was changed"
            raise ConfigError([Problem(str(self), message)]) from None


async def _check_reachable(url: str) -> None:
    """Check that one of the store's servers accepts us; an OSError says why none does."""
    addresses, _ = parse_store_url(url)
    for address in addresses:
        try:
            async with asyncio.timeout(STORE_TIMEOUT_S):
                (await connect(address, lambda _reason: None)).close()
        except OSError as error:
            failure = error
        else:
            return
    raise failure
