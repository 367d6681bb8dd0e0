"""Entries by name, as the shared store keeps them: read together, changed one by one."""

from __future__ import annotations

import secrets
from importlib.resources import files
from typing import NamedTuple

import msgspec

from looptrap.store.redis.configuration import NEWS, SETTINGS, Configuration

SCRIPT = files("looptrap.gateway.agreement").joinpath("ledger.lua").read_bytes()

UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
"""What reading an entry raises that is not ours, or not whole."""

CHANGES = b""
EPOCH = b"epoch"
"""The field that tells the store's data from those that were there before they were lost."""


class Mark(NamedTuple):
    """Where the store's data stand: of another epoch, or fewer changes, some have been lost."""

    epoch: bytes = b""
    changes: int = 0

    def has_lost(self, before: Mark) -> bool:
        """Whether something may be missing that was there when the mark was `before`."""
        return self.epoch != before.epoch or self.changes < before.changes


class Ledger:
    """The entries of all instances; every method fails with an OSError while the store is away."""

    def __init__(self, configuration: Configuration) -> None:
        self.put = configuration.set
        self._call = configuration.command

    async def mark(self) -> Mark:
        """Return where the data stand, without reading them."""
        epoch, changes = await self._call(b"HMGET", SETTINGS, EPOCH, CHANGES)
        return Mark(epoch or b"", _number(changes))

    async def begin(self) -> None:
        """Give the data an epoch, unless they have one."""
        await self._swap(EPOCH, b"", secrets.token_hex(8).encode())

    async def read(self) -> tuple[Mark, dict[str, bytes]]:
        """Return all entries, and where the data stood."""
        flat: list[bytes] = await self._call(b"HGETALL", SETTINGS)
        found = dict(zip(flat[::2], flat[1::2], strict=True))
        mark = Mark(found.pop(EPOCH, b""), _number(found.pop(CHANGES, None)))
        # An empty text cannot be told from no entry where one is changed.
        return mark, {name.decode("utf-8", "replace"): one for name, one in found.items() if one}

    async def swap(self, name: str, before: bytes | None, after: bytes | None) -> bytes | None:
        """Change an entry if it is what it was; return what it is now. None stands for no entry."""
        return await self._swap(name.encode(), before or b"", after or b"") or None

    async def _swap(self, name: bytes, before: bytes, after: bytes) -> bytes:
        now: bytes = await self._call(b"EVAL", SETTINGS, NEWS, name, before, after, script=SCRIPT)
        return now


def _number(text: bytes | None) -> int:
    # Python raises for more than 4,300 digits; so many as Redis counts to are enough.
    return int(text) if text is not None and text.isdigit() and len(text) < 20 else 0
