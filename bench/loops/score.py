"""Scores of a detector over scenarios: what it caught, how late, and what it refused wrongly."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

from bench.loops.scenario import Played, Scenario

WARNED_KINDS = frozenset({"restart", "restarts"})
"""Loops to be warned of: a supervisor starts the agent anew, so that a refusal stops nothing."""


@dataclass(frozen=True, slots=True)
class Case:
    """One scenario without its requests, and what a detector said of it."""

    detector: str
    split: str
    name: str
    kind: str
    is_loop: bool
    steps: int
    begins: int
    played: Played

    @classmethod
    def of(cls, detector: str, split: str, one: Scenario, played: Played) -> Case:
        """Return a case without the requests."""
        about = (one.name, one.kind, one.is_loop, len(one.steps), one.begins)
        return cls(detector, split, *about, played)

    @property
    def is_refused(self) -> bool:
        return self.played.refused is not None

    @property
    def is_flagged(self) -> bool:
        """Whether it was warned of, or refused."""
        return self.is_refused or self.played.warned is not None

    @property
    def is_early(self) -> bool:
        """Whether a loop was refused before it began: what was refused was honest work."""
        return self.is_loop and self.is_refused and (self.played.refused or 0) < self.begins

    @property
    def caught_at(self) -> int | None:
        """The step at which a loop was caught; a warning counts for some kinds."""
        found = [self.played.refused]
        if self.kind in WARNED_KINDS:
            found += self.played.warnings
        return min((at for at in found if at is not None and at >= self.begins), default=None)

    @property
    def wasted(self) -> int:
        """The calls of a loop from where it begins."""
        return self.steps - self.begins

    @property
    def saved(self) -> int:
        """Those of them from the first refusal on."""
        refused = self.played.refused
        return self.steps - max(refused, self.begins) if refused is not None else 0


@dataclass(frozen=True, slots=True)
class Score:
    """The figures of one detector."""

    loops: int
    caught: int
    loops_flagged: int
    early: int
    honest: int
    honest_refused: int
    honest_flagged: int
    lag: float | None
    """The median of calls from where a loop begins until it was caught."""
    waste_saved: float
    cpu_us: float | None
    """CPU microseconds a call; None where they are not known."""

    @property
    def recall(self) -> float:
        return self.caught / self.loops if self.loops else 0.0

    @property
    def honest_share(self) -> float:
        return self.honest_refused / self.honest if self.honest else 0.0

    @classmethod
    def of(cls, cases: Iterable[Case]) -> Score:
        """Return the score over these cases."""
        cases = list(cases)
        loops = [case for case in cases if case.is_loop]
        honest = [case for case in cases if not case.is_loop]
        lags = [case.caught_at - case.begins for case in loops if case.caught_at is not None]
        cpu = sum(case.played.cpu_s for case in cases)
        calls = sum(case.played.calls for case in cases)
        return cls(
            loops=len(loops),
            caught=len(lags),
            loops_flagged=sum(case.is_flagged for case in loops),
            early=sum(case.is_early for case in loops),
            honest=len(honest),
            honest_refused=sum(case.is_refused for case in honest),
            honest_flagged=sum(case.is_flagged for case in honest),
            lag=median(lags) if lags else None,
            waste_saved=sum(case.saved for case in loops) / (sum(c.wasted for c in loops) or 1),
            cpu_us=cpu / calls * 1e6 if cpu else None,
        )

    def as_json(self) -> dict[str, Any]:
        """Return the figures with their shares, rounded."""
        figures = {
            **asdict(self),
            "recall": self.recall,
            "honest_refused_share": self.honest_share,
        }
        return {
            name: round(value, 4) if isinstance(value, float) else value
            for name, value in figures.items()
        }


Scores = dict[str, dict[str, Score]]
"""By split and detector."""


def scores_of(cases: Iterable[Case]) -> Scores:
    """Return the scores of each split, in the order in which detectors and splits appear."""
    grouped: dict[str, dict[str, list[Case]]] = {}
    for case in cases:
        grouped.setdefault(case.split, {}).setdefault(case.detector, []).append(case)
    return {
        split: {name: Score.of(found) for name, found in by_detector.items()}
        for split, by_detector in grouped.items()
    }


def kinds_of(cases: Sequence[Case]) -> dict[str, dict[str, dict[str, Any]]]:
    """Return, by detector and split/kind, the loops caught and the honest runs refused."""
    found: dict[str, dict[str, dict[str, Any]]] = {}
    for case in cases:
        row = found.setdefault(case.detector, {}).setdefault(
            f"{case.split}/{case.kind}", dict.fromkeys(_COUNTS, 0)
        )
        row["loops"] += case.is_loop
        row["caught"] += case.is_loop and case.caught_at is not None
        row["honest"] += not case.is_loop
        row["honest_refused"] += not case.is_loop and case.is_refused
    return found


_COUNTS = ("loops", "caught", "honest", "honest_refused")
