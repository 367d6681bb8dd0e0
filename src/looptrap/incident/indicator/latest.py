"""What is remembered by key, within bounds: the keys used latest stay."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V")


def _ignore(_value: object) -> None:
    """Let a value go."""


class Latest(dict[K, V]):
    """Values made when first asked for; of more than `most` keys, those used longest ago go.

    It forgets by halves, so that a look-up is all in C: what was not used while half of `most`
    other keys came is forgotten when as many more have come.
    """

    def __init__(
        self, make: Callable[[K], V], most: int, on_drop: Callable[[V], None] = _ignore
    ) -> None:
        self._make = make
        self._half = max(most // 2, 1)
        self._on_drop = on_drop
        self._old: dict[K, V] = {}

    def __missing__(self, key: K) -> V:
        value = self._old.pop(key) if key in self._old else self._make(key)
        if len(self) >= self._half:
            dropped, self._old = self._old, self.copy()
            self.clear()
            for one in dropped.values():
                self._on_drop(one)
        self[key] = value
        return value

    def all(self) -> list[V]:
        """Return every value."""
        return [*self.values(), *self._old.values()]

    def forget(self, keys: Iterable[K]) -> None:
        """Let go of keys that are of no more use; nobody is told."""
        for key in keys:
            self.pop(key, None)
            self._old.pop(key, None)
