"""One spelling for what counts as the same: normalised texts, joined unambiguously."""

from __future__ import annotations

import re
from collections.abc import Sequence
from hashlib import blake2b
from unicodedata import normalize

SEPARATOR = b"\xff"
"""Separates texts. UTF-8 never contains it, so no client text can forge one."""

LONG_TEXT = 65_536
"""Longer texts are compared exactly: a loop sends them again unchanged."""

_ASCII_SPACE = b"\t\n\x0b\x0c\r\x1c\x1d\x1e\x1f"
_NUL_TO_SEPARATOR = bytes([SEPARATOR[0], *range(1, 256)])
_NORMAL = bytes(
    0x20 if byte in _ASCII_SPACE else byte | 0x20 if 0x41 <= byte <= 0x5A else byte
    for byte in _NUL_TO_SEPARATOR
)

_ALMOST_INVISIBLE = "\ufe0e\ufe0f\u034f\u115f\u1160"
"""Invisible characters that Unicode counts as printable."""
_INVISIBLE = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f"
    "\ufe00-\ufe0f\ufeff\U000e0000-\U000e0fff]"
)
_LOOK_ALIKES = "аеорсухіјѕһԁԛԝАВЕКМНОРСТУХІЈЅοανικρτυχΑΒΕΖΗΙΚΜΝΟΡΤΥΧ"
_LATIN = str.maketrans(_LOOK_ALIKES, "aeopcyxijshdqwABEKMHOPCTYXIJSoavikptuxABEZHIKMNOPTYX")
"""Cyrillic and Greek letters that look like Latin ones."""


def join(texts: Sequence[str]) -> bytes:
    """Join texts so that no two lists of as many texts ever give the same bytes."""
    joined = "\0".join(texts)
    if joined.isascii() and joined.count("\0") == len(texts) - 1:
        return joined.encode().translate(_NUL_TO_SEPARATOR)
    return SEPARATOR.join([_encoded(text) for text in texts])


def normalise(texts: Sequence[str]) -> bytes:
    """Join texts with case folded, every run of white space made one space, and nothing invisible.

    ASCII, which most prompts are, is joined and cleaned in one pass, without an object per text,
    or per word unless there are runs of spaces.
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
    text = " ".join(text.split())
    return _encoded((text if text.isascii() else _plain(text)).casefold())


def _plain(text: str) -> str:
    """Return a text without invisible characters, with look-alike letters made Latin."""
    if not text.isprintable() or any(char in text for char in _ALMOST_INVISIBLE):
        text = _INVISIBLE.sub("", text)
    folded = normalize("NFKC", text)
    if folded is not text:
        text = " ".join(folded.split())
    # In text that is mostly Cyrillic or Greek these letters are what they look like.
    if any(char in text for char in _LOOK_ALIKES) and len(_encoded(text)) <= 1.6 * len(text):
        text = text.translate(_LATIN)
    return text


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")
