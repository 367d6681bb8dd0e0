"""Where keys are stored: in a state file, or in the store that gateways share.

`looptrap keys` and the admin API change keys through these. A ConfigError says what is wrong, an
OSError that the shared store is down.
"""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

from looptrap.gateway import keys
from looptrap.gateway.shared_settings import EntryStore, shared_keys
from looptrap.gateway.state_file import GatewayKey, StateFile

NewKey = tuple[GatewayKey, str]
"""A key that was made, and its text, which is not stored."""


class FileKeyStore:
    """Keys in a state file."""

    def __init__(self, file: StateFile) -> None:
        self._file = file

    async def add(self, name: str, project: str = "") -> NewKey:
        """Make a key."""
        return await asyncio.to_thread(keys.add, self._file, name, project=project, now=_now())

    async def rotate(self, name: str, grace: float = 0.0) -> NewKey:
        """Replace a key by another of its name; the earlier one stays valid for `grace` seconds."""
        return await asyncio.to_thread(keys.rotate, self._file, name, grace=grace, now=_now())

    async def revoke(self, name: str) -> GatewayKey:
        """Refuse a key from now on."""
        return await asyncio.to_thread(keys.revoke, self._file, name, now=_now())

    async def list_keys(self) -> tuple[GatewayKey, ...]:
        """Return all keys."""
        state = await asyncio.to_thread(self._file.read)
        return state.keys if state is not None else ()


class SharedKeyStore:
    """The same in a shared store."""

    def __init__(self, entries: EntryStore) -> None:
        self._entries = entries

    async def add(self, name: str, project: str = "") -> NewKey:
        return await shared_keys.add(self._entries, name, project=project, now=_now())

    async def rotate(self, name: str, grace: float = 0.0) -> NewKey:
        return await shared_keys.rotate(self._entries, name, grace=grace, now=_now())

    async def revoke(self, name: str) -> GatewayKey:
        return await shared_keys.revoke(self._entries, name, now=_now())

    async def list_keys(self) -> tuple[GatewayKey, ...]:
        return await shared_keys.list_keys(self._entries)


KeyStore = FileKeyStore | SharedKeyStore


def _now() -> datetime:
    return datetime.now(UTC)
