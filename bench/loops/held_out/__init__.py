"""Scenarios by an author who had not seen the detector: once the test split, read since then."""

from __future__ import annotations

from bench.loops.held_out import coding, crews, office, prompts, services
from bench.loops.scenario import Scenario

__all__ = ["scenarios"]


def scenarios(seed: int = 0) -> list[Scenario]:
    """Return all scenarios."""
    modules = (coding, services, office, crews, prompts)
    return [made for module in modules for made in module.scenarios(seed)]
