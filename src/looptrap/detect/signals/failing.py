"""`failing`: one round after the other fails, each perhaps in another way."""

from __future__ import annotations

from looptrap.detect.evidence import Evidence
from looptrap.detect.signals.wording import tools
from looptrap.detect.trajectory import Trajectory


class Failing:
    """Counts the failures since anything last went well, among the last `rounds`."""

    __slots__ = ("_rounds",)

    def __init__(self, rounds: int, with_results: bool) -> None:  # noqa: ARG002 - all is in them
        self._rounds = rounds

    def __call__(self, trajectory: Trajectory) -> Evidence | None:
        """Return how many rounds in a row have failed; None when the latest went well."""
        count = 0
        while count < self._rounds:
            rounds = trajectory.latest(count + 1)
            if len(rounds) <= count or rounds[count].failure is None:
                break
            count += 1
        if not count:
            return None
        return Evidence(
            signal="failing",
            what=f"{count} failures in a row, {tools(trajectory.latest(1)[0])} the latest",
            count=count,
            ago=count - 1,
        )
