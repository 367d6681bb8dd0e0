"""`monologue`: the assistant repeats a text without any tool call."""

from __future__ import annotations

from looptrap.detect.signals.signal import Evidence, SignalOptions
from looptrap.detect.similarity import MAX_COMPARED_CHARS, SIMILAR_PERCENT, is_similar
from looptrap.detect.trajectory import Trajectory


class Monologue:
    """Counts turns without a tool call whose text is almost that of the latest."""

    __slots__ = ("_rounds",)

    def __init__(self, options: SignalOptions) -> None:
        self._rounds = options.rounds

    def __call__(self, trajectory: Trajectory) -> Evidence | None:
        """Return how often in a row; None after a tool call, or for the first time."""
        if trajectory.newest is None or trajectory.newest.calls:
            return None
        rounds = trajectory.latest(self._rounds)
        count = 0
        for round_ in rounds:
            if round_.calls or not is_similar(
                round_.text[:MAX_COMPARED_CHARS], rounds[0].text[:MAX_COMPARED_CHARS]
            ):
                break
            count += 1
        if count < 2:
            return None
        return Evidence(
            signal="monologue",
            what=f"almost the same {len(rounds[0].text)} characters said {count} times in a row",
            count=count,
            ago=count - 1,
            confidence=1.0 if rounds[0].text == rounds[1].text else SIMILAR_PERCENT / 100,
        )
