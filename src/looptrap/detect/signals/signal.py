"""What a signal is, and how it is told to look."""

from __future__ import annotations

from typing import NamedTuple, Protocol

import msgspec

from looptrap.detect.call_kind import UNCHANGED_POLLS_PER_REPEAT
from looptrap.detect.round import Round
from looptrap.detect.trajectory import Trajectory
from looptrap.dialect.model import LONGEST_NAME


class Evidence(msgspec.Struct, frozen=True, gc=False):
    """What repeats, how often, and since when."""

    signal: str
    """The scope or signal that saw it (`conversation`, `repeat`, …)."""
    what: str
    """What repeats, in words for a person: tool names, counts and lengths only."""
    count: int
    ago: int = 0
    """So many rounds ago it began; 0 for what is counted across requests."""
    confidence: float = 1.0
    """From 0 to 1: equal calls with equal results are sure, what is merely alike is less so."""


class SignalOptions(NamedTuple):
    """How far and how closely a signal looks; each heeds what concerns it."""

    rounds: int
    """How many of the latest rounds count."""
    with_results: bool = True
    """Whether results are compared too, and not only calls."""
    polls_per_repeat: int = UNCHANGED_POLLS_PER_REPEAT
    """So many unchanged polls weigh as much as one repeat of anything else."""
    first: int = 2
    """The least count that anybody acts on."""


class HistorySignal(Protocol):
    """Reads a trajectory; says what goes in circles there, if anything does."""

    def __call__(self, trajectory: Trajectory) -> Evidence | None: ...


class AnswerSignal(Protocol):
    """Reads an answer so far; says what goes in circles there, if anything does."""

    def __call__(self, text: str) -> Evidence | None: ...


MAX_TOOLS_NAMED = 8
"""Tools that are named of one round."""


def tool_list(round_: Round) -> str:
    """Return the names of the tools of a round, as many as people read."""
    names = [name[:LONGEST_NAME] for name in sorted(round_.names)]
    more = [f"{len(names) - MAX_TOOLS_NAMED} more"] if len(names) > MAX_TOOLS_NAMED else []
    return " + ".join(names[:MAX_TOOLS_NAMED] + more)
