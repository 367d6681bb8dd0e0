"""`monologue`: the assistant says the same again, with nothing happening between."""

from __future__ import annotations

from looptrap.detect.evidence import Evidence
from looptrap.detect.trajectory import COMPARED, Trajectory, alike


class Monologue:
    """Counts turns without any tool call that say almost what the latest one says."""

    __slots__ = ("_rounds",)

    def __init__(self, rounds: int, with_results: bool) -> None:  # noqa: ARG002 - there are none
        self._rounds = rounds

    def __call__(self, trajectory: Trajectory) -> Evidence | None:
        """Return how often it was said in a row; None when something was done, or said once."""
        if trajectory.latest(1)[0].calls:
            return None
        rounds = trajectory.latest(self._rounds)
        count = 0
        for one in rounds:
            if one.calls or not alike(one.text[:COMPARED], rounds[0].text[:COMPARED]):
                break
            count += 1
        if count < 2:
            return None
        return Evidence(
            signal="monologue",
            what=f"almost the same {len(rounds[0].text)} characters said {count} times in a row",
            count=count,
            ago=count - 1,
        )
