"""Resources of processes, from the kernel: memory, descriptors, sockets, threads."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

PAGE = os.sysconf("SC_PAGE_SIZE")
MB = 1_000_000


class Holding(NamedTuple):
    """The resources of one process, or the sum of several."""

    rss: int = 0
    """Resident bytes."""
    fds: int = 0
    sockets: int = 0
    """The descriptors that are sockets."""
    threads: int = 0


def holding(pid: int) -> Holding:
    """Return the resources of a process; none if it has ended."""
    try:
        rss = int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE
        threads = len(list(Path(f"/proc/{pid}/task").iterdir()))
        names = [_target(link) for link in Path(f"/proc/{pid}/fd").iterdir()]
    except OSError:
        return Holding()
    return Holding(rss, len(names), sum(name.startswith("socket:") for name in names), threads)


def together(pids: Iterable[int]) -> Holding:
    """Return the resources of several processes."""
    return Holding(*map(sum, zip(Holding(), *map(holding, pids), strict=True)))


def children(pid: int) -> list[int]:
    """Return the child processes of a process, without zombies."""
    try:
        found = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return []
    return [int(one) for one in found if is_running(int(one))]


def is_running(pid: int) -> bool:
    """Return whether a process runs, and is not a zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def command(pid: int) -> str:
    """Return the command line of a process."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    except OSError:
        return ""


def slope(points: Sequence[tuple[float, float]]) -> float:
    """Return how steeply the second of each pair grows with the first: a least-squares line."""
    if len(points) < 2:
        return 0.0
    x_mean = sum(x for x, _ in points) / len(points)
    y_mean = sum(y for _, y in points) / len(points)
    spread = sum((x - x_mean) ** 2 for x, _ in points)
    return sum((x - x_mean) * (y - y_mean) for x, y in points) / spread if spread else 0.0


def _target(link: Path) -> str:
    try:
        return str(link.readlink())
    except OSError:  # it was closed meanwhile
        return ""
