"""Layers: what was set of something at run time, by its name, on top of what the file says."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import msgspec

from looptrap.gateway.agreement.agreement import Agreement
from looptrap.gateway.agreement.ledger import UNREADABLE

TRIES = 20
"""So often a change is tried again because others changed the same thing meanwhile."""


class Layer(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What was set at run time, and its version: later ones are higher."""

    version: int
    settings: dict[str, Any]


NOTHING = Layer(0, {})
"""Where nothing was set."""


class Layers:
    """The layers of one kind that all instances were given at run time."""

    kind: ClassVar[str]
    """By which they are told from what else instances agree on."""

    def __init__(self, agreement: Agreement, clock: Callable[[], float]) -> None:
        self._agreement = agreement
        self._clock = clock
        agreement.merge_by(self.kind, _later)

    def layers(self) -> dict[str, Layer]:
        """Return what is set, by name."""
        found = {name: self._layer(name, value) for name, value in self._entries().items()}
        return {name: layer for name, layer in found.items() if layer is not NOTHING}

    def layer(self, name: str) -> Layer:
        """Return what is set under one name."""
        return self._layer(name, self._entries().get(name))

    def ignore(self, name: str) -> None:
        """Say that what is set under a name cannot be used."""
        self._agreement.ignore(self._name(name), self._entries()[name])

    async def drop(self, name: str, version: int | None) -> Layer | None:
        """Go back to what the file says, under the conditions of `change`."""
        return await self.change(name, None, version)

    async def change(
        self, name: str, settings: Mapping[str, Any] | None, version: int | None
    ) -> Layer | None:
        """Set all that is set under a name, or without settings nothing; return what is there.

        With a `version` only if that is there now, else None is returned. An OSError says that the
        store is away.
        """
        await self._agreement.refresh()
        before = self._entries().get(name)
        for _ in range(TRIES):
            there = self._layer(name, before)
            if version is not None and version != there.version:
                return None
            layer, after = NOTHING, None
            if settings is not None:
                layer = Layer(max(int(self._clock() * 1000), there.version + 1), dict(settings))
                after = msgspec.json.encode(layer)
            before = await self._agreement.swap(self._name(name), before, after)
            if before == after:
                return layer
        return None

    def _entries(self) -> dict[str, bytes]:
        return self._agreement.of(self.kind)

    def _layer(self, name: str, value: bytes | None) -> Layer:
        if value is None:
            return NOTHING
        try:
            return msgspec.json.decode(value, type=Layer)
        except UNREADABLE:
            self._agreement.ignore(self._name(name), value)
            return NOTHING

    def _name(self, name: str) -> str:
        return f"{self.kind}:{name}"


def _later(there: bytes | None, ours: bytes) -> bytes:
    """Return the later of two layers; one that cannot be read is earlier than any."""
    return ours if there is None or _version(ours) > _version(there) else there


def _version(value: bytes) -> int:
    try:
        return msgspec.json.decode(value, type=Layer).version
    except UNREADABLE:
        return 0
