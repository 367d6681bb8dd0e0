"""Figures: what a benchmark found, in a form that a later run can be held against."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec

RESULTS = Path(__file__).with_name("results.json")


class Figure(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One number of a report. Ratios are of things measured in one run."""

    part: str
    name: str
    value: float
    spread: float | None = None
    """How far the median round lies from the best, as a share."""
    unit: str = "×"
    aim: float | None = None
    """What it should be at most, or at least where more is better."""
    more_is_better: bool = False
    tolerance: float = 0.3
    """By what share a later run may be worse before it is called a regression."""
    is_compared: bool = True
    """Whether a later run is held against it: what follows from the machine is not."""

    @property
    def key(self) -> tuple[str, str]:
        return self.part, self.name

    @property
    def is_reached(self) -> bool | None:
        """Say whether its aim is met; None where there is none."""
        if self.aim is None:
            return None
        return self.value >= self.aim if self.more_is_better else self.value <= self.aim

    def worst(self) -> float:
        """Return the value beyond which a later one is a regression."""
        share = 1 - self.tolerance if self.more_is_better else 1 + self.tolerance
        return self.value * share

    def regresses_to(self, later: float) -> bool:
        """Say whether a later value is worse than noise explains."""
        return later < self.worst() if self.more_is_better else later > self.worst()


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """All figures of one run, and where and when it was."""

    date: str
    commit: str
    machine: str
    load: float
    """Processes that ran already when it began, as the load average counts them."""
    figures: Sequence[Figure]


def load(path: Path = RESULTS) -> Report:
    return msgspec.json.decode(path.read_bytes(), type=Report)


def save(report: Report, path: Path = RESULTS) -> None:
    path.write_bytes(msgspec.json.format(msgspec.json.encode(report)) + b"\n")


def regressions(before: Iterable[Figure], now: Iterable[Figure]) -> list[tuple[Figure, Figure]]:
    """Return what has become worse, with what it was; figures of one run only say nothing."""
    known = {one.key: one for one in before if one.is_compared}
    return [
        (known[one.key], one)
        for one in now
        if one.key in known and known[one.key].regresses_to(one.value)
    ]
