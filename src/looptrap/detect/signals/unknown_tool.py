"""`unknown_tool`: calls to tools that are not offered, or that the results say do not exist."""

from __future__ import annotations

import re
from collections.abc import Collection

from looptrap.detect.remembered_round import RememberedRound
from looptrap.detect.round import Round
from looptrap.detect.signals.signal import Evidence, HistorySignal, tool_list
from looptrap.detect.trajectory import TEXT_TOOL_NAME, Trajectory

SHORT_RESULT_CHARS = 600
"""Longest result that may report an unknown tool, with a list of the known ones."""

_UNKNOWN_TOOL = re.compile(
    r"\b(?:unknown|invalid|unrecogni[sz]ed|unsupported|undefined|unavailable|non-?existent|no such"
    r"|not a (?:valid|known|registered)|no) (?:tool|function|action)\b"
    r"|\b(?:tool|action)\b.{0,80}?(?:\bnot (?:found|available|exist|registered|recogni[sz]ed"
    r"|supported|defined|offered|known)|n't exist)",
    re.IGNORECASE,
)


class UnknownTool(HistorySignal):
    """Counts the latest consecutive rounds that called only tools that do not exist."""

    def __call__(self, trajectory: Trajectory) -> Evidence | None:
        """Return how many; None when the latest call is to a tool that exists."""
        newest, offered = trajectory.newest, trajectory.tools
        if newest is None or not calls_unknown_tool(newest, offered):
            return None
        rounds = trajectory.latest_while(
            lambda round_: calls_unknown_tool(round_, offered), self._options.rounds
        )
        count = len(rounds)
        return Evidence(
            signal="unknown_tool",
            what=f"{tool_list(rounds[0])} is not offered and was called all the same,"
            f" {count} times in a row",
            count=count,
            ago=count - 1,
        )


def calls_unknown_tool(round_: Round, offered: Collection[str]) -> bool:
    """Return whether a round called only tools that are not offered, or do not exist."""
    if isinstance(round_, RememberedRound):
        return round_.called_unknown_tool
    if not round_.calls:
        return False
    names = round_.names
    if offered and names.isdisjoint(offered) and TEXT_TOOL_NAME not in names:
        return True
    if len(round_.result) > SHORT_RESULT_CHARS * len(round_.calls):
        return False
    return all(
        result is not None
        and len(result.text) <= SHORT_RESULT_CHARS
        and call.name in result.text
        and _UNKNOWN_TOOL.search(result.text) is not None
        for call, result in zip(round_.calls, round_.results, strict=True)
    )
