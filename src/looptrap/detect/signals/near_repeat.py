"""`near_repeat`: almost the same call again and again, and it still does not work."""

from __future__ import annotations

from looptrap.detect.evidence import Evidence
from looptrap.detect.mask import mask
from looptrap.detect.signals.wording import tools
from looptrap.detect.trajectory import Round, Trajectory, alike

VARIANT = 80.0
"""Per cent from which on a failing call, and its failure, is a variant of another."""

NOISE = 95.0
"""The same for calls that bring nothing: a sweep over many places is honest work, so only noise
and counters may differ."""


class NearRepeat:
    """Counts the failing or fruitless rounds almost like the latest among the last `rounds`."""

    __slots__ = ("_rounds",)

    def __init__(self, rounds: int, with_results: bool) -> None:  # noqa: ARG002 - all is in them
        self._rounds = rounds

    def __call__(self, trajectory: Trajectory) -> Evidence | None:
        """Return how often it was tried; None when the latest round brought something."""
        first = trajectory.latest(1)
        if not first or (first[0].failure is None and not first[0].is_fruitless):
            return None
        latest = first[0]
        rounds = trajectory.since_change(self._rounds)
        near = [age for age, one in enumerate(rounds) if _is_near(one, latest)]
        how = "failed" if latest.failure is not None else "brought nothing"
        return Evidence(
            signal="near_repeat",
            what=f"{tools(latest)} with almost the same arguments {how} {len(near)} times"
            f" in {len(rounds)} rounds",
            count=len(near),
            ago=near[-1],
        )


def _is_near(one: Round, latest: Round) -> bool:
    if one.names != latest.names:
        return False
    if latest.failure is not None:
        return (
            one.failure is not None
            and alike(one.failure, latest.failure, VARIANT)
            and alike(one.arguments, latest.arguments, VARIANT)
        )
    return one.is_fruitless and alike(mask(one.arguments), mask(latest.arguments), NOISE)
