"""`mutating_repeat`: the same call in a row, while its result merely grows or shifts."""

from __future__ import annotations

import re

from looptrap.detect.evidence import Evidence
from looptrap.detect.signals.wording import tools
from looptrap.detect.trajectory import COMPARED, Round, Trajectory, alike

SHORTEST = 8
"""Words shorter than this may stand in a result by chance."""

MANY = 5
"""Arguments of so many pieces are content, not the name of something to read."""

_LINES = re.compile(r'\\[ntr"]|["\n]')
"""Where a line of an argument ends, in JSON as it is written."""


class MutatingRepeat:
    """Counts the same call in a row with results almost alike: an append loop, not paging."""

    __slots__ = ("_rounds",)

    def __init__(self, rounds: int, with_results: bool) -> None:  # noqa: ARG002 - all is in them
        self._rounds = rounds

    def __call__(self, trajectory: Trajectory) -> Evidence | None:
        """Return how often in a row; None when the latest call is a new one."""
        if trajectory.asks_anew:
            return None
        rounds = trajectory.latest(2)
        if len(rounds) < 2 or not rounds[0].calls or rounds[0].asked != rounds[1].asked:
            return None
        latest = rounds[0]
        result = latest.result[:COMPARED]
        if latest.is_poll or not _piles_up(latest):
            return None
        count = 1
        for one in trajectory.latest(self._rounds)[1:]:
            if one.asked != latest.asked or not alike(one.result[:COMPARED], result):
                break
            count += 1
        if count < 2:
            return None
        return Evidence(
            signal="mutating_repeat",
            what=f"{tools(latest)} with the same arguments {count} times in a row,"
            " each result almost that of the call before",
            count=count,
            ago=count - 1,
        )


def _piles_up(one: Round) -> bool:
    """Say whether a call writes: its own words stand in its result, several lines or several times.

    That tells a write that adds the same again from a read whose subject changes by itself.
    """
    lines = [line.strip() for line in _LINES.split(one.arguments)]
    words = max(lines, key=len)
    if len(words) < SHORTEST:
        return False
    return one.result.count(words) > (1 if sum(map(bool, lines)) < MANY else 0)
