"""What requests show of a run, and how hard it is to judge: by the kind of a scenario."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from bench.loops.scenario import Scenario

_SHOWS = {
    "trimmed": "trimmed",
    "elided": "elided",
    "kept": "kept",
    "compacted": "compacted",
    "restarts": "prompt",
    "slow": "prompt",
    "growing": "prompt",
    "sampling": "prompt",
    "named_by_agent": "prompt",
}
_IN_NAMES = {"trimmed": "trimmed", "tail": "trimmed", "chained": "kept"}
_DIFFICULTIES = {
    "compacted": "hard",
    "restarts": "hard",
    "sampling": "hard",
    "delegation": "hard",
    "auto_continue": "easy",
}


def label(scenarios: Iterable[Scenario]) -> list[Scenario]:
    """Return the scenarios with what they show and how hard they are."""
    return [
        replace(one, shows=_shown(one), difficulty=_DIFFICULTIES.get(one.kind, "medium"))
        for one in scenarios
    ]


def _shown(one: Scenario) -> str:
    if one.kind in _SHOWS:
        return _SHOWS[one.kind]
    parts = one.name.split("-")
    return next((shows for word, shows in _IN_NAMES.items() if word in parts), "whole")
