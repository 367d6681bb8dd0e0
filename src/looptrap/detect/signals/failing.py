"""`failing`: consecutive rounds fail, in ways that are not new."""

from __future__ import annotations

from looptrap.detect.canonical import normalise
from looptrap.detect.signals.same_error import SAME_ERROR_PERCENT
from looptrap.detect.signals.signal import Evidence, SignalOptions, tool_list
from looptrap.detect.trajectory import Trajectory


class Failing:
    """Counts the failures since the last success, among the last `rounds`.

    A new failure of a new call does not count: an agent with ever new errors makes progress.
    """

    __slots__ = ("_first", "_rounds")

    def __init__(self, options: SignalOptions) -> None:
        self._rounds = options.rounds
        self._first = options.first

    def __call__(self, trajectory: Trajectory) -> Evidence | None:
        """Return how many consecutive rounds failed; None when the latest succeeded."""
        if trajectory.newest is None or trajectory.newest.failure is None:
            return None
        length = 1
        while length < self._rounds:
            rounds = trajectory.latest(length + 1)
            if len(rounds) <= length or rounds[length].failure is None:
                break
            length += 1
        if length < self._first:
            return None
        failures = trajectory.latest(length)
        calls = [normalise([round_.arguments]) for round_ in failures]
        known = sum(
            (calls[age] in calls[age + 1 :] and not round_.is_report)
            or any(
                round_.fails_like(earlier, SAME_ERROR_PERCENT) for earlier in failures[age + 1 :]
            )
            for age, round_ in enumerate(failures)
        )
        return Evidence(
            signal="failing",
            what=f"{length} failures in a row, {known} of them known,"
            f" {tool_list(failures[0])} the latest",
            count=known + 1,
            ago=length - 1,
            confidence=0.7,  # the agent may still succeed
        )
