"""The sixth set: loops and honest runs as a platform team would see them in a month."""

from __future__ import annotations

from bench.loops.field.run import Template
from bench.loops.field.sixth import (
    browser,
    data,
    desk,
    drift,
    editing,
    operations,
    pipelines,
    research,
    teams,
    testing,
    waiting,
)
from bench.loops.field.sixth.common import HALF
from bench.loops.scenario import Scenario

MODULES = (
    editing, testing, waiting, operations, data, research, browser, desk, teams, pipelines, drift,
)  # fmt: skip
TEMPLATES: list[Template] = HALF.templates


def scenarios(seed: int) -> list[Scenario]:
    return HALF.scenarios(seed)
