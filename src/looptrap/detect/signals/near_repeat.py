"""`near_repeat`, `mutating_repeat`: almost the same again, in the call or in its result."""

from __future__ import annotations

import re

from looptrap.detect.canonical import mask_result
from looptrap.detect.round import Round
from looptrap.detect.signals.signal import Evidence, HistorySignal, tool_list
from looptrap.detect.similarity import MAX_COMPARED_CHARS, SIMILAR_PERCENT, is_similar
from looptrap.detect.trajectory import Trajectory

VARIANT_PERCENT = 85.0
"""Per cent from which a failing call and its failure are a variant of another."""

NOISE_PERCENT = 95.0
"""The same for calls that return nothing: a search in many places is legitimate, so only noise and
counters may differ."""


class NearRepeat(HistorySignal):
    """Counts the failing or empty rounds similar to the latest among the last `rounds`."""

    def __call__(self, trajectory: Trajectory) -> Evidence | None:
        """Return how often it was tried; None when the latest round returned something."""
        latest = trajectory.newest
        if latest is None or (latest.failure is None and not latest.is_empty):
            return None
        if latest.is_deferred or (latest.is_poll and latest.failure is None):
            return None  # `repeat` judges polls
        rounds = trajectory.since_change(self._options.rounds)
        masked = mask_result(latest.arguments) if latest.failure is None else ""
        near = [age for age, round_ in enumerate(rounds) if _is_near(round_, latest, masked)]
        how = "failed" if latest.failure is not None else "brought nothing"
        return Evidence(
            signal="near_repeat",
            what=f"{tool_list(latest)} with almost the same arguments {how} {len(near)} times"
            f" in {len(rounds)} rounds",
            count=len(near),
            ago=near[-1],
            confidence=0.9 * len(near) / len(rounds),
        )


def _is_near(round_: Round, latest: Round, masked: str) -> bool:
    if round_.names != latest.names:
        return False
    if latest.failure is not None:
        return round_.fails_like(latest, VARIANT_PERCENT) and is_similar(
            round_.arguments, latest.arguments, VARIANT_PERCENT
        )
    return round_.is_empty and is_similar(mask_result(round_.arguments), masked, NOISE_PERCENT)


MIN_WORDS_CHARS = 8
"""Shorter texts may occur in a result by chance."""

_LINES = re.compile(r'\\[ntr"]|["\n]')
"""Where a line of an argument ends, in JSON as it is written."""


class MutatingRepeat(HistorySignal):
    """Counts consecutive equal calls with similar results: an append loop, not paging."""

    def __call__(self, trajectory: Trajectory) -> Evidence | None:
        """Return how often in a row; None when the latest call is new."""
        if trajectory.is_new_call:
            return None
        rounds = trajectory.latest(2)
        if len(rounds) < 2 or not rounds[0].calls or rounds[0].signature != rounds[1].signature:
            return None
        latest = rounds[0]
        result = latest.result[:MAX_COMPARED_CHARS]
        if latest.is_poll or not (latest.made_addition or _is_append(latest, rounds[1])):
            return None

        def is_alike(earlier: Round) -> bool:
            text = earlier.result[:MAX_COMPARED_CHARS]
            return earlier.signature == latest.signature and is_similar(text, result)

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


def _is_append(latest: Round, before: Round) -> bool:
    """Return whether a call writes: its own text occurs in its result once more than before.

    That separates a write that adds the same again from a read whose subject changes by itself.
    Reads do not take several lines as arguments: for those one occurrence is enough.
    """
    words = max((line.strip() for line in _LINES.split(latest.arguments)), key=len)
    if len(words) < MIN_WORDS_CHARS:
        return False
    times = latest.result.count(words)
    return times > (0 if "\\n" in latest.arguments else before.result.count(words))
