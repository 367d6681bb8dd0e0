"""Entries by name that are the same on all instances, and the key of all digests.

While the store cannot be asked, an instance goes on with what it knows; it asks again every second.
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

SWAP_SCRIPT = files("looptrap.gateway.shared_settings").joinpath("ledger.lua").read_bytes()

ENTRY_ERRORS = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
"""What reading an entry raises that is not ours, or not whole."""

CHANGES_FIELD = b""
EPOCH_FIELD = b"epoch"
"""The field that tells the store's data from those that were there before they were lost."""


class StoreRevision(NamedTuple):
    """Where the store's data stand: of another epoch, or fewer changes, some have been lost."""

    epoch: bytes = b""
    changes: int = 0

    def has_lost(self, before: StoreRevision) -> bool:
        """Whether something may be missing that was there when the mark was `before`."""
        return self.epoch != before.epoch or self.changes < before.changes


class EntryStore:
    """The entries of all instances; every method fails with an OSError while the store is away."""

    def __init__(self, configuration: SharedConfiguration) -> None:
        self.put = configuration.set
        self._call = configuration.command

    async def mark(self) -> StoreRevision:
        """Return where the data stand, without reading them."""
        epoch, changes = await self._call(b"HMGET", SETTINGS_KEY, EPOCH_FIELD, CHANGES_FIELD)
        return StoreRevision(epoch or b"", _parse_count(changes))

    async def begin(self) -> None:
        """Give the data an epoch, unless they have one."""
        await self._swap(EPOCH_FIELD, b"", secrets.token_hex(8).encode())

    async def read(self) -> tuple[StoreRevision, dict[str, bytes]]:
        """Return all entries, and where the data stood."""
        flat: list[bytes] = await self._call(b"HGETALL", SETTINGS_KEY)
        found = dict(zip(flat[::2], flat[1::2], strict=True))
        mark = StoreRevision(
            found.pop(EPOCH_FIELD, b""), _parse_count(found.pop(CHANGES_FIELD, None))
        )
        # An empty text cannot be told from no entry where one is changed.
        return mark, {name.decode("utf-8", "replace"): one for name, one in found.items() if one}

    async def swap(self, name: str, before: bytes | None, after: bytes | None) -> bytes | None:
        """Change an entry if it is what it was; return what it is now. None stands for no entry."""
        return await self._swap(name.encode(), before or b"", after or b"") or None

    async def _swap(self, name: bytes, before: bytes, after: bytes) -> bytes:
        now: bytes = await self._call(
            b"EVAL", SETTINGS_KEY, CHANGES_CHANNEL, name, before, after, script=SWAP_SCRIPT
        )
        return now


def _parse_count(text: bytes | None) -> int:
    # Python raises for more than 4,300 digits; so many as Redis counts to are enough.
    return int(text) if text is not None and text.isdigit() and len(text) < 20 else 0


log = logging.getLogger("looptrap")

POLL_INTERVAL_S = 1.0
"""Seconds between two looks at what others agreed on, where no news came."""

MAX_LOGGED_ENTRIES = 1_000

MergeEntry = Callable[[bytes | None, bytes], bytes]
"""From what the store has of an entry and what this instance knows, what it shall be."""


