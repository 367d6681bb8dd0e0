"""`repeat`, `cycle`: one round, or a block of several, with equal calls and results."""

from __future__ import annotations

from looptrap.detect.round import Round
from looptrap.detect.signals.signal import Evidence, HistorySignal, tool_list
from looptrap.detect.trajectory import Trajectory, since_other_result

MAX_SCREENS_COUNT = 4
"""Most that pages with a counter that moves count: a basket may be filled by the same click."""


class Repeat(HistorySignal):
    """Counts the rounds that equal the latest one among the last `rounds`."""

    ignores_news = True

    def __call__(self, trajectory: Trajectory) -> Evidence | None:
        """Return how often the latest round occurred; None for the first time."""
        newest, options = trajectory.newest, self._options
        if newest is None or not newest.calls or trajectory.is_new_call:
            return None
        rounds = self._rounds(trajectory, options.rounds)
        equal = self._ages_of_equal(rounds)
        count = len(equal)
        if count > 1 and (newest.is_poll or newest.is_step or newest.is_measurement):
            # Unchanged polling is legitimate for longer: it counts less, over more rounds. So is
            # measuring: who measures again may get another time.
            rounds = self._rounds(trajectory, options.rounds * options.polls_per_repeat)
            equal = self._ages_of_equal(rounds)
            count = len(equal) // options.polls_per_repeat
        elif options.with_results and newest.is_screen_action:
            # A counter or a line of a log has changed on the page, which may be what was wanted.
            screens = trajectory.latest(options.rounds * options.polls_per_repeat)
            seen = [age for age, one in enumerate(screens) if one.shows_same_screen(newest)]
            weight = min(len(seen) // options.polls_per_repeat, MAX_SCREENS_COUNT)
            if weight > count:
                rounds, equal, count = screens, seen, weight
        if count >= self._options.first:
            count = trajectory.asked.excuse(count)
        if count < 2:
            return None
        same = "the same arguments and result" if options.with_results else "the same arguments"
        return Evidence(
            signal="repeat",
            what=f"{tool_list(newest)} with {same}, {len(equal)} times in {len(rounds)} rounds",
            count=count,
            ago=equal[-1],
            confidence=1.0 if options.with_results else 0.6,
        )

    def _rounds(self, trajectory: Trajectory, limit: int) -> list[Round]:
        rounds = trajectory.since_change(limit)
        return since_other_result(rounds) if self._options.with_results else rounds

    def _ages_of_equal(self, rounds: list[Round]) -> list[int]:
        latest, with_results = rounds[0], self._options.with_results
        return [
            age
            for age, round_ in enumerate(rounds)
            if (round_.repeats(latest) if with_results else round_.signature == latest.signature)
        ]


MIN_CYCLE_ROUNDS, MAX_CYCLE_ROUNDS = 2, 20
"""Rounds in a block; a single repeated round is a `repeat`."""

LONG_CYCLE_ROUNDS = 16
"""Rounds that came again in order, as many as in three times a block of eight: in a longer block
they count as three times too, once it has come again whole."""


class Cycle(HistorySignal):
    """Counts consecutive occurrences of the latest block."""

    ignores_news = True

    def __call__(self, trajectory: Trajectory) -> Evidence | None:
        """Return the block with the most occurrences; None when none occurred twice."""
        if trajectory.is_new_call:
            return None
        recent = trajectory.latest(MAX_CYCLE_ROUNDS + 1)
        if not any(round_.signature == recent[0].signature for round_ in recent[1:]):
            return None
        rounds = trajectory.latest(self._options.rounds)
        times, block_size = _longest_cycle(rounds)
        if times < 2:
            return None
        count = times - _is_look_and_check(rounds[:block_size])
        again = _count_again(rounds, block_size)
        if again >= LONG_CYCLE_ROUNDS:
            count = max(count, 3)
        if any(round_.is_poll for round_ in rounds[:block_size]):
            # Alternating a poll and a wait is polling too, and legitimate for longer.
            rounds = trajectory.latest(block_size * self._options.rounds)
            times = _count_blocks(rounds, block_size)
            count = max(times // self._options.polls_per_repeat, 1)
        if count >= self._options.first:
            count = trajectory.asked.excuse(count)
        names = " → ".join(tool_list(round_) for round_ in reversed(rounds[:block_size]))
        return Evidence(
            signal="cycle",
            what=f"{names}, with equal arguments and results, {times} times in a row",
            count=count,
            ago=times * block_size - 1,
        )


def _is_look_and_check(block: list[Round]) -> bool:
    """Return whether a block is a look at something and a check, such as a test run.

    The check alone may be made four times: looking into it does not make that a loop any sooner.
    """
    checks = [round_ for round_ in block if round_.is_check and not round_.only_looks]
    looks = [round_ for round_ in block if round_.only_looks]
    return len(block) == 2 and len(checks) == len(looks) == 1


def _longest_cycle(rounds: list[Round]) -> tuple[int, int]:
    """Return the most occurrences of a block, and how many rounds that block has."""
    best, length = 1, 0
    for size in range(MIN_CYCLE_ROUNDS, min(MAX_CYCLE_ROUNDS, len(rounds) // 2) + 1):
        times = _count_blocks(rounds, size)
        if times > best:
            best, length = times, size
    return best, length


def _count_again(rounds: list[Round], size: int) -> int:
    """Return how many of the latest rounds in a row equal the ones `size` rounds before."""
    again = 0
    for later, earlier in zip(rounds, rounds[size:], strict=False):
        if not earlier.repeats(later):
            break
        again += 1
    return again


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
