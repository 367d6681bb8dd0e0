"""The fourth set, by a third author: everyday work of agents that teams run, and how it sticks."""

from __future__ import annotations

from bench.loops.field.fourth import build, code, desk, service
from bench.loops.scenario import Scenario

_PARTS = (code, build, service, desk)
TEMPLATES = [one for part in _PARTS for one in part.HALF.templates]


def scenarios(seed: int) -> list[Scenario]:
    """Return all scenarios of the set."""
    return [one for part in _PARTS for one in part.HALF.scenarios(seed)]
