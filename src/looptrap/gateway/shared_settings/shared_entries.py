"""SharedEntries: entries by name that are equal on all instances, and the secret of all digests.

While the store is down, an instance uses the entries it has, and tries again every second.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Callable, Mapping
from contextlib import suppress
from importlib.resources import files
from typing import NamedTuple

import msgspec

from looptrap.schema.wording import quoted
from looptrap.store.redis import RedisStore
from looptrap.store.redis.shared_configuration import (
    CHANGES_CHANNEL,
    SECRET_BYTES,
    SETTINGS_KEY,
    SharedConfiguration,
)

SWAP_SCRIPT = files("looptrap.gateway.shared_settings").joinpath("swap_entry.lua").read_bytes()

ENTRY_ERRORS = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
"""The exceptions of decoding an entry that is invalid."""

CHANGES_FIELD = b""
EPOCH_FIELD = b"epoch"
"""The field that changes when the store has lost its data."""


class StoreRevision(NamedTuple):
    """The revision of the store's data: with another epoch, or fewer changes, some were lost."""

    epoch: bytes = b""
    changes: int = 0

    def has_lost(self, before: StoreRevision) -> bool:
        """Return whether data may be missing that were there at the revision `before`."""
        return self.epoch != before.epoch or self.changes < before.changes


class EntryStore:
    """The entries in the shared store; every method raises OSError while it is down."""

    def __init__(self, configuration: SharedConfiguration) -> None:
        self.put = configuration.set
        self._call = configuration.command

    async def revision(self) -> StoreRevision:
        """Return the revision of the data, without reading them."""
        epoch, changes = await self._call(b"HMGET", SETTINGS_KEY, EPOCH_FIELD, CHANGES_FIELD)
        return StoreRevision(epoch or b"", _parse_count(changes))

    async def begin(self) -> None:
        """Set an epoch, unless there is one."""
        await self._swap(EPOCH_FIELD, b"", secrets.token_hex(8).encode())

    async def read(self) -> tuple[StoreRevision, dict[str, bytes]]:
        """Return all entries, and their revision."""
        flat: list[bytes] = await self._call(b"HGETALL", SETTINGS_KEY)
        found = dict(zip(flat[::2], flat[1::2], strict=True))
        epoch, changes = found.pop(EPOCH_FIELD, b""), found.pop(CHANGES_FIELD, None)
        # For `swap`, an empty text is no entry.
        entries = {name.decode("utf-8", "replace"): one for name, one in found.items() if one}
        return StoreRevision(epoch, _parse_count(changes)), entries

    async def swap(self, name: str, before: bytes | None, after: bytes | None) -> bytes | None:
        """Replace an entry if it is `before`; return what it is now. None stands for no entry."""
        return await self._swap(name.encode(), before or b"", after or b"") or None

    async def _swap(self, name: bytes, before: bytes, after: bytes) -> bytes:
        now: bytes = await self._call(
            b"EVAL", SETTINGS_KEY, CHANGES_CHANNEL, name, before, after, script=SWAP_SCRIPT
        )
        return now


def _parse_count(text: bytes | None) -> int:
    # Python raises for more than 4,300 digits; Redis counts to fewer than 20.
    return int(text) if text is not None and text.isdigit() and len(text) < 20 else 0


log = logging.getLogger("looptrap")

POLL_INTERVAL_S = 1.0
"""Seconds between two reads of the store, if no change was published."""

MAX_LOGGED_ENTRIES = 1_000

MergeEntry = Callable[[bytes | None, bytes], bytes]
"""Returns an entry from the store's version of it, if any, and this instance's."""


