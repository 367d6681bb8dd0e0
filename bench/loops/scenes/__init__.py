"""Scenarios by a fourth author, who had not seen the detector."""

from __future__ import annotations

from bench.loops.scenario import Scenario
from bench.loops.scenes import (
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
from bench.loops.scenes.cast import scenarios_of

__all__ = ["scenarios"]

_MODULES = (failures, circles, waiting, operations, research, office, teams, screens, prompts, long)


def scenarios(seed: int = 0) -> list[Scenario]:
    """Return all scenarios of this package."""
    return scenarios_of([plot for module in _MODULES for plot in module.PLOTS], seed)
