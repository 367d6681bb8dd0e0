"""Scenarios by a second author, who had not seen the detector."""

from __future__ import annotations

from bench.loops.scenario import Scenario
from bench.loops.tales import (
    acting,
    browsing,
    chores,
    coding,
    prompting,
    repairs,
    searching,
    setbacks,
    talking,
    teams,
    waiting,
    windows,
)
from bench.loops.tales.stage import stage

TOLD = (coding, setbacks, repairs, searching, waiting, acting, talking, browsing, chores, windows)
"""Modules of tales, which are staged in the form of a harness."""
MADE = (prompting, teams)
"""Modules that make their scenarios themselves."""


def scenarios(seed: int = 0) -> list[Scenario]:
    """Return all scenarios of the split; the same ones for the same seed."""
    found = []
    for module in TOLD:
        for case in module.cases():
            label = "loop" if case.is_loop else "fine"
            name = f"{case.kind}/{case.story}/{case.harness}/{label}"
            found.append(stage(case, name, seed))
    for maker in MADE:
        found += maker.made(seed)
    return found
