"""`unknown_tool`: calls to tools that are not offered, or that the results say do not exist."""

from __future__ import annotations

import re

from looptrap.detect.round import Round
from looptrap.detect.signals.signal import Evidence, SignalOptions, tool_list
from looptrap.detect.text_tools import TEXT_TOOL_NAME
from looptrap.detect.trajectory import Trajectory

SHORT = 600
"""A result that says so is short; one that lists the tools there are may take a little more."""

_SAYS_SO = re.compile(
    r"\b(?:unknown|invalid|unrecogni[sz]ed|unsupported|undefined|unavailable|non-?existent|no such"
    r"|not a (?:valid|known|registered)|no) (?:tool|function|action)\b"
    r"|\b(?:tool|action)\b.{0,80}?(?:\bnot (?:found|available|exist|registered|recogni[sz]ed"
    r"|supported|defined|offered|known)|n't exist)",
    re.IGNORECASE,
)


class UnknownTool:
    """Counts the latest rounds in a row that called nothing but tools that are not there."""

    __slots__ = ("_rounds",)

    def __init__(self, look: SignalOptions) -> None:
        self._rounds = look.rounds

    def __call__(self, trajectory: Trajectory) -> Evidence | None:
        """Return how many; None when the latest call is to a tool that is there."""
        offered = frozenset(trajectory.tools)
        count = 0
        while count < self._rounds:
            rounds = trajectory.latest(count + 1)
            if len(rounds) <= count or not _is_lost(rounds[count], offered):
                break
            count += 1
        if not count:
            return None
        return Evidence(
            signal="unknown_tool",
            what=f"{tool_list(trajectory.latest(1)[0])} is not offered and was called all the same,"
            f" {count} times in a row",
            count=count,
            ago=count - 1,
        )


def _is_lost(one: Round, offered: frozenset[str]) -> bool:
    if not one.calls:
        return False
    if offered and TEXT_TOOL_NAME not in one.names and not one.names & offered:
        return True
    if len(one.result) > SHORT * len(one.calls):
        return False
    return all(
        result is not None
        and len(result.text) <= SHORT
        and call.name in result.text
        and _SAYS_SO.search(result.text) is not None
        for call, result in zip(one.calls, one.results, strict=True)
    )
