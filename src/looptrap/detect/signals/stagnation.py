"""`stagnation`: many calls, and mostly results that had come before."""

from __future__ import annotations

from looptrap.detect.round import Round
from looptrap.detect.signals.signal import Evidence, SignalOptions, tool_list
from looptrap.detect.trajectory import Trajectory

RECENT_ROUNDS = 6
"""The latest result must stand among so many before it: else something new is going on."""

SIZE_SLACK_BYTES = 64
"""By how many bytes the same result may differ in size: numbers and ids grow."""

ENVELOPE_BYTES = 160
"""Bytes that a message of a tool takes beside its result, about."""

SAME_CALL_ROUNDS = 40
"""In so many rounds the same call that fails the same way is counted: each try takes several."""

MIN_ROUNDS = 20
"""With fewer rounds it is too early to say so."""

MAX_QUERY_CHARS = 300
"""A longer call that is answered by nothing is a script or a thought, and no search."""


class Stagnation:
    """Counts the results among the last `rounds` that had come before in these rounds."""

    __slots__ = ("_patience", "_rounds")

    def __init__(self, look: SignalOptions) -> None:
        self._rounds = look.rounds
        self._patience = look.patience

    def __call__(self, trajectory: Trajectory) -> Evidence | None:
        """Return how many results were not new; None while there are few rounds, or new results."""
        newest = trajectory.newest
        if newest is None or _is_plain_success(newest, trajectory):
            return None
        recent = trajectory.latest(RECENT_ROUNDS + 1)
        if len(recent) <= RECENT_ROUNDS or not any(_is_seen(recent[0], one) for one in recent[1:]):
            return None
        rounds = trajectory.latest(self._rounds)
        if len(rounds) < min(MIN_ROUNDS, self._rounds):
            return None
        count, tries = _stale(rounds, self._patience), _tries(trajectory)
        what = f"{count} of the latest {len(rounds)} results had come before"
        if tries > count + 1:
            count = min(tries - 1, len(rounds))
            what = f"{tool_list(newest)} failed the same way {tries} times, whatever came between"
        return Evidence(
            signal="stagnation",
            what=what,
            count=count,
            ago=len(rounds) - 1,
            confidence=count / len(rounds),
        )


def _is_plain_success(latest: Round, trajectory: Trajectory) -> bool:
    """Say whether something new was asked, and worked: then nothing stagnates, and most is so."""
    return latest.failure is None and not latest.is_fruitless and trajectory.asks_anew


def _stale(rounds: list[Round], patience: int) -> int:
    """Return how many rounds brought a result that had come before, and were no batch work.

    Equal results for new arguments are a batch, unless they say that it failed. Where they say that
    there is nothing, it may be a search that is stuck or a sweep: that weighs half. Polls weigh
    little. After a change that was not made before, every check may say once more that nothing is
    wrong: that weighs nothing.
    """
    weight = 0.0
    changes = 0
    asked: dict[object, list[Round]] = {}
    checked: dict[object, int] = {}
    dull: dict[object, list[Round]] = {}
    for one in reversed(rounds):
        twins = asked.setdefault(one.asked, [])
        likes = dull.setdefault(one.failure, []) if one.failure or one.is_fruitless else []
        if any(map(one.has_result_of, twins if one.failure is None else likes)):
            is_first_since_change = checked.get(one.asked, changes) < changes
            if not (is_first_since_change and one.is_fine):
                weight += 1 / patience if one.is_poll or one.is_step else 1
        elif _is_search(one) and any(map(one.has_result_of, likes)):
            weight += 0.5
        if one.lands and not twins:
            changes += 1
        checked[one.asked] = changes
        twins.append(one)
        likes.append(one)
    return int(weight)


def _tries(trajectory: Trajectory) -> int:
    """Return how often the latest call failed as it did now, whatever was changed in between."""
    latest, *before = trajectory.latest(SAME_CALL_ROUNDS)
    if latest.failure is None or latest.is_poll or trajectory.asks_anew:
        return 0
    return 1 + sum(map(latest.repeats, before))


def _is_seen(latest: Round, one: Round) -> bool:
    # Results of other sizes are not the same: mostly that is known without reading them.
    slack = SIZE_SLACK_BYTES + ENVELOPE_BYTES * abs(latest.answered - one.answered)
    return abs(latest.size - one.size) <= slack + latest.size // 8 and latest.has_result_of(one)


def _is_search(one: Round) -> bool:
    """Say whether it looked for something, and there was nothing."""
    return one.is_fruitless and not one.lands and len(one.arguments) <= MAX_QUERY_CHARS
