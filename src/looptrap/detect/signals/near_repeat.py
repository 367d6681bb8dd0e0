"""`near_repeat`, `mutating_repeat`: almost the same again, in the call or in its result."""

from __future__ import annotations

from looptrap.detect.round import Round
from looptrap.detect.signals.enumeration import is_enumeration
from looptrap.detect.signals.signal import Evidence, HistorySignal, tool_list
from looptrap.detect.similarity import SIMILAR_PERCENT
from looptrap.detect.trajectory import Trajectory, since_other_result

MIN_REPEATS = 3
"""Failing calls repeated to the letter, one failure after the other, that weigh as one more: an
agent that tries variants may find one that works, one that repeats itself does not."""

MAX_REPEATS_COUNT = 6
"""Up to which count: those who set a higher threshold for a tool mean what they say."""


def _count_repeats(rounds: list[Round]) -> int:
    """Return how often the latest call was made before; 0 where a call between succeeded."""
    latest, *before = rounds
    if any(round_.failure is None for round_ in before):
        return 0
    return sum(round_.signature == latest.signature for round_ in before)


class NearRepeat(HistorySignal):
    """Counts the failing or empty rounds similar to the latest among the last `rounds`."""

    ignores_news = True

    def __call__(self, trajectory: Trajectory) -> Evidence | None:
        """Return how often it was tried; None when the latest round returned something."""
        latest = trajectory.newest
        if latest is None or (latest.failure is None and not latest.is_empty):
            return None
        if latest.is_deferred or (latest.is_poll and latest.failure is None):
            return None  # `repeat` judges polls
        rounds = since_other_result(trajectory.since_change(self._options.rounds))
        near = [age for age, round_ in enumerate(rounds) if round_.is_variant_of(latest)]
        how = "failed" if latest.failure is not None else "brought nothing"
        what = f"{tool_list(latest)} with almost the same arguments {how} {len(near)} times"
        count = len(near)
        if is_enumeration([rounds[age] for age in near]):
            count -= count // 2
        if latest.failure is not None and not (latest.is_poll or latest.is_measurement):
            repeats = _count_repeats(rounds[: near[-1] + 1])
            if repeats >= MIN_REPEATS and count < MAX_REPEATS_COUNT:
                count += 1
                what += f", {repeats + 1} of them to the letter,"
        return Evidence(
            signal="near_repeat",
            what=f"{what} in {len(rounds)} rounds",
            count=count,
            ago=near[-1],
            confidence=0.9 * len(near) / len(rounds),
        )


class MutatingRepeat(HistorySignal):
    """Counts consecutive equal calls with similar results: an append loop, not paging."""

    ignores_news = True

    def __call__(self, trajectory: Trajectory) -> Evidence | None:
        """Return how often in a row; None when the latest call is new."""
        if trajectory.is_new_call:
            return None
        rounds = trajectory.latest(2)
        if len(rounds) < 2 or not rounds[0].calls or rounds[0].signature != rounds[1].signature:
            return None
        latest = rounds[0]
        if latest.is_poll or not latest.writes_again(rounds[1]):
            return None

        def is_alike(earlier: Round) -> bool:
            return earlier.signature == latest.signature and earlier.has_similar_result(latest)

        count = len(trajectory.latest_while(is_alike, self._options.rounds))
        if count < 2:
            return None
        return Evidence(
            signal="mutating_repeat",
            what=f"{tool_list(latest)} with the same arguments {count} times in a row,"
            " each result almost that of the call before",
            count=count,
            ago=count - 1,
            confidence=SIMILAR_PERCENT / 100,
        )
