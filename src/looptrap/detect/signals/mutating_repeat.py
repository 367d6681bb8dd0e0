"""`mutating_repeat`: the same call in a row, while its result merely grows or shifts."""

from __future__ import annotations

import re

from looptrap.detect.round import Round
from looptrap.detect.signals.signal import Evidence, SignalOptions, tool_list
from looptrap.detect.similarity import MAX_COMPARED_CHARS, SIMILAR_PERCENT, is_similar
from looptrap.detect.trajectory import Trajectory

MIN_WORDS_CHARS = 8
"""Shorter texts may occur in a result by chance."""

_LINES = re.compile(r'\\[ntr"]|["\n]')
"""Where a line of an argument ends, in JSON as it is written."""


class MutatingRepeat:
    """Counts consecutive equal calls with similar results: an append loop, not paging."""

    __slots__ = ("_rounds",)

    def __init__(self, options: SignalOptions) -> None:
        self._rounds = options.rounds

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
        count = 1
        for earlier in trajectory.latest(self._rounds)[1:]:
            if earlier.signature != latest.signature or not is_similar(
                earlier.result[:MAX_COMPARED_CHARS], result
            ):
                break
            count += 1
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
