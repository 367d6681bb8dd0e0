"""Gateway keys in the shared store: one entry per name, with all keys that ever had it.

So of two keys that are added at once under one name, none is lost.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import TypeVar

import msgspec

from looptrap.errors import ConfigError
from looptrap.gateway.keys import (
    FileKeyStore,
    KeyChange,
    KeyRing,
    KeyTuple,
    NewKey,
    check_name,
    with_key_added,
    with_key_revoked,
    with_key_rotated,
)
from looptrap.gateway.shared_settings.shared_entries import ENTRY_ERRORS, EntryStore, SharedEntries
from looptrap.gateway.state_file import GatewayKey, GatewayState, StateFile

KEY_KIND = "key"

T = TypeVar("T")

log = logging.getLogger("looptrap")


class SharedKeyStore:
    """As FileKeyStore, in the store that gateways share."""

    def __init__(self, entries: EntryStore) -> None:
        self._entries = entries

    async def add(self, name: str, project: str = "") -> NewKey:
        now = datetime.now(UTC)
        return await self._change(name, lambda keys: with_key_added(keys, name, project, now))

    async def rotate(self, name: str, grace: float = 0.0) -> NewKey:
        check_name("NAME", name)
        now = datetime.now(UTC)
        return await self._change(name, lambda keys: with_key_rotated(keys, name, grace, now))

    async def revoke(self, name: str) -> GatewayKey:
        check_name("NAME", name)
        now = datetime.now(UTC)
        return await self._change(name, lambda keys: with_key_revoked(keys, name, now))

    async def list_keys(self) -> KeyTuple:
        return _decode_keys(await self._read_entries())

    async def _change(self, name: str, change: KeyChange[T]) -> T:
        while True:
            entries = await self._read_entries()
            keys, result = change(_decode_keys(entries))
            after = _encode_keys(key for key in keys if key.name == name)
            if await self._entries.swap(_name(name), entries.get(name), after) == after:
                return result

    async def _read_entries(self) -> dict[str, bytes]:
        _, entries = await self._entries.read()
        prefix, found = _name(""), entries.items()
        return {name.removeprefix(prefix): one for name, one in found if name.startswith(prefix)}


KeyStore = FileKeyStore | SharedKeyStore


class SharedKeys:
    """Gives a ring the store's keys; a file caches them for starts without the store.

    So keys that were once required stay so, also where the store is down or has lost them.
    """

    def __init__(self, entries: SharedEntries, ring: KeyRing, file: StateFile) -> None:
        self._entries = entries
        self._ring = ring
        self._file = file
        entries.merge_by(KEY_KIND, _merge_keys)
        by_name: dict[str, list[GatewayKey]] = {}
        for key in self._cached():
            by_name.setdefault(key.name, []).append(key)
        entries.preload({_name(one): _encode_keys(keys) for one, keys in by_name.items()})
        self._applied = self._shared()
        ring.share(self._applied)

    def follow(self) -> Callable[[], None] | None:
        """Give the ring the shared keys; return what caches them, if they have changed."""
        found = self._shared()
        if found == self._applied:
            return None
        self._applied = found
        self._ring.share(found)
        return lambda: self._cache(found)

    def _shared(self) -> KeyTuple:
        entries = self._entries.of(KEY_KIND)
        return _decode_keys(entries, lambda name: self._entries.ignore(_name(name), entries[name]))

    def _cached(self) -> KeyTuple:
        try:
            state = self._file.read()
        except ConfigError as error:
            log.warning("%s", error)
            return ()
        return state.keys if state is not None else ()

    def _cache(self, keys: KeyTuple) -> None:
        """Add keys to the file; of two processes that do so at once, none undoes the other."""

        def change(state: GatewayState) -> GatewayState:
            every = _union(state.keys, keys)
            return state if every == state.keys else msgspec.structs.replace(state, keys=every)

        try:
            self._file.update(change)
        except (ConfigError, ValueError) as error:
            log.warning("the store's keys are not cached: %s", error)


def _decode_keys(
    entries: Mapping[str, bytes], on_unreadable: Callable[[str], None] | None = None
) -> KeyTuple:
    found: list[GatewayKey] = []
    for name, value in entries.items():
        of_name = [key for key in _decode_entry(value) if key.name == name]
        if not of_name and on_unreadable is not None:
            on_unreadable(name)
        found += of_name
    return tuple(sorted(found, key=lambda key: (key.created, key.id)))


def _merge_keys(stored: bytes | None, ours: bytes) -> bytes:
    """Return all keys of two entries of one name; revoked in either is revoked."""
    our_keys, stored_keys = _decode_entry(ours), _decode_entry(stored or b"")
    if stored is None or (our_keys and not stored_keys):
        return ours
    merged = _union(stored_keys, our_keys)
    return stored if merged == stored_keys else _encode_keys(merged)


def _decode_entry(value: bytes) -> KeyTuple:
    """Return the keys of an entry; none of one that cannot be read."""
    try:
        return msgspec.json.decode(value, type=KeyTuple)
    except ENTRY_ERRORS:
        return ()


def _union(some: KeyTuple, others: KeyTuple) -> KeyTuple:
    by_id = {key.id: key for key in some}
    for key in others:
        known = by_id.setdefault(key.id, key)
        if key.revoked is not None and (known.revoked is None or key.revoked < known.revoked):
            by_id[key.id] = key
    return tuple(by_id.values())


def _encode_keys(keys: Iterable[GatewayKey]) -> bytes:
    return msgspec.json.encode(tuple(keys))


def _name(name: str) -> str:
    return f"{KEY_KIND}:{name}"
