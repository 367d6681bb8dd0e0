"""`cycle`: a block of several rounds repeats, with equal calls and results."""

from __future__ import annotations

from looptrap.detect.round import Round
from looptrap.detect.signals.signal import Evidence, SignalOptions, tool_list
from looptrap.detect.trajectory import Trajectory

MIN_CYCLE_ROUNDS, MAX_CYCLE_ROUNDS = 2, 8
"""Rounds in a block; a single repeated round is a `repeat`."""


class Cycle:
    """Counts consecutive occurrences of the latest block."""

    __slots__ = ("_polls_per_repeat", "_rounds")

    def __init__(self, options: SignalOptions) -> None:
        self._rounds = options.rounds
        self._polls_per_repeat = options.polls_per_repeat

    def __call__(self, trajectory: Trajectory) -> Evidence | None:
        """Return the block with the most occurrences; None when none occurred twice."""
        if trajectory.is_new_call:
            return None
        recent = trajectory.latest(MAX_CYCLE_ROUNDS + 1)
        if not any(round_.signature == recent[0].signature for round_ in recent[1:]):
            return None
        rounds = trajectory.latest(self._rounds)
        times, block_size = _longest_cycle(rounds)
        if times < 2:
            return None
        count = times
        if any(round_.is_poll for round_ in rounds[:block_size]):
            # Alternating a poll and a wait is polling too, and legitimate for longer.
            rounds = trajectory.latest(block_size * self._rounds)
            times = _count_blocks(rounds, block_size)
            count = max(times // self._polls_per_repeat, 1)
        names = " → ".join(tool_list(round_) for round_ in reversed(rounds[:block_size]))
        return Evidence(
            signal="cycle",
            what=f"{names}, with equal arguments and results, {times} times in a row",
            count=count,
            ago=times * block_size - 1,
        )


def _longest_cycle(rounds: list[Round]) -> tuple[int, int]:
    """Return the most occurrences of a block, and how many rounds that block has."""
    best, length = 1, 0
    for size in range(MIN_CYCLE_ROUNDS, min(MAX_CYCLE_ROUNDS, len(rounds) // 2) + 1):
        times = _count_blocks(rounds, size)
        if times > best:
            best, length = times, size
    return best, length


def _count_blocks(rounds: list[Round], size: int) -> int:
    """Return how often the latest `size` rounds occur consecutively."""
    if not all(earlier.calls for earlier in rounds[:size]):
        return 1
    if all(earlier.signature == rounds[0].signature for earlier in rounds[1:size]):
        return 1  # one call over and over
    times = 1
    while (times + 1) * size <= len(rounds):
        block = rounds[times * size : (times + 1) * size]
        if not all(earlier.repeats(later) for earlier, later in zip(block, rounds, strict=False)):
            break
        times += 1
    return times
