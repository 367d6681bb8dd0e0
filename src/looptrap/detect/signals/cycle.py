"""`cycle`: a block of several rounds comes again and again, with equal calls and results."""

from __future__ import annotations

from looptrap.detect.round import Round
from looptrap.detect.signals.signal import Evidence, SignalOptions, tool_list
from looptrap.detect.trajectory import Trajectory

MIN_CYCLE_ROUNDS, MAX_CYCLE_ROUNDS = 2, 8
"""How many rounds a block has; one round that comes again is a `repeat`."""


class Cycle:
    """Counts how often the latest block has come, one time right after the other."""

    __slots__ = ("_patience", "_rounds")

    def __init__(self, look: SignalOptions) -> None:
        self._rounds = look.rounds
        self._patience = look.patience

    def __call__(self, trajectory: Trajectory) -> Evidence | None:
        """Return the block that came most often; None when none came twice."""
        if trajectory.asks_anew:
            return None
        recent = trajectory.latest(MAX_CYCLE_ROUNDS + 1)
        if not any(one.asked == recent[0].asked for one in recent[1:]):
            return None
        rounds = trajectory.latest(self._rounds)
        best, length = _best(rounds)
        if best < 2:
            return None
        count = best
        if any(one.is_poll for one in rounds[:length]):
            # Asking and waiting in turn is polling too, and honest for longer.
            rounds = trajectory.latest(length * self._rounds)
            best = _times(rounds, length)
            count = max(best // self._patience, 1)
        names = " → ".join(tool_list(one) for one in reversed(rounds[:length]))
        return Evidence(
            signal="cycle",
            what=f"{names}, with equal arguments and results, {best} times in a row",
            count=count,
            ago=best * length - 1,
        )


def _best(rounds: list[Round]) -> tuple[int, int]:
    """Return how often the block came that came most often, and how many rounds it has."""
    best, length = 1, 0
    for size in range(MIN_CYCLE_ROUNDS, min(MAX_CYCLE_ROUNDS, len(rounds) // 2) + 1):
        times = _times(rounds, size)
        if times > best:
            best, length = times, size
    return best, length


def _times(rounds: list[Round], size: int) -> int:
    """Return how often the latest `size` rounds stand one after the other."""
    if not all(one.calls for one in rounds[:size]):
        return 1
    if all(one.asked == rounds[0].asked for one in rounds[1:size]):
        return 1  # one call over and over
    times = 1
    while (times + 1) * size <= len(rounds):
        block = rounds[times * size : (times + 1) * size]
        if not all(one.repeats(two) for one, two in zip(block, rounds, strict=False)):
            break
        times += 1
    return times
