"""`same_error`: the same failure in most of the latest rounds, or the same call failing again."""

from __future__ import annotations

from looptrap.detect.signals.signal import Evidence, SignalOptions, tool_list
from looptrap.detect.trajectory import Trajectory

SAME_ERROR_PERCENT = 80.0
"""Per cent from which two failures are equal: messages echo parts of the call."""


class SameError:
    """Counts the rounds that failed like the latest, or made the same call and failed."""

    __slots__ = ("_rounds",)

    def __init__(self, options: SignalOptions) -> None:
        self._rounds = options.rounds

    def __call__(self, trajectory: Trajectory) -> Evidence | None:
        """Return how often the latest failure occurred; None when the latest round succeeded.

        A call that is asked to try again later is polling, which `repeat` judges.
        """
        latest = trajectory.newest
        if latest is None or latest.failure is None or latest.is_deferred:
            return None
        rounds = trajectory.since_change(self._rounds)
        equal = [
            age
            for age, round_ in enumerate(rounds)
            if round_.fails_like(latest, SAME_ERROR_PERCENT)
            or (
                round_.failure is not None
                and not round_.is_report
                and round_.signature == latest.signature
            )
        ]
        return Evidence(
            signal="same_error",
            what=f"{tool_list(latest)} failed the same way, or asked the same, {len(equal)} times"
            f" in {len(rounds)} rounds",
            count=len(equal),
            ago=equal[-1],
            confidence=len(equal) / len(rounds),
        )
