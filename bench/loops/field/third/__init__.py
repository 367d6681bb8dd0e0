"""A half by another author: terminals, sites, desks and batches."""

from __future__ import annotations

from bench.loops.field.third import batch, desk, site, terminal
from bench.loops.scenario import Scenario

_PARTS = (terminal.HALF, site.HALF, desk.HALF, batch.HALF)

TEMPLATES = [one for part in _PARTS for one in part.templates]


def scenarios(seed: int) -> list[Scenario]:
    """Return the scenarios of all templates."""
    return [one for part in _PARTS for one in part.scenarios(seed)]
