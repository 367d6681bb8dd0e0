"""The second half of the split `field`: to work with, too."""

from __future__ import annotations

from bench.loops.field.second import people, repo, screen, service
from bench.loops.scenario import Scenario

TEMPLATES = tuple(
    template for module in (repo, service, people, screen) for template in module.HALF.templates
)


def scenarios(seed: int) -> list[Scenario]:
    """Return its loops and honest runs."""
    return [
        one for module in (repo, service, people, screen) for one in module.HALF.scenarios(seed)
    ]
