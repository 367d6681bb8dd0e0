"""What a signal is, and how it is told to look."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from looptrap.detect.evidence import Evidence
from looptrap.detect.poll import PATIENCE
from looptrap.detect.trajectory import Trajectory


class Look(NamedTuple):
    """How far and how closely a signal looks; each heeds what concerns it."""

    rounds: int
    """How many of the latest rounds count."""
    with_results: bool = True
    """Whether results are compared too, and not only calls."""
    patience: int = PATIENCE
    """So many unchanged polls weigh as much as one repeat of anything else."""
    first: int = 2
    """The least count that anybody acts on."""


class Signal(Protocol):
    """Reads a trajectory; says what goes in circles there, if anything does."""

    def __call__(self, trajectory: Trajectory) -> Evidence | None: ...


class AnswerSignal(Protocol):
    """Reads an answer so far; says what goes in circles there, if anything does."""

    def __call__(self, text: str) -> Evidence | None: ...
