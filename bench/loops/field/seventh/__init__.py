"""The seventh set: what recorded runs of tasks like those of benchmarks show."""

from __future__ import annotations

from importlib import import_module

from bench.loops.field.run import Template
from bench.loops.field.seventh.common import half
from bench.loops.scenario import Scenario

_MODULES = (
    "repairs languages terminals services browsers prompts desktops offices analyses researches "
    "teams"
)
for _name in _MODULES.split():
    import_module(f"{__name__}.{_name}")

TEMPLATES: list[Template] = half.templates


def scenarios(seed: int) -> list[Scenario]:
    """Return the loops and their twins for a seed."""
    return half.scenarios(seed)