class SharedEntries:
    """Follows the shared store; without one, what is set here is all there is.

    A store that lost its data is given again what its instances know.
    """

    def __init__(
        self,
        store: RedisStore | None,
        *,
        secret: bytes | None,
        on_secret: Callable[[bytes], None],
        on_change: Callable[[], None],
    ) -> None:
        """Without a `secret` there is none to agree on: all instances were given theirs."""
        self.is_heard = False
        """Whether the store has been read since the start."""
        self.ignored = 0
        """Entries, and secrets, that could not be used."""
        self._store = store
        self._secret = secret
        self._on_secret = on_secret
        self._on_change = on_change
        self._ledger: EntryStore | None = None
        self._known: dict[str, bytes] = {}
        self._owed: dict[str, bytes | None] = {}
        self._mark = StoreRevision()
        self._merges: dict[str, MergeEntry] = {}
        self._lock = asyncio.Lock()
        self._news = asyncio.Event()
        self._following: asyncio.Task[None] | None = None
        self._told: set[tuple[str, bytes]] = set()

    async def start(self) -> None:
        """Ask once, then follow."""
        if self._store is None:
            return
        self._ledger = EntryStore(self._store.configuration)
        await self._agree()
        self._store.configuration.on_change(self._news.set)
        self._following = asyncio.get_running_loop().create_task(self._follow())

    async def stop(self) -> None:
        """Ask no more."""
        if self._following is not None:
            self._following.cancel()
            await asyncio.gather(self._following, return_exceptions=True)

    # What is agreed on

    def of(self, kind: str) -> dict[str, bytes]:
        """Return the entries of a kind, by the rest of their names."""
        begin = f"{kind}:"
        found = {name: value for name, value in self._known.items() if name.startswith(begin)}
        return {name.removeprefix(begin): found[name] for name in sorted(found)}

    def merge_by(self, kind: str, merge: MergeEntry) -> None:
        """Say what becomes of an entry of a kind that the store and this instance know apart."""
        self._merges[kind] = merge

    def remember(self, entries: Mapping[str, bytes]) -> None:
        """Know these from before the start."""
        self._known.update(entries)

    async def tell(self, name: str, value: bytes | None) -> bool:
        """Set or drop an entry: here at once, elsewhere as soon as the store can be told.

        Return whether it has been.
        """
        if self._store is not None:
            self._owed[name] = value
        self._know({**self._known, name: value})
        return await self._agree()

    async def swap(self, name: str, before: bytes | None, after: bytes | None) -> bytes | None:
        """Change an entry everywhere if it is what it was; return what it is now.

        An OSError says that the store is away, and nothing has been changed here.
        """
        async with self._lock:
            if self._ledger is None:
                if self._known.get(name) == before:
                    self._know({**self._known, name: after})
                return self._known.get(name)
            there = await self._ledger.swap(name, before, after)
            await self._look(self._ledger)
            return there

    async def refresh(self) -> None:
        """Hear of all that was changed until now; an OSError says that the store is away."""
        if self._ledger is not None:
            async with self._lock:
                await self._look(self._ledger)

    def ignore(self, name: str, value: bytes) -> None:
        """Count and tell, once, that an entry cannot be used; never what it says."""
        if (name, value) in self._told or len(self._told) >= MAX_LOGGED_ENTRIES:
            return
        self._told.add((name, value))
        self.ignored += 1
        log.warning("the store's entry %s cannot be used, and is ignored", quoted(name))

    # Following

    async def _follow(self) -> None:
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(POLL_INTERVAL_S):
                    await self._news.wait()
            self._news.clear()
            await self._agree()

    async def _agree(self) -> bool:
        """Tell the store what it is owed and hear what it says; return whether that was done."""
        ledger = self._ledger
        if ledger is None:
            return self._store is None
        try:
            async with self._lock:
                await self._agree_on_secret()
                await self._look(ledger)
        except OSError as error:
            self._complain(error)
            return False
        return True

    async def _agree_on_secret(self) -> None:
        """Take the store's secret; one that lost its data is given ours again."""
        if self._secret is None or self._store is None:
            return
        # Between its two commands the store may lose its data; then there is none.
        agreed = await self._store.configuration.secret(self._secret) or self._secret
        if agreed == self._secret:
            return
        if len(agreed) != SECRET_BYTES:
            self.ignore("secret", agreed)
            return
        self._secret = agreed
        self._on_secret(agreed)

    async def _look(self, ledger: EntryStore) -> None:
        for name, value in list(self._owed.items()):
            await ledger.put(name, value)
            if self._owed[name] is value:
                del self._owed[name]
        mark = await ledger.mark()
        if mark == self._mark and mark.epoch:
            return
        mark, entries = await ledger.read()
        if not mark.epoch:
            await ledger.begin()
        if not mark.epoch or mark.has_lost(self._mark):
            await self._offer(ledger, entries)
            mark, entries = await ledger.read()
        self._mark = mark
        self.is_heard = True
        self._know(dict(entries))

    async def _offer(self, ledger: EntryStore, entries: Mapping[str, bytes]) -> None:
        """Put back what is known here and may have been lost there."""
        for name, ours in self._known.items():
            merge = self._merges.get(name.partition(":")[0], _keep_stored)
            there = entries.get(name)
            while (merged := merge(there, ours)) != there:
                there = await ledger.swap(name, there, merged)

    def _know(self, entries: dict[str, bytes | None]) -> None:
        """Know these, and what the store is still to be told."""
        entries |= self._owed
        known = {name: value for name, value in entries.items() if value is not None}
        if known == self._known:
            return
        self._known = known
        # Whoever cannot follow one change must hear of the next.
        try:
            self._on_change()
        except Exception:
            log.exception("a change of what instances agree on could not be followed")

    def _complain(self, error: OSError) -> None:
        """Tell once what a store refuses that is there; one that is away is told by itself."""
        # Only the code: servers repeat what they were sent.
        code = str(error).partition(" ")[0]
        if self._store is not None and not self._store.is_degraded and code.isupper():
            self.ignore(f"lt:cfg ({code})", b"")


def _keep_stored(there: bytes | None, ours: bytes) -> bytes:
    return ours if there is None else there
