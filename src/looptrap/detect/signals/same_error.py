"""`same_error`: the same failure comes back in most of the latest rounds, whatever was asked."""

from __future__ import annotations

from looptrap.detect.evidence import Evidence
from looptrap.detect.signals.wording import tools
from looptrap.detect.trajectory import Trajectory, alike

SAME = 80.0
"""Per cent from which on two failures are the same: they echo parts of what was asked."""


class SameError:
    """Counts the rounds that failed like the latest one among the last `rounds`."""

    __slots__ = ("_rounds",)

    def __init__(self, rounds: int, with_results: bool) -> None:  # noqa: ARG002 - all is in them
        self._rounds = rounds

    def __call__(self, trajectory: Trajectory) -> Evidence | None:
        """Return how often the latest failure has come; None when the latest round went well."""
        latest = trajectory.latest(1)
        if not latest or latest[0].failure is None:
            return None
        failure = latest[0].failure
        rounds = trajectory.since_change(self._rounds)
        equal = [
            age
            for age, one in enumerate(rounds)
            if one.failure is not None and alike(one.failure, failure, SAME)
        ]
        return Evidence(
            signal="same_error",
            what=f"{tools(latest[0])} failed the same way {len(equal)} times"
            f" in {len(rounds)} rounds",
            count=len(equal),
            ago=equal[-1],
        )
