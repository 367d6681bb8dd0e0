"""One spelling for what counts as the same: normalised texts, joined unambiguously."""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b

SEPARATOR = b"\xff"
"""Stands between texts. UTF-8 never contains it, so nothing a client writes can forge one."""

LONG_TEXT = 65_536
"""Texts longer than this are compared to the letter: a loop sends them again as they were."""

_ASCII_SPACE = b"\t\n\x0b\x0c\r\x1c\x1d\x1e\x1f"
_ONE_SPACE_LOWER = bytes(
    0x20 if byte in _ASCII_SPACE else byte | 0x20 if 0x41 <= byte <= 0x5A else byte
    for byte in range(256)
)


def join(texts: Iterable[str]) -> bytes:
    """Join texts so that no two lists of as many texts ever give the same bytes."""
    return SEPARATOR.join([text.encode() if text.isascii() else _encoded(text) for text in texts])


def normalise(texts: Iterable[str]) -> bytes:
    """Join texts with case folded and every run of white space made one space.

    All are cleaned in one go, and ASCII without runs of spaces, which most prompts are, makes no
    object a word: a quarter of the cost of splitting and joining each.
    """
    joined = SEPARATOR.join(
        [
            text.strip().encode() if text.isascii() and len(text) <= LONG_TEXT else _folded(text)
            for text in texts
        ]
    ).translate(_ONE_SPACE_LOWER)
    return b" ".join(joined.split()) if b"  " in joined else joined


def _folded(text: str) -> bytes:
    if len(text) > LONG_TEXT:
        return blake2b(_encoded(text)).hexdigest().encode()
    return _encoded(" ".join(text.split()).casefold())


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")
