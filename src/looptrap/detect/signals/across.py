"""`compaction`, `restart`: runs that begin again and again, and never get further."""

from __future__ import annotations

from looptrap.detect.signals.signal import Evidence, HistorySignal
from looptrap.detect.trajectory import RunTrajectory, Trajectory

_NUMBERS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")


class Compaction(HistorySignal):
    """Counts compactions in a row after which nothing new came.

    New is a call that was not made before in the run, or that had another result. An honest agent
    reads its plan and some files again after a compaction, then does something new.
    """

    def __call__(self, trajectory: Trajectory) -> Evidence | None:
        """Return how many; None without one, or when something new has come since."""
        count = trajectory.stale_segments
        if not count or not isinstance(trajectory, RunTrajectory):
            return None
        rounds = trajectory.rounds_before_compaction()
        calls = f"the same {_number(rounds)} calls" if rounds > 1 else "the same call"
        return Evidence(
            signal="compaction",
            what=f"{calls} after each of {count} compactions, and nothing new",
            count=count,
            ago=min(count * rounds, len(trajectory.all_rounds) - 1),
        )


class Restart(HistorySignal):
    """Counts runs in a row that began like this one and ended alike: in the same failure, or cut
    off at the same point and started again at once.
    """

    def __call__(self, trajectory: Trajectory) -> Evidence | None:
        """Return how many; None for the first."""
        count = trajectory.restarts
        if not count:
            return None
        return Evidence(
            signal="restart",
            what=f"{count} runs in a row that began like this one ended at the same point",
            count=count,
            confidence=0.7,
        )


def _number(number: int) -> str:
    return _NUMBERS[number] if number < len(_NUMBERS) else str(number)
