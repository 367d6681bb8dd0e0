"""`near_repeat`: almost the same call, repeated, still fails or returns nothing."""

from __future__ import annotations

from looptrap.detect.mask import mask_result
from looptrap.detect.round import Round
from looptrap.detect.signals.signal import Evidence, SignalOptions, tool_list
from looptrap.detect.similarity import is_similar
from looptrap.detect.trajectory import Trajectory

VARIANT_PERCENT = 85.0
"""Per cent from which a failing call and its failure are a variant of another."""

NOISE_PERCENT = 95.0
"""The same for calls that return nothing: a search in many places is legitimate, so only noise and
counters may differ."""


class NearRepeat:
    """Counts the failing or empty rounds similar to the latest among the last `rounds`."""

    __slots__ = ("_rounds",)

    def __init__(self, options: SignalOptions) -> None:
        self._rounds = options.rounds

    def __call__(self, trajectory: Trajectory) -> Evidence | None:
        """Return how often it was tried; None when the latest round returned something."""
        latest = trajectory.newest
        if latest is None or (latest.failure is None and not latest.is_empty):
            return None
        if latest.is_deferred or (latest.is_poll and latest.failure is None):
            return None  # `repeat` judges polls
        rounds = trajectory.since_change(self._rounds)
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
