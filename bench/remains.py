"""What is left of requests in the processes of a gateway: before there were any, and afterwards."""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from statistics import median
from typing import Any

from bench.stage import Stage
from bench.watch import MB, Holding, children, holding, slope

EVERY = 1.0
"""Seconds between two looks at the memory."""
SPARE_FDS = 12
"""Descriptors that a process may open once and keep: a history that was read, a thread's pipe."""
SPARE_TASKS = 4
SPARE_MEMORY = 60 * MB
"""What a worker may come to hold that its caches were not filled with at the start."""
STEEPEST = 3.0
"""Megabytes a minute by which the memory of a worker may grow in the second half of its life."""
LONG = 120.0
"""Seconds of a life that is long enough to say so."""


class Remains:
    """Looks at the workers, and at what they leave in the folder for what is temporary."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._memory: dict[int, list[tuple[float, float]]] = defaultdict(list)
        self.before: list[tuple[Holding, int]] = []
        self.after: list[tuple[Holding, int]] = []
        """What each worker holds, and its tasks."""
        self.processes = (0, 0)
        self.files = (0, 0)

    def begin(self) -> None:
        """Look before there is any traffic."""
        self.before = self._look()
        self._processes, self._files = self._others()

    def end(self) -> None:
        """Look when all of it is over."""
        self.after = self._look()
        processes, files = self._others()
        self.processes, self.files = (self._processes, processes), (self._files, files)

    async def watch(self) -> None:
        """Look at the memory again and again, until cancelled."""
        while True:
            for pid in self._stage.workers_now():
                self._memory[pid].append((time.monotonic() / 60, holding(pid).rss / MB))
            await asyncio.sleep(EVERY)

    def is_settled(self) -> bool:
        """Say whether every worker has as few sockets as before."""
        most = max(one.sockets for one, _ in self.before)
        return all(holding(pid).sockets <= most for pid in self._stage.workers_now())

    def steepest(self) -> float:
        """Return the steepest growth, in megabytes a minute, of a worker that lived for long."""
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
    """Return what was left behind."""
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
