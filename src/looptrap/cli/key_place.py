"""Where keys are kept: in a state file, or in the store that gateways share."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Protocol, TypeVar

from looptrap.config.gateway import GatewaySettings
from looptrap.config.kind import StorePlace
from looptrap.errors import ConfigError, Problem
from looptrap.gateway import keys
from looptrap.gateway.agreement import Ledger, key
from looptrap.gateway.state import Key, StateFile
from looptrap.store.redis import RedisStore
from looptrap.store.redis.address import addresses_of
from looptrap.store.redis.connection import connect

PATIENCE = 1.0
"""Seconds that a store may take for one answer."""

T = TypeVar("T")


class Place(Protocol):
    """A place with keys; its text says where it is. Whatever fails is a ConfigError."""

    def add(self, name: str, project: str, now: datetime) -> tuple[Key, str]:
        """Make a key, and return it with its text."""
        ...

    def revoke(self, name: str, now: datetime) -> Key:
        """Refuse a key from now on."""
        ...

    def kept(self) -> tuple[Key, ...]:
        """Return all keys."""
        ...

    def warning(self) -> str | None:
        """Say what is wrong with the place."""
        ...


class _File:
    def __init__(self, file: StateFile) -> None:
        self._file = file

    def __str__(self) -> str:
        return str(self._file.path)

    def add(self, name: str, project: str, now: datetime) -> tuple[Key, str]:
        return keys.add(self._file, name, project=project, now=now)

    def revoke(self, name: str, now: datetime) -> Key:
        return keys.revoke(self._file, name, now=now)

    def kept(self) -> tuple[Key, ...]:
        state = self._file.read()
        return state.keys if state is not None else ()

    def warning(self) -> str | None:
        return self._file.exposure()


class _Store:
    def __init__(self, url: str) -> None:
        self._url = url

    def __str__(self) -> str:
        return f"the store {StorePlace().plain(self._url)}"

    def add(self, name: str, project: str, now: datetime) -> tuple[Key, str]:
        return self._run(lambda ledger: key.add(ledger, name, project=project, now=now))

    def revoke(self, name: str, now: datetime) -> Key:
        return self._run(lambda ledger: key.revoke(ledger, name, now=now))

    def kept(self) -> tuple[Key, ...]:
        return self._run(key.kept)

    def warning(self) -> str | None:
        return None

    def _run(self, action: Callable[[Ledger], Awaitable[T]]) -> T:
        async def run() -> T:
            await _reach(self._url)
            store = RedisStore(self._url, timeout=PATIENCE)
            await store.start()
            try:
                return await action(Ledger(store.configuration))
            finally:
                await store.stop()

        try:
            return asyncio.run(run())
        except OSError as error:
            message = f"{str(error) or 'no answer'}; nothing was changed"
            raise ConfigError([Problem(str(self), message)]) from None


async def _reach(url: str) -> None:
    """See that one of the store's servers lets us in; an OSError says why none does."""
    addresses, _ = addresses_of(url)
    for address in addresses:
        try:
            async with asyncio.timeout(PATIENCE):
                (await connect(address, lambda _reason: None)).close()
        except OSError as error:
            failure = error
        else:
            return
    raise failure


def in_file(path: str | None) -> Place:
    """Return the place of a state file; without a path, the gateway's own."""
    return _File(StateFile(path or GatewaySettings().state))


def in_store(url: str) -> Place:
    """Return the place of a shared store."""
    problems: list[Problem] = []
    StorePlace().read(url, "--store", problems)
    if problems:
        raise ConfigError(problems)
    return _Store(url)
