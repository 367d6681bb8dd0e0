"""What a signal is."""

from __future__ import annotations

from typing import Protocol

from looptrap.detect.evidence import Evidence
from looptrap.detect.trajectory import Trajectory


class Signal(Protocol):
    """Reads a trajectory; says what goes in circles there, if anything does."""

    def __call__(self, trajectory: Trajectory) -> Evidence | None: ...
