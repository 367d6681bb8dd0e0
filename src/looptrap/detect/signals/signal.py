"""What a signal is, its options, and the evidence it returns."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar, NamedTuple, Protocol

import msgspec

from looptrap.detect.call_kind import UNCHANGED_POLLS_PER_REPEAT
from looptrap.detect.round import Round
from looptrap.detect.trajectory import Trajectory
from looptrap.dialect.model import MAX_NAME_CHARS


class Evidence(msgspec.Struct, frozen=True, gc=False):
    """What repeats, how often, and since when."""

    signal: str
    """The scope or signal that saw it (`conversation`, `repeat`, …)."""
    what: str
    """What repeats, in words for a person: tool names, counts and lengths only."""
    count: int
    ago: int = 0
    """Rounds since it began; 0 for what is counted across requests."""
    confidence: float = 1.0
    """From 0 to 1: equal calls with equal results are certain, similar ones less so."""


class SignalOptions(NamedTuple):
    """How far back and how closely a signal compares; each uses what it needs."""

    rounds: int
    """How many of the latest rounds count."""
    with_results: bool = True
    """Whether results are compared too, and not only calls."""
    polls_per_repeat: int = UNCHANGED_POLLS_PER_REPEAT
    """Unchanged polls that count as one repeat of anything else."""
    first: int = 2
    """The lowest count at which a rule acts."""


class HistorySignal(ABC):
    """Returns the evidence of a loop in a trajectory, if there is one."""

    ignores_news: ClassVar[bool] = False
    """Whether it never finds anything where the latest call is new and brought something."""

    def __init__(self, options: SignalOptions) -> None:
        self._options = options

    @abstractmethod
    def __call__(self, trajectory: Trajectory) -> Evidence | None: ...


class AnswerSignal(Protocol):
    """Returns the evidence of a loop in an answer so far, if there is one."""

    def __call__(self, text: str) -> Evidence | None: ...


MAX_TOOLS_NAMED = 8
"""Tools of one round that are listed by name."""


def tool_list(round_: Round) -> str:
    """Return the names of a round's tools, shortened to a readable list."""
    names = [name[:MAX_NAME_CHARS] for name in sorted(round_.names)]
    more = [f"{len(names) - MAX_TOOLS_NAMED} more"] if len(names) > MAX_TOOLS_NAMED else []
    return " + ".join(names[:MAX_TOOLS_NAMED] + more)
