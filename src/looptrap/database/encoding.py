"""Encoding of what is stored: text that clients send may hold halves of characters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

T = TypeVar("T")


def encode_struct(encode: Callable[[T], bytes], value: T) -> tuple[T, bytes]:
    """Encode a struct; return it as it was encoded, without lone surrogates."""
    try:
        return value, encode(value)
    except UnicodeEncodeError:  # a client may send half of a surrogate pair
        value = struct_without_surrogates(value)
        return value, encode(value)


def struct_without_surrogates(value: T) -> T:
    """Return a copy with a question mark for each lone surrogate."""
    builtins = msgspec.to_builtins(value, builtin_types=(bytes,))
    return msgspec.convert(without_surrogates(builtins), type(value))


def without_surrogates(value: Any) -> Any:
    """Return text with a question mark for each lone surrogate; also inside lists and dicts."""
    if isinstance(value, str):
        return value if value.isascii() else value.encode("utf-8", "replace").decode()
    if isinstance(value, dict):
        return {without_surrogates(name): without_surrogates(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [without_surrogates(one) for one in value]
    return value


def without_nul(value: Any) -> Any:
    """Return text without the character that PostgreSQL cannot store; also inside lists."""
    if isinstance(value, str):
        return value.replace("\0", "\ufffd") if "\0" in value else value
    if isinstance(value, list):
        return [without_nul(one) for one in value]
    return value
