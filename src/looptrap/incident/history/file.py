"""The file of a history: only its owner can read it, and another of its name is not it."""

from __future__ import annotations

import fcntl
import os
import stat
from contextlib import suppress
from pathlib import Path

Identity = tuple[int, int]
"""Device and inode: what tells a file from another of the same name."""


def make(path: Path, old_log: Identity | None) -> None:
    """Make an empty file that is never open to others; close to them one that is.

    `old_log` is the write-ahead log of a file that was at this path before.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)  # several processes may find it missing
        is_missing = not path.exists()
        if is_missing or (old_log is not None and identity(beside(path, "-wal")) == old_log):
            # Of a file that was deleted or replaced: to any other they are poison.
            for left_over in (beside(path, "-wal"), beside(path, "-shm")):
                left_over.unlink(missing_ok=True)
        if is_missing:
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    finally:
        os.close(folder)
    # Not by opening them: to close a file drops the locks that SQLite has on it.
    for one in (path, beside(path, "-wal"), beside(path, "-shm")):
        with suppress(OSError):  # not ours to change, or not there
            mode = one.stat().st_mode
            if stat.S_ISREG(mode) and mode & 0o077:
                one.chmod(mode & 0o700)  # what is read-only on purpose stays so


def beside(path: Path, ending: str) -> Path:
    """Return the path of what SQLite keeps beside a file: `-wal`, `-shm`."""
    return path.with_name(path.name + ending)


def identity(path: Path) -> Identity | None:
    """Return which file that is; None where there is none."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino
