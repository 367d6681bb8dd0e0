"""What requests leave in the processes of a gateway: resources before the traffic and after it."""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from statistics import median
from typing import Any

from bench.stage import Stage
from bench.watch import MB, Holding, children, holding, slope

EVERY = 1.0
"""Seconds between two measurements of the memory."""
SPARE_FDS = 12
"""Descriptors that a process may open once and keep: a history that was read, a thread's pipe."""
SPARE_TASKS = 4
SPARE_MEMORY = 60 * MB
"""The growth that is allowed for caches that were empty at the start."""
STEEPEST = 3.0
"""Megabytes a minute by which the memory of a worker may grow in the second half of its life."""
LONG = 120.0
"""Seconds that a worker must have lived for this check."""


class Remains:
    """Measures the workers, and their files in the temporary folder."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._memory: dict[int, list[tuple[float, float]]] = defaultdict(list)
        self.before: list[tuple[Holding, int]] = []
        self.after: list[tuple[Holding, int]] = []
        """The resources of each worker, and its tasks."""
        self.processes = (0, 0)
        self.files = (0, 0)

    def begin(self) -> None:
        """Measure before any traffic."""
        self.before = self._look()
        self._processes, self._files = self._others()

    def end(self) -> None:
        """Measure after the traffic."""
        self.after = self._look()
        processes, files = self._others()
        self.processes, self.files = (self._processes, processes), (self._files, files)

    async def watch(self) -> None:
        """Measure the memory repeatedly, until cancelled."""
        while True:
            for pid in self._stage.workers_now():
                self._memory[pid].append((time.monotonic() / 60, holding(pid).rss / MB))
            await asyncio.sleep(EVERY)

    def is_settled(self) -> bool:
        """Return whether every worker has as few sockets as before."""
        most = max(one.sockets for one, _ in self.before)
        return all(holding(pid).sockets <= most for pid in self._stage.workers_now())

    def steepest(self) -> float:
        """Return the steepest growth, in megabytes a minute, of a long-lived worker."""
        halves = [
            points[len(points) // 2 :]
            for points in self._memory.values()
            if (points[-1][0] - points[0][0]) * 60 >= LONG
        ]
        return max(map(slope, halves), default=0.0)

    def as_json(self) -> dict[str, Any]:
        """Return the medians over all workers, before and afterwards."""
        found = {
            name: [median(getattr(one, name) for one, _ in look) for look in self._looks()]
            for name in Holding._fields
        }
        found["rss"] = [round(size / MB, 1) for size in found["rss"]]
        found["tasks"] = [median(tasks for _, tasks in look) for look in self._looks()]
        found["processes"], found["temporary files"] = [*self.processes], [*self.files]
        found["lives of workers"] = [self._stage.workers, len(self._memory)]
        found["steepest, MB a minute"] = [STEEPEST, round(self.steepest(), 2)]
        return {"remains": found}

    def _look(self) -> list[tuple[Holding, int]]:
        return [(holding(pid), self._stage.tasks(pid)) for pid in self._stage.workers_now()]

    def _looks(self) -> tuple[list[tuple[Holding, int]], list[tuple[Holding, int]]]:
        return self.before, self.after

    def _others(self) -> tuple[int, int]:
        files = sum(one.is_file() for one in self._stage.temporary.rglob("*"))
        return len(children(self._stage.supervisor)), files


def leaks(remains: Remains) -> list[str]:
    """Return the resources that were not freed."""
    problems = []
    most = {name: max(getattr(one, name) for one, _ in remains.before) for name in Holding._fields}
    bounds = {
        "rss": most["rss"] + SPARE_MEMORY,
        "fds": most["fds"] + SPARE_FDS,
        "sockets": most["sockets"],
    }
    for one, tasks in remains.after:
        for name, bound in bounds.items():
            if getattr(one, name) > bound:
                problems.append(f"a worker holds {getattr(one, name)} {name}, at most {bound}")
        if tasks > (bound := max(tasks for _, tasks in remains.before) + SPARE_TASKS):
            problems.append(f"a worker has {tasks} tasks, at most {bound}")
    for name, (before, after) in (("processes", remains.processes), ("files", remains.files)):
        if after > before:
            problems.append(f"{after} {name} are left, {before} were there before")
    if remains.steepest() > STEEPEST:
        problems.append(f"memory grows by {remains.steepest():.1f} MB a minute")
    return problems
