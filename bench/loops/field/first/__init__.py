"""The first half of the split `field`: for developers to work with."""

from __future__ import annotations

from bench.loops.field.first import code, ops, talk, web
from bench.loops.scenario import Scenario

TEMPLATES = tuple(
    template for module in (code, ops, talk, web) for template in module.HALF.templates
)


def scenarios(seed: int) -> list[Scenario]:
    """Return its loops and honest runs."""
    return [one for module in (code, ops, talk, web) for one in module.HALF.scenarios(seed)]
