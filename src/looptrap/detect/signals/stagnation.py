"""`stagnation`: many calls, and mostly results that had come before."""

from __future__ import annotations

from looptrap.detect.canonical import normalise
from looptrap.detect.evidence import Evidence
from looptrap.detect.trajectory import COMPARED, Round, Trajectory

RECENT = 6
"""The latest result must stand among so many before it: else something new is going on."""

END = 8

SLACK = 24
"""By how many bytes the same result may differ in size: numbers and ids grow."""

_DIGITS = bytes(0x23 if 0x30 <= byte <= 0x39 else byte for byte in range(256))


class Stagnation:
    """Counts the results among the last `rounds` that had come before in these rounds."""

    __slots__ = ("_rounds",)

    def __init__(self, rounds: int, with_results: bool) -> None:  # noqa: ARG002 - all is in them
        self._rounds = rounds

    def __call__(self, trajectory: Trajectory) -> Evidence | None:
        """Return how many results were not new; None while there are few rounds, or new results."""
        first = trajectory.latest(1)
        if not first or _is_plain_success(first[0], trajectory):
            return None
        recent = trajectory.latest(RECENT + 1)
        if len(recent) <= RECENT or not any(_is_seen(recent[0], one) for one in recent[1:]):
            return None
        rounds = trajectory.latest(self._rounds)
        if len(rounds) < self._rounds:
            return None
        count = _stale(rounds)
        return Evidence(
            signal="stagnation",
            what=f"{count} of the latest {len(rounds)} results had come before",
            count=count,
            ago=len(rounds) - 1,
        )


def _is_plain_success(latest: Round, trajectory: Trajectory) -> bool:
    """Say whether something new was asked, and worked: then nothing stagnates, and most is so."""
    return latest.failure is None and not latest.is_fruitless and trajectory.asks_anew


def _stale(rounds: list[Round]) -> int:
    """Return how many rounds brought what had come before, and were no batch work.

    Equal results for new arguments are a batch, unless they say that it failed. Where they say that
    there is nothing it may be a search that is stuck, or a sweep: that weighs half.
    """
    weight = 0.0
    results: set[bytes] = set()
    asked: set[frozenset[tuple[str, str]]] = set()
    for one in reversed(rounds):
        gist = _gist(one.result)
        if gist in results:
            if one.asked in asked or one.failure is not None:
                weight += 1
            elif one.is_fruitless and not one.lands:
                weight += 0.5
        results.add(gist)
        asked.add(one.asked)
    return int(weight)


def _is_seen(latest: Round, one: Round) -> bool:
    # Results that differ in size or at both ends are not the same: mostly that is known soon.
    if abs(latest.size - one.size) > SLACK:
        return False
    new, old = latest.result, one.result
    if new[:END] != old[:END] and new[-END:] != old[-END:]:
        return False
    return _gist(new) == _gist(old)


def _gist(result: str) -> bytes:
    """Return what a result comes down to: numbers do not count."""
    return normalise([result[:COMPARED]]).translate(_DIGITS)
