"""Gateway keys in the shared store: one entry a name, with all keys that ever had it.

So two that are added at once under one name are one change after the other, and none is lost.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime

import msgspec

from looptrap.errors import ConfigError
from looptrap.gateway.keys import KeyRing, check_name, new_key, with_key_revoked
from looptrap.gateway.shared_settings.shared_entries import ENTRY_ERRORS, EntryStore, SharedEntries
from looptrap.gateway.state_file import GatewayKey, GatewayState, StateFile

KEY_KIND = "key"

KeyTuple = tuple[GatewayKey, ...]

log = logging.getLogger("looptrap")


async def add(
    ledger: EntryStore, name: str, *, project: str = "", now: datetime
) -> tuple[GatewayKey, str]:
    """Make a key of that name and keep it in the store; return it with its text, shown only here.

    An OSError says that the store is away.
    """
    check_name("NAME", name)
    if project:
        check_name("project", project)
    while True:
        entries = await _read_entries(ledger)
        everyone = _decode_keys(entries)
        of_name = [key for key in everyone if key.name == name]
        key, text = new_key(name, everyone, project=project, now=now)
        if await _is_swapped(ledger, name, entries, (*of_name, key)):
            return key, text


async def revoke(ledger: EntryStore, name: str, *, now: datetime) -> GatewayKey:
    """Refuse that key from now on, on all instances; its entry stays."""
    check_name("NAME", name)
    while True:
        entries = await _read_entries(ledger)
        every, revoked = with_key_revoked(_decode_keys(entries), name, now)
        of_name = [key for key in every if key.name == name]
        if await _is_swapped(ledger, name, entries, of_name):
            return revoked


async def list_keys(ledger: EntryStore) -> KeyTuple:
    """Return all keys in the store, in the order they were made."""
    return _decode_keys(await _read_entries(ledger))


class SharedKeys:
    """Keeps a ring to the store's keys; a file remembers them for starts without the store.

    So keys that were once required stay so, also where the store is away or has lost them.
    """

    def __init__(self, agreement: SharedEntries, ring: KeyRing, file: StateFile) -> None:
        self._agreement = agreement
        self._ring = ring
        self._file = file
        agreement.merge_by(KEY_KIND, _merge_keys)
        by_name: dict[str, list[GatewayKey]] = {}
        for key in self._remembered():
            by_name.setdefault(key.name, []).append(key)
        agreement.remember({_name(one): _encode_keys(keys) for one, keys in by_name.items()})
        self._known = self._agreed()
        ring.share(self._known)

    def follow(self) -> Callable[[], None] | None:
        """Give the ring what is agreed; return what remembers it, where that is another."""
        found = self._agreed()
        if found == self._known:
            return None
        self._known = found
        self._ring.share(found)
        return lambda: self._remember(found)

    def _agreed(self) -> KeyTuple:
        entries = self._agreement.of(KEY_KIND)
        return _decode_keys(
            entries, lambda name: self._agreement.ignore(_name(name), entries[name])
        )

    def _remembered(self) -> KeyTuple:
        try:
            state = self._file.read()
        except ConfigError as error:
            log.warning("%s", error)
            return ()
        return state.keys if state is not None else ()

    def _remember(self, keys: KeyTuple) -> None:
        """Add to what the file knows; of two that do so at once, none undoes the other."""

        def change(state: GatewayState) -> GatewayState:
            every = _union(state.keys, keys)
            return state if every == state.keys else msgspec.structs.replace(state, keys=every)

        try:
            self._file.update(change)
        except (ConfigError, ValueError) as error:
            log.warning("the store's keys are not remembered: %s", error)


async def _read_entries(ledger: EntryStore) -> dict[str, bytes]:
    """Return the entries of keys, by name."""
    _, entries = await ledger.read()
    begin = _name("")
    return {
        name.removeprefix(begin): value for name, value in entries.items() if name.startswith(begin)
    }


async def _is_swapped(
    ledger: EntryStore, name: str, entries: Mapping[str, bytes], keys: Iterable[GatewayKey]
) -> bool:
    after = _encode_keys(keys)
    return await ledger.swap(_name(name), entries.get(name), after) == after


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


def _merge_keys(there: bytes | None, ours: bytes) -> bytes:
    """Return all keys of two entries of one name; revoked in either is revoked."""
    known, in_store = _decode_entry(ours), _decode_entry(there or b"")
    if there is None or (known and not in_store):
        return ours
    every = _union(in_store, known)
    return there if every == in_store else _encode_keys(every)


def _decode_entry(value: bytes) -> KeyTuple:
    """Return the keys of an entry; of one that cannot be read, none."""
    try:
        return msgspec.json.decode(value, type=KeyTuple)
    except ENTRY_ERRORS:
        return ()


def _union(some: KeyTuple, others: KeyTuple) -> KeyTuple:
    by_id = {key.id: key for key in some}
    for key in others:
        if key.id not in by_id or (key.revoked is not None and by_id[key.id].revoked is None):
            by_id[key.id] = key
    return tuple(by_id.values())


def _encode_keys(keys: Iterable[GatewayKey]) -> bytes:
    return msgspec.json.encode(tuple(keys))


def _name(name: str) -> str:
    return f"{KEY_KIND}:{name}"
