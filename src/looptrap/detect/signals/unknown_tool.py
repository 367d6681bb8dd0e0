"""`unknown_tool`: calls to tools that the request does not offer."""

from __future__ import annotations

from looptrap.detect.evidence import Evidence
from looptrap.detect.signals.wording import tools
from looptrap.detect.trajectory import Trajectory


class UnknownTool:
    """Counts the latest rounds in a row that called only tools that are not offered."""

    __slots__ = ("_rounds",)

    def __init__(self, rounds: int, with_results: bool) -> None:  # noqa: ARG002 - not needed
        self._rounds = rounds

    def __call__(self, trajectory: Trajectory) -> Evidence | None:
        """Return how many; None when the request offers no tools, or the latest call is to one."""
        offered = frozenset(trajectory.tools)
        first = trajectory.latest(1)
        if not offered or not first or not first[0].calls or first[0].names & offered:
            return None
        count = 0
        for one in trajectory.latest(self._rounds):
            if not one.calls or one.names & offered:
                break
            count += 1
        return Evidence(
            signal="unknown_tool",
            what=f"{tools(first[0])} is not offered and was called all the same,"
            f" {count} times in a row",
            count=count,
            ago=count - 1,
        )
