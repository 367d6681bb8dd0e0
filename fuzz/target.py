"""Targets: what is fuzzed, and what it is fuzzed with to begin with."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """One parser; `check` raises when a law is broken, and for nothing else."""

    name: str
    check: Callable[[bytes], None]
    seeds: Callable[[], Iterable[bytes]]
    """Return good inputs, from which the others are made."""
    words: tuple[bytes, ...] = ()
    """What stands out in this language, to be put in here and there."""


def pick(data: bytes, options: Sequence[T]) -> tuple[T, bytes]:
    """Return the option that the first byte stands for, and the rest."""
    return options[(data[0] if data else 0) % len(options)], data[1:]


def seed(place: int, data: bytes) -> bytes:
    """Return an input for which `pick` picks the option at that place."""
    return bytes([place]) + data


def cuts(data: bytes) -> list[bytes]:
    """Return the input in pieces of unequal sizes, the same for the same input."""
    pieces, at, size = [], 0, 1 + len(data) % 7
    while at < len(data):
        pieces.append(data[at : at + size])
        at += size
        size = size * 5 % 61 + 1
    return pieces
