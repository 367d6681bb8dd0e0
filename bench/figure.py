"""Figures: results of a benchmark, in a form that a later run can be compared with."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec

RESULTS = Path(__file__).with_name("results.json")


class Figure(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One number of a report. Ratios are of measurements of one run."""

    part: str
    name: str
    value: float
    spread: float | None = None
    """How far the median round is from the best, as a share."""
    unit: str = "×"
    aim: float | None = None
    """The most it should be, or the least if more is better."""
    more_is_better: bool = False
    tolerance: float = 0.3
    """The share by which a later run may be worse before it is a regression."""
    is_compared: bool = True
    """Whether a later run is compared with it; false for figures that depend on the machine."""

    @property
    def key(self) -> tuple[str, str]:
        return self.part, self.name

    @property
    def is_reached(self) -> bool | None:
        """Return whether its aim is met; None without one."""
        if self.aim is None:
            return None
        return self.value >= self.aim if self.more_is_better else self.value <= self.aim

    def worst(self) -> float:
        """Return the value beyond which a later one is a regression."""
        share = 1 - self.tolerance if self.more_is_better else 1 + self.tolerance
        return self.value * share

    def regresses_to(self, later: float) -> bool:
        """Return whether a later value is worse than noise explains."""
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
    """Return the figures that became worse, with the earlier ones; ignore those of one run only."""
    known = {one.key: one for one in before if one.is_compared}
    return [
        (known[one.key], one)
        for one in now
        if one.key in known and known[one.key].regresses_to(one.value)
    ]
