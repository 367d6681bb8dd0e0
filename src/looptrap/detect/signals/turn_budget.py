"""`turn_budget`: more tool calls since the last user message than a turn should need."""

from __future__ import annotations

from sys import maxsize

from looptrap.detect.evidence import Evidence
from looptrap.detect.trajectory import Trajectory


def turn_budget(trajectory: Trajectory) -> Evidence | None:
    """Return how many tool calls were made since a person last spoke; None before the first."""
    rounds = trajectory.latest(maxsize)
    count = sum(len(one.calls) for one in rounds)
    if not count:
        return None
    return Evidence(
        signal="turn_budget",
        what=f"{count} tool calls in {len(rounds)} rounds since the last user message",
        count=count,
        ago=len(rounds) - 1,
    )
