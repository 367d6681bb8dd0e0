"""Replay files of runs: read them line by line, play each run, and count."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from looptrap.errors import CallError
from looptrap.policy.policy import Policy
from looptrap.replay.file import Line, lines
from looptrap.replay.play import enforced, play
from looptrap.replay.result import Result
from looptrap.replay.run import read_run
from looptrap.replay.summary import Summary
from looptrap.replay.sweep import Sweep


class Step(NamedTuple):
    """One line of a file: what became of its run, or why it is none."""

    number: int | None
    """None for the file itself, where it cannot be read on."""
    position: int
    """How far in the file it ends, in bytes as they are on disk."""
    result: Result | None = None
    problem: str = ""


class Replay:
    """Plays files of runs against policies; `summary` tells what was found so far."""

    def __init__(self, policies: Sequence[Policy], *, sweeps: bool = False) -> None:
        self._policies = enforced(policies)
        self.summary = Summary(Sweep(self._policies) if sweeps else None)

    def file(self, path: Path) -> Iterator[Step]:
        """Play a file, a step a line; where it cannot be read on, the last step says so."""
        position = 0
        try:
            for line in lines(path):
                position = line.position
                yield self._step(line, path)
        except OSError as error:
            self.summary.unfinished += 1
            yield Step(None, position, problem=error.strerror or str(error))

    def _step(self, line: Line, path: Path) -> Step:
        try:
            return Step(line.number, line.position, self._play(line, path))
        except CallError as error:
            self.summary.skipped += 1
            return Step(line.number, line.position, problem=str(error))

    def _play(self, line: Line, path: Path) -> Result:
        if line.text is None:
            raise CallError("is too long for a run")
        run = read_run(line.text, f"{path.name}:{line.number}")
        result = play(run, self._policies)
        self.summary.add(run, result)
        return result
