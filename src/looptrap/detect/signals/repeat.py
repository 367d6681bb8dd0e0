"""`repeat`: the latest calls were made before, and brought the same results."""

from __future__ import annotations

from looptrap.detect.canonical import normalise
from looptrap.detect.evidence import Evidence
from looptrap.detect.mask import mask
from looptrap.detect.trajectory import Round, Trajectory


class Repeat:
    """Counts the rounds that equal the latest one among the last `rounds`."""

    __slots__ = ("_rounds", "_with_results")

    def __init__(self, rounds: int, with_results: bool) -> None:
        self._rounds = rounds
        self._with_results = with_results

    def __call__(self, trajectory: Trajectory) -> Evidence | None:
        """Return how often the latest round has happened; None when it was the first time."""
        rounds = trajectory.latest(self._rounds)
        if not rounds or not rounds[0].calls:
            return None
        latest = self._essence(rounds[0])
        equal = [age for age, one in enumerate(rounds) if self._essence(one) == latest]
        if len(equal) < 2:
            return None
        names = " + ".join(sorted({call.name for call in rounds[0].calls}))
        same = "the same arguments and result" if self._with_results else "the same arguments"
        return Evidence(
            signal="repeat",
            what=f"{names} with {same}, {len(equal)} times in {len(rounds)} rounds",
            count=len(equal),
            ago=equal[-1],
        )

    def _essence(self, one: Round) -> frozenset[tuple[str, str, bytes]]:
        """Return what counts of a round; parallel twins are one, their order is none."""
        return frozenset(
            (
                call.name,
                call.arguments,
                normalise([mask(result.text)])
                if result is not None and self._with_results
                else b"",
            )
            for call, result in zip(one.calls, one.results, strict=True)
        )
