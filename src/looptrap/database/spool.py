"""Spool: records that wait on disk, in their order, until a database has taken them.

Each process has a spool of its own, locked while it lives. What a killed process left behind is
taken over by the next one that looks. A record outlives the process, not the machine.
"""

from __future__ import annotations

import errno
import fcntl
import os
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from secrets import token_hex
from struct import Struct
from threading import Lock
from zlib import crc32

HEADER = Struct(">IIQ")
"""Length and checksum of a record, and its number."""

SEGMENT_BYTES = 8 << 20
"""Size of a file, about: one that is taken completely is deleted."""

LOCK_ENDING, SEGMENT_ENDING = ".lock", ".spool"


class SpoolFullError(OSError):
    """The records that wait have reached the largest size allowed."""


class Spool:
    """The records of one process, numbered from 1 on."""

    def __init__(self, folder: Path, name: str, lock: int, max_size: int) -> None:
        self.id = name
        self.size = 0
        """Bytes that wait, and those that were taken from a file that has more."""
        self.damaged = 0
        """Records that could not be read: the last one where a process was killed in a write."""
        self.waiting = 0
        """Records that wait."""
        self._folder = folder
        self._lock = lock
        self._max_size = max_size
        self._segments: deque[Segment] = deque()
        self._next_number = self._next_segment = 1
        self._threads = Lock()
        """One thread adds, another takes."""

    @classmethod
    def create(cls, folder: Path, max_size: int) -> Spool:
        """Make a spool in a folder; raise OSError if that cannot be done."""
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        name = token_hex(8)
        # Under its name only once it is locked: another process would take it for abandoned.
        unlocked = folder / f"{name}.new"
        lock = os.open(unlocked, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(lock, fcntl.LOCK_EX)
        unlocked.rename(folder / (name + LOCK_ENDING))
        return cls(folder, name, lock, max_size)

    @classmethod
    def abandoned(
        cls, folder: Path, on_error: Callable[[OSError], None] = lambda _error: None
    ) -> Iterator[Spool]:
        """Take over the spools in a folder whose processes have ended.

        One that cannot be read is left as it is; `on_error` is told why.
        """
        for path in sorted(folder.glob("*" + LOCK_ENDING)):
            try:
                lock = _locked(path)
                if lock is None:
                    continue
                if not path.exists():  # another process was quicker, and has done with it
                    os.close(lock)
                    continue
                spool = cls(folder, path.stem, lock, 0)
                spool._load()
            except OSError as error:
                on_error(error)
            else:
                yield spool

    def append(self, record: bytes) -> int:
        """Add a record and return its number; raise OSError, and change nothing, if it fails."""
        with self._threads:
            length = HEADER.size + len(record)
            # A record that is larger than all that may wait goes through when nothing else waits.
            if self.waiting and self.size + length > self._max_size:
                raise SpoolFullError(errno.ENOSPC, "the spool is full")
            if not self._segments or self._segments[-1].is_finished():
                path = self._folder / f"{self.id}.{self._next_segment:08d}{SEGMENT_ENDING}"
                self._segments.append(Segment(path))
                self._next_segment += 1
            number = self._next_number
            self._segments[-1].append(HEADER.pack(len(record), crc32(record), number) + record)
            self._next_number += 1
            self.size += length
            self.waiting += 1
            return number

    def first(self, max_records: int, max_bytes: int) -> list[tuple[int, bytes]]:
        """Return the first records that wait, at least one if there is any; they stay."""
        with self._threads:
            found: list[tuple[int, bytes]] = []
            total = 0
            for segment in self._segments:
                for number, record, _ in segment.records(segment.start):
                    total += len(record)
                    if found and (len(found) >= max_records or total > max_bytes):
                        return found
                    found.append((number, record))
            if not found and self.waiting:
                self._give_up()
            return found

    def drop(self, number: int) -> None:
        """Remove the records up to that number: they are taken."""
        with self._threads:
            while self._segments:
                segment = self._segments[0]
                self.waiting -= segment.skip(number)
                if segment.start < segment.end:
                    break
                self.size -= segment.end
                if len(self._segments) == 1 and segment.end < SEGMENT_BYTES:
                    segment.empty()
                    break
                self._segments.popleft()
                segment.remove()

    def close(self) -> None:
        """Leave it to the next process, or remove it if nothing waits."""
        for segment in self._segments:
            if self.waiting:
                segment.close()
            else:
                segment.remove()
        if not self.waiting:
            (self._folder / (self.id + LOCK_ENDING)).unlink(missing_ok=True)
        self._segments.clear()
        os.close(self._lock)

    def _give_up(self) -> None:
        """Count what waits as damaged: somebody has changed the files meanwhile."""
        self.damaged += self.waiting
        self.waiting = self.size = 0
        while self._segments:
            self._segments.popleft().remove()

    def _load(self) -> None:
        """Open the files; raise OSError, with none of them open, if one cannot be."""
        paths = sorted(self._folder.glob(f"{self.id}.*{SEGMENT_ENDING}"))
        with ExitStack() as opened:
            opened.callback(os.close, self._lock)
            segments = []
            for path in paths:
                segments.append(Segment(path))
                opened.callback(segments[-1].close)
            opened.pop_all()
        for segment in segments:
            records = sum(1 for _ in segment.records(0))
            self.damaged += segment.damaged
            self._segments.append(segment)
            self.size += segment.end
            self.waiting += records


def _locked(path: Path) -> int | None:
    """Return a descriptor that has the file locked; None if another process has."""
    try:
        opened = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(opened)
        return None
    return opened


class Segment:
    """A file of records; `start` is where the first one that waits begins."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self.start = 0
        self.end = os.fstat(self._file).st_size
        self.damaged = 0

    def is_finished(self) -> bool:
        """Return whether nothing more is written: it is full, or was changed by somebody else."""
        return self.end >= SEGMENT_BYTES or os.fstat(self._file).st_size != self.end

    def append(self, content: bytes) -> None:
        """Write at the end, all or nothing."""
        try:
            written = os.pwrite(self._file, content, self.end)
            if written != len(content):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        except OSError:
            with suppress(OSError):
                os.ftruncate(self._file, self.end)
            raise
        self.end += len(content)

    def skip(self, number: int) -> int:
        """Move the start behind the records up to a number; return how many these were."""
        skipped = 0
        for one, _, end in self.records(self.start):
            if one > number:
                return skipped
            self.start = end
            skipped += 1
        self.start = self.end
        return skipped

    def empty(self) -> None:
        """Begin the file anew."""
        os.ftruncate(self._file, 0)
        self.start = self.end = 0

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)

    def remove(self) -> None:
        """Close and delete the file."""
        self.close()
        self._path.unlink(missing_ok=True)

    def records(self, offset: int) -> Iterator[tuple[int, bytes, int]]:
        """Yield numbers, records and where each ends, from an offset on, but for damaged ones."""
        self.damaged = 0
        while offset < self.end:
            header = os.pread(self._file, HEADER.size, offset)
            length, checksum, number = HEADER.unpack(header.ljust(HEADER.size, b"\0"))
            end = offset + HEADER.size + length
            if len(header) < HEADER.size or not length or end > self.end:
                self.damaged += 1  # the process was killed while it wrote
                return
            record = os.pread(self._file, length, offset + HEADER.size)
            offset = end
            if crc32(record) != checksum:
                self.damaged += 1
                continue
            yield number, record, end
