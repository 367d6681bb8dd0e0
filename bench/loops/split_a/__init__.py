"""The second test split of LoopBench, by an author who has not seen the detector."""

from __future__ import annotations

from bench.loops.scenario import Scenario
from bench.loops.split_a import (
    circles,
    failures,
    long,
    office,
    operations,
    prompts,
    research,
    screens,
    teams,
    waiting,
)
from bench.loops.split_a.cast import scenarios_of

__all__ = ["scenarios"]

_MODULES = (failures, circles, waiting, operations, research, office, teams, screens, prompts, long)


def scenarios(seed: int = 0) -> list[Scenario]:
    """Return all scenarios of the second test split."""
    return scenarios_of([plot for module in _MODULES for plot in module.PLOTS], seed)
