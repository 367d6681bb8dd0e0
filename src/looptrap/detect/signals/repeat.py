"""`repeat`: the latest calls were made before, with the same results."""

from __future__ import annotations

from looptrap.detect.round import Round
from looptrap.detect.signals.signal import Evidence, SignalOptions, tool_list
from looptrap.detect.trajectory import Trajectory


class Repeat:
    """Counts the rounds that equal the latest one among the last `rounds`."""

    __slots__ = ("_polls_per_repeat", "_rounds", "_with_results")

    def __init__(self, options: SignalOptions) -> None:
        self._rounds = options.rounds
        self._with_results = options.with_results
        self._polls_per_repeat = options.polls_per_repeat

    def __call__(self, trajectory: Trajectory) -> Evidence | None:
        """Return how often the latest round occurred; None for the first time."""
        newest = trajectory.newest
        if newest is None or not newest.calls or trajectory.is_new_call:
            return None
        rounds = trajectory.since_change(self._rounds)
        equal = [age for age, round_ in enumerate(rounds) if self._is_equal(round_, rounds[0])]
        count = len(equal)
        if count > 1 and (rounds[0].is_poll or rounds[0].is_step):
            # Unchanged polling is legitimate for longer: it counts less, over more rounds.
            rounds = trajectory.since_change(self._rounds * self._polls_per_repeat)
            equal = [age for age, round_ in enumerate(rounds) if self._is_equal(round_, rounds[0])]
            count = len(equal) // self._polls_per_repeat
        if count < 2:
            return None
        same = "the same arguments and result" if self._with_results else "the same arguments"
        return Evidence(
            signal="repeat",
            what=f"{tool_list(rounds[0])} with {same}, {len(equal)} times in {len(rounds)} rounds",
            count=count,
            ago=equal[-1],
            confidence=1.0 if self._with_results else 0.6,
        )

    def _is_equal(self, round_: Round, latest: Round) -> bool:
        return (
            round_.repeats(latest) if self._with_results else round_.signature == latest.signature
        )
