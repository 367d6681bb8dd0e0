"""Asks all detectors about all scenarios, on all cores."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from multiprocessing import Pool, cpu_count
from pathlib import Path

from bench.loops.detector import Detector, load_detector
from bench.loops.packages import ENVIRONMENT, package
from bench.loops.rules import presets, rules
from bench.loops.scenario import Scenario, ask
from bench.loops.score import Case


@dataclass(frozen=True, slots=True)
class Entrants:
    """Who is compared. Each process makes the detectors itself, as some cannot be sent."""

    packages: tuple[str, ...] = ()
    others: tuple[str, ...] = ()
    """Detectors of strangers: URLs, and `module:attribute`."""
    has_own: bool = True
    """Whether the presets and rules of `bench.loops.rules` are among them."""
    environment: Path = ENVIRONMENT

    def detectors(self) -> list[Detector]:
        """Return the detectors."""
        own = [*presets(), *rules()] if self.has_own else []
        known = [package(self.environment, name) for name in self.packages]
        return [*own, *known, *map(load_detector, self.others)]


_detectors_of = cache(Entrants.detectors)

Task = tuple[Entrants, str, Scenario]


def judge(task: Task) -> list[Case]:
    """Ask each detector about one scenario of a split."""
    entrants, split, one = task
    return [
        Case.of(detector.name, split, one, ask(one, detector.new_run()))
        for detector in _detectors_of(entrants)
    ]


def judge_all(
    entrants: Entrants, splits: Mapping[str, Iterable[Scenario]], processes: int | None = None
) -> Iterator[Case]:
    """Yield a case for each scenario and detector, in the order of the scenarios."""
    tasks = [(entrants, split, one) for split, found in splits.items() for one in found]
    if processes == 1:
        for task in tasks:
            yield from judge(task)
        return
    with Pool(processes or cpu_count()) as pool:
        for cases in pool.imap(judge, tasks, chunksize=4):
            yield from cases
