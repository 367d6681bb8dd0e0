"""Files of runs: JSONL, plain or gzip, read line by line in bounded memory."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, NamedTuple

LONGEST_LINE = 64 * 1024 * 1024
"""No run is longer; what is, is skipped without being read into memory."""

GZIP_MAGIC = b"\x1f\x8b"


class Line(NamedTuple):
    """One line that may be a run."""

    number: int
    text: bytes | None
    """None for a line that is longer than a run may be."""
    position: int
    """How far in the file it ends, in bytes as they are on disk."""


def lines(path: Path) -> Iterator[Line]:
    """Yield the lines that are not blank; raises OSError for what cannot be read."""
    with path.open("rb") as file:
        is_packed = file.peek(2)[:2] == GZIP_MAGIC
        try:
            if is_packed:
                with gzip.open(file) as unpacked:
                    yield from _lines(unpacked, file)
            else:
                yield from _lines(file, file)
        except (EOFError, zlib.error) as error:
            raise OSError(f"broken gzip file: {error}") from error


def _lines(text: IO[bytes] | gzip.GzipFile, file: IO[bytes]) -> Iterator[Line]:
    number = 0
    while line := text.readline(LONGEST_LINE):
        number += 1
        is_cut = len(line) == LONGEST_LINE and not line.endswith(b"\n")
        while is_cut and (rest := text.readline(LONGEST_LINE)):
            is_cut = not rest.endswith(b"\n")
            line = b""
        if not line or line.strip():
            yield Line(number, line or None, file.tell())
