"""The held-out split of LoopBench: written by someone who has not seen the detector."""

from __future__ import annotations

from bench.loops.held_out import acting, browsing, coding, repairs, searching, talking, waiting
from bench.loops.held_out.stage import stage
from bench.loops.scenario import Scenario

MODULES = (coding, repairs, searching, waiting, acting, talking, browsing)


def scenarios(seed: int = 0) -> list[Scenario]:
    """Return all scenarios of the split; the same ones for the same seed."""
    found = []
    for module in MODULES:
        for case in module.cases():
            shows = "" if case.shows == "whole" else f"-{case.shows}"
            label = "loop" if case.is_loop else "fine"
            name = f"{case.kind}/{case.story}/{case.harness}{shows}/{label}"
            found.append(stage(case, name, seed))
    return found
