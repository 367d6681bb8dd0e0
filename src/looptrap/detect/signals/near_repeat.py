"""`near_repeat`: almost the same call again and again, and it still does not work."""

from __future__ import annotations

from looptrap.detect.mask import mask_result
from looptrap.detect.round import Round
from looptrap.detect.signals.signal import Evidence, SignalOptions, tool_list
from looptrap.detect.similarity import is_similar
from looptrap.detect.trajectory import Trajectory

VARIANT_PERCENT = 85.0
"""Per cent from which on a failing call, and its failure, is a variant of another."""

NOISE_PERCENT = 95.0
"""The same for calls that bring nothing: a sweep over many places is honest work, so only noise
and counters may differ."""


class NearRepeat:
    """Counts the failing or fruitless rounds almost like the latest among the last `rounds`."""

    __slots__ = ("_rounds",)

    def __init__(self, look: SignalOptions) -> None:
        self._rounds = look.rounds

    def __call__(self, trajectory: Trajectory) -> Evidence | None:
        """Return how often it was tried; None when the latest round brought something."""
        latest = trajectory.newest
        if latest is None or (latest.failure is None and not latest.is_fruitless):
            return None
        if latest.is_put_off or (latest.is_poll and latest.failure is None):
            return None  # that is for `repeat` to say
        rounds = trajectory.since_change(self._rounds)
        masked = mask_result(latest.arguments) if latest.failure is None else ""
        near = [age for age, one in enumerate(rounds) if _is_near(one, latest, masked)]
        how = "failed" if latest.failure is not None else "brought nothing"
        return Evidence(
            signal="near_repeat",
            what=f"{tool_list(latest)} with almost the same arguments {how} {len(near)} times"
            f" in {len(rounds)} rounds",
            count=len(near),
            ago=near[-1],
            confidence=0.9 * len(near) / len(rounds),
        )


def _is_near(one: Round, latest: Round, masked: str) -> bool:
    if one.names != latest.names:
        return False
    if latest.failure is not None:
        return one.fails_like(latest, VARIANT_PERCENT) and is_similar(
            one.arguments, latest.arguments, VARIANT_PERCENT
        )
    return one.is_fruitless and is_similar(mask_result(one.arguments), masked, NOISE_PERCENT)
