"""One spelling for what counts as the same: normalised texts, joined unambiguously."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b

SEPARATOR = b"\xff"
"""Stands between texts. UTF-8 never contains it, so nothing a client writes can forge one."""

LONG_TEXT = 65_536
"""Texts longer than this are compared to the letter: a loop sends them again as they were."""

_ASCII_SPACE = b"\t\n\x0b\x0c\r\x1c\x1d\x1e\x1f"
_NUL_TO_SEPARATOR = bytes([SEPARATOR[0], *range(1, 256)])
_NORMAL = bytes(
    0x20 if byte in _ASCII_SPACE else byte | 0x20 if 0x41 <= byte <= 0x5A else byte
    for byte in _NUL_TO_SEPARATOR
)


def join(texts: Sequence[str]) -> bytes:
    """Join texts so that no two lists of as many texts ever give the same bytes."""
    joined = "\0".join(texts)
    if joined.isascii() and joined.count("\0") == len(texts) - 1:
        return joined.encode().translate(_NUL_TO_SEPARATOR)
    return SEPARATOR.join([_encoded(text) for text in texts])


def normalise(texts: Sequence[str]) -> bytes:
    """Join texts with case folded and every run of white space made one space.

    ASCII, which most prompts are, is joined and cleaned in one go: no object a text, and none a
    word unless there are runs of spaces.
    """
    joined = "\0".join(map(str.strip, texts))
    if (
        joined.isascii()
        and len(joined) <= LONG_TEXT
        and joined.count("\0") == len(texts) - 1  # no text has one itself
    ):
        cleaned = joined.encode().translate(_NORMAL)
        return b" ".join(cleaned.split()) if b"  " in cleaned else cleaned
    return SEPARATOR.join([_normal(text) for text in texts])


def _normal(text: str) -> bytes:
    if len(text) > LONG_TEXT:
        return blake2b(_encoded(text)).hexdigest().encode()
    return _encoded(" ".join(text.split()).casefold())


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")
