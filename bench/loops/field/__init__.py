"""A split in two halves: coding agents, operations, talk and the web as of November 2026.

Its author had seen neither the detector nor any other scenario. `first` is for developers to work
with; `second` is to judge by, and to be left unread. They share forms (`cast`) and the machinery
(`run`, `wire`), but no templates, projects or texts.
"""

from __future__ import annotations

from bench.loops.field import first, second
from bench.loops.scenario import Scenario

HALVES = {"first": first, "second": second}


def scenarios(seed: int, half: str) -> list[Scenario]:
    """Return the scenarios of a half."""
    return HALVES[half].scenarios(seed)


__all__ = ["HALVES", "first", "scenarios", "second"]
