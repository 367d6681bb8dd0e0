"""Agents as of November 2026, in seven sets: coding, operations, talk, the web and programs.

`first` and `second` are the halves of one author, the others are by one each. None had seen the
detector or any other scenario. `seventh` is to judge by, the others to work with.
The sets share forms (`cast`) and the machinery (`run`, `wire`), but no templates, projects or
texts.
"""

from __future__ import annotations

from bench.loops.field import fifth, first, fourth, second, seventh, sixth, third
from bench.loops.scenario import Scenario

HALVES = {
    "first": first,
    "second": second,
    "third": third,
    "fourth": fourth,
    "fifth": fifth,
    "sixth": sixth,
    "seventh": seventh,
}


def scenarios(seed: int, half: str) -> list[Scenario]:
    """Return the scenarios of a half, or of another set."""
    return HALVES[half].scenarios(seed)


__all__ = [
    "HALVES",
    "fifth",
    "first",
    "fourth",
    "scenarios",
    "second",
    "seventh",
    "sixth",
    "third",
]