class SharedEntries:
    """The entries of the shared store; without one, those that were set here.

    A store that lost its data gets the entries of its instances again.
    """

    def __init__(
        self,
        store: RedisStore | None,
        *,
        secret: bytes | None,
        on_secret: Callable[[bytes], None],
        on_change: Callable[[], None],
    ) -> None:
        """Without a `secret`, none is shared: the environment sets it for all instances."""
        self.is_read = False
        """Whether the store has been read since the start."""
        self.ignored = 0
        """Entries, and secrets, that could not be used."""
        self._store = store
        self._secret = secret
        self._on_secret = on_secret
        self._on_change = on_change
        self._entry_store: EntryStore | None = None
        self._entries: dict[str, bytes] = {}
        self._pending: dict[str, bytes | None] = {}
        self._revision = StoreRevision()
        self._merges: dict[str, MergeEntry] = {}
        self._lock = asyncio.Lock()
        self._changed = asyncio.Event()
        self._following: asyncio.Task[None] | None = None
        self._logged: set[tuple[str, bytes]] = set()

    async def start(self) -> None:
        """Read the store once, then follow its changes."""
        if self._store is None:
            return
        self._entry_store = EntryStore(self._store.configuration)
        await self._sync()
        self._store.configuration.on_change(self._changed.set)
        self._following = asyncio.get_running_loop().create_task(self._follow())

    async def stop(self) -> None:
        """Stop following."""
        if self._following is not None:
            self._following.cancel()
            await asyncio.gather(self._following, return_exceptions=True)

    # Entries

    def of(self, kind: str) -> dict[str, bytes]:
        """Return the entries of a kind, by the rest of their names."""
        prefix, entries = f"{kind}:", sorted(self._entries.items())
        return {name.removeprefix(prefix): one for name, one in entries if name.startswith(prefix)}

    def merge_by(self, kind: str, merge: MergeEntry) -> None:
        """Set how entries of a kind are merged that differ here and in a store that lost data."""
        self._merges[kind] = merge

    def preload(self, entries: Mapping[str, bytes]) -> None:
        """Take entries from before the start."""
        self._entries.update(entries)

    async def set(self, name: str, value: bytes | None) -> bool:
        """Set or drop an entry: here at once, elsewhere as soon as the store is up.

        Return whether the store has it.
        """
        if self._store is not None:
            self._pending[name] = value
        self._apply({**self._entries, name: value})
        return await self._sync()

    async def swap(self, name: str, before: bytes | None, after: bytes | None) -> bytes | None:
        """Replace an entry everywhere if it is `before`; return what it is now.

        An OSError says that the store is down, and nothing was changed here.
        """
        async with self._lock:
            if self._entry_store is None:
                if self._entries.get(name) == before:
                    self._apply({**self._entries, name: after})
                return self._entries.get(name)
            stored = await self._entry_store.swap(name, before, after)
            await self._sync_entries(self._entry_store)
            return stored

    async def refresh(self) -> None:
        """Read all changes until now; an OSError says that the store is down."""
        if self._entry_store is not None:
            async with self._lock:
                await self._sync_entries(self._entry_store)

    def ignore(self, name: str, value: bytes) -> None:
        """Count and log, once, that an entry cannot be used; never its content."""
        if (name, value) in self._logged or len(self._logged) >= MAX_LOGGED_ENTRIES:
            return
        self._logged.add((name, value))
        self.ignored += 1
        log.warning("the store's entry %s cannot be used, and is ignored", quoted(name))

    # Following

    async def _follow(self) -> None:
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(POLL_INTERVAL_S):
                    await self._changed.wait()
            self._changed.clear()
            await self._sync()

    async def _sync(self) -> bool:
        """Write what is pending and read the store; return whether that was done."""
        entry_store = self._entry_store
        if entry_store is None:
            return self._store is None
        try:
            async with self._lock:
                await self._sync_secret()
                await self._sync_entries(entry_store)
        except OSError as error:
            self._log_store_error(error)
            return False
        return True

    async def _sync_secret(self) -> None:
        """Use the store's secret; a store that lost its data gets ours again."""
        if self._secret is None or self._store is None:
            return
        # The store may lose its data between its two commands; then there is none.
        secret = await self._store.configuration.secret(self._secret) or self._secret
        if secret == self._secret:
            return
        if len(secret) != SECRET_BYTES:
            self.ignore("secret", secret)
            return
        self._secret = secret
        self._on_secret(secret)

    async def _sync_entries(self, entry_store: EntryStore) -> None:
        for name, value in list(self._pending.items()):
            await entry_store.put(name, value)
            if self._pending[name] is value:
                del self._pending[name]
        revision = await entry_store.revision()
        if revision == self._revision and revision.epoch:
            return
        revision, entries = await entry_store.read()
        if not revision.epoch:
            await entry_store.begin()
        if not revision.epoch or revision.has_lost(self._revision):
            await self._restore(entry_store, entries)
            revision, entries = await entry_store.read()
        self._revision = revision
        self.is_read = True
        self._apply(dict(entries))

    async def _restore(self, entry_store: EntryStore, entries: Mapping[str, bytes]) -> None:
        """Write back the entries that the store may have lost."""
        for name, ours in self._entries.items():
            merge = self._merges.get(name.partition(":")[0], _keep_stored)
            stored = entries.get(name)
            while (merged := merge(stored, ours)) != stored:
                stored = await entry_store.swap(name, stored, merged)

    def _apply(self, entries: dict[str, bytes | None]) -> None:
        """Replace all entries; those that are pending stay."""
        entries |= self._pending
        present = {name: value for name, value in entries.items() if value is not None}
        if present == self._entries:
            return
        self._entries = present
        # A change that fails must not prevent the next one.
        try:
            self._on_change()
        except Exception:
            log.exception("a change of the shared settings could not be applied")

    def _log_store_error(self, error: OSError) -> None:
        """Log once what a store that is up refuses; that it is down is logged elsewhere."""
        # Only the code: servers repeat what they were sent.
        code = str(error).partition(" ")[0]
        if self._store is not None and not self._store.is_degraded and code.isupper():
            self.ignore(f"lt:cfg ({code})", b"")


def merge_by_rank(rank: Callable[[bytes], int]) -> MergeEntry:
    """Return a merge that takes the entry of higher rank, else the stored one.

    An entry that is invalid has the lowest rank.
    """

    def rank_of(entry: bytes) -> int:
        try:
            return rank(entry)
        except ENTRY_ERRORS:
            return 0

    def merge(stored: bytes | None, ours: bytes) -> bytes:
        return ours if stored is None or rank_of(ours) > rank_of(stored) else stored

    return merge


_keep_stored = merge_by_rank(lambda _entry: 0)
