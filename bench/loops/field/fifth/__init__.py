"""A set by a fifth author: a month of agents without supervision, as platform teams see it.

The mixture follows public reports of agents that are stuck, and the honest work beside them.
"""

from __future__ import annotations

from bench.loops.field.fifth import (
    crews,
    desk,
    doors,
    obstacles,
    pages,
    pipelines,
    planning,
    reading,
    repairs,
    rounds,
    searching,
    versions,
    waiting,
)
from bench.loops.field.fifth.common import HALF
from bench.loops.scenario import Scenario

TEMPLATES = HALF.templates


def scenarios(seed: int) -> list[Scenario]:
    """Return the scenarios of this set."""
    return HALF.scenarios(seed)


__all__ = [
    "TEMPLATES",
    "crews",
    "desk",
    "doors",
    "obstacles",
    "pages",
    "pipelines",
    "planning",
    "reading",
    "repairs",
    "rounds",
    "scenarios",
    "searching",
    "versions",
    "waiting",
]
