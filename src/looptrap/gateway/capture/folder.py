"""The folder of a capture: files that only their owner can read, the oldest of which make room."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

from looptrap.errors import ConfigError, Problem

LARGEST_FILE = 64 << 20
"""A file that has so many bytes is followed by another …"""

FEWEST_FILES = 4
"""… or when it has its share of the limit, where that is less."""

_OURS = re.compile(r"looptrap-\d{8}T\d{6}\.\d{6}Z-\d+\.jsonl")
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC


class Folder:
    """Writes lines into files of its own, one after the other."""

    def __init__(self, path: str | Path, limit: int, clock: Callable[[], float]) -> None:
        self._path = Path(path)
        self._limit = limit
        self._clock = clock
        self._share = min(LARGEST_FILE, limit // FEWEST_FILES)
        self._descriptor: int | None = None
        self._file = Path()
        self._size = 0

    def make(self) -> None:
        """Make the folder where it is missing; raise ConfigError where nothing can be written."""
        try:
            self._path.mkdir(mode=0o700, parents=True, exist_ok=True)
            if not os.access(self._path, os.W_OK | os.X_OK):
                raise PermissionError(None, "permission denied")
        except OSError as error:
            why = (error.strerror or str(error)).lower()
            problem = Problem("gateway.capture_dir", f"{self._path}: cannot write there: {why}")
            raise ConfigError([problem]) from None

    @property
    def room(self) -> int:
        """How many bytes the file can take; the last line may take more."""
        return self._share - self._size

    def is_at_end(self) -> bool:
        """Say whether the next line belongs into a new file: this one is full, or gone."""
        if self._descriptor is None or self.room <= 0:
            return True
        return not os.fstat(self._descriptor).st_nlink

    def open(self) -> None:
        """Go on in a new file, after making room for it; raises OSError."""
        self.close()
        self._path.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._make_room()
        when = datetime.fromtimestamp(self._clock(), UTC)
        while self._descriptor is None:
            self._file = self._path / f"looptrap-{when:%Y%m%dT%H%M%S.%fZ}-{os.getpid()}.jsonl"
            try:
                # Never open to others, not even before the first byte.
                self._descriptor = os.open(self._file, _NEW, 0o600)
            except FileExistsError:
                when += timedelta(microseconds=1)

    def write(self, lines: bytes) -> None:
        """Append whole lines; raises OSError, and then the file is closed as it was before."""
        assert self._descriptor is not None  # opened before
        left = memoryview(lines)
        try:
            while left:
                left = left[os.write(self._descriptor, left) :]
        except OSError:
            self._take_back()
            raise
        self._size += len(lines)

    def close(self) -> None:
        """Close the file; the next line needs another."""
        if self._descriptor is not None:
            os.close(self._descriptor)
        self._descriptor, self._size = None, 0

    def _take_back(self) -> None:
        """Leave no part of a line behind, nor an empty file."""
        with suppress(OSError):
            if self._size and self._descriptor is not None:
                os.ftruncate(self._descriptor, self._size)
            else:
                self._file.unlink()
        self.close()

    def _make_room(self) -> None:
        """Delete the oldest files until one more fits; what is not ours is not looked at."""
        files = sorted(file for file in self._path.iterdir() if _OURS.fullmatch(file.name))
        sizes = {}
        for file in files:
            with suppress(FileNotFoundError):
                sizes[file] = file.stat().st_size
        total = sum(sizes.values())
        for file, size in sizes.items():
            if total <= self._limit - self._share:
                break
            file.unlink(missing_ok=True)
            total -= size
