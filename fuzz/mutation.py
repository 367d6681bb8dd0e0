"""Mutations: a good input, changed a little. As JSON where it is some: then the parser reads on."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

ODD: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 2**31, 2**63, 2**64, -(2**63), 1e308, -0.0, 0.5, 10**400, "", " ",
    "\0", "\n", "é", "\ud800", "😀", "null", "0", "-1", "NaN", "tool", "user", "assistant",
    "function", "a" * 300, [], {}, [[]], [{}], [None], {"": ""}, {"type": []}, {"role": "user"},
)  # fmt: skip
"""Values that stand where others are expected."""

SPICE = (
    b"", b"\0", b"\n", b"\r\n", b"\r", b" ", b"\t", b'"', b"\\", b"{", b"}", b"[", b"]", b",", b":",
    b"\xff", b"\xed\xa0\x80", b"\\ud800", b"\\u0000", b"null", b"NaN", b"Infinity", b"1e999", b"-0",
    b"0", b"9" * 30, b"[" * 40, b"{\"a\":" * 20, b"=", b";", b"&", b"%", b"%00", b"%ff", b"..",
)  # fmt: skip
"""Bytes that mean something to one parser or another."""

LARGEST = 16 * 1024


def mutated(data: bytes, rng: Random, words: Sequence[bytes] = ()) -> bytes:
    """Return an input like `data`, with one to four changes."""
    for _ in range(rng.randint(1, 4)):
        change = rng.choice((_in_json, _in_json, _spiced, _cut, _twice, _flipped))
        data = change(data, rng) if change is not _spiced else _spiced(data, rng, words)
    return data[:LARGEST]


def _spiced(data: bytes, rng: Random, words: Sequence[bytes] = ()) -> bytes:
    at = rng.randint(0, len(data))
    return data[:at] + rng.choice((*SPICE, *words)) + data[at + rng.randint(0, 4) :]


def _cut(data: bytes, rng: Random) -> bytes:
    at = rng.randint(0, len(data))
    return data[:at] + data[rng.randint(at, len(data)) :]


def _twice(data: bytes, rng: Random) -> bytes:
    at = rng.randint(0, len(data))
    end = min(len(data), at + rng.randint(0, 200))
    return data[:end] + data[at:end] * rng.randint(0, 3) + data[end:]


def _flipped(data: bytes, rng: Random) -> bytes:
    if not data:
        return data
    at = rng.randrange(len(data))
    return data[:at] + bytes([data[at] ^ 1 << rng.randrange(8)]) + data[at + 1 :]


def _in_json(data: bytes, rng: Random) -> bytes:
    """Change a value somewhere in a JSON text, which may stand behind a few bytes of its own."""
    start = min((at for at in (data.find(b"{"), data.find(b"[")) if at >= 0), default=0)
    try:
        value = json.loads(data[start:])
    except (ValueError, RecursionError):
        return _spiced(data, rng)
    places = list(_places(value))
    if not places:
        return _spiced(data, rng)
    rng.choice(places)(rng)
    return data[:start] + json.dumps(value, separators=(",", ":")).encode()


def _places(value: Any) -> Any:
    """Yield a change for every place in a value."""
    if isinstance(value, dict | list):
        for key in list(value) if isinstance(value, dict) else range(len(value)):
            yield _change(value, key)
            yield from _places(value[key])


def _change(within: Any, key: Any) -> Callable[[Random], None]:
    def change(rng: Random) -> None:
        match rng.randrange(5):
            case 0:
                del within[key]
            case 1 if isinstance(within, list):
                within.insert(key, within[rng.randrange(len(within))])
            case 1:
                within[str(rng.choice(ODD))] = within.pop(key)
            case 2 if len(within) > 1:
                within[key] = within[rng.choice(list(within))] if isinstance(within, dict) else []
            case 3 if isinstance(within[key], str):
                within[key] += str(rng.choice(ODD))
            case _:
                within[key] = rng.choice(ODD)

    return change
