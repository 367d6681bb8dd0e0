"""Replay files of runs and captures: read them line by line, play each run, and count."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from looptrap.errors import CallError
from looptrap.policy.policy import Policy, Project
from looptrap.replay.capture import CapturePlayer, is_captured
from looptrap.replay.file import Line, lines
from looptrap.replay.play import Tools, enforced, play
from looptrap.replay.result import Result
from looptrap.replay.run import Run, read_run
from looptrap.replay.summary import Summary
from looptrap.replay.sweep import Sweep


class Step(NamedTuple):
    """One line of a file: what became of a run, why it is none, or nothing to tell yet."""

    number: int | None
    """None for the file itself, where it cannot be read on."""
    position: int
    """How far in the file it ends, in bytes as they are on disk."""
    result: Result | None = None
    problem: str = ""


class Replay:
    """Plays files of runs against policies; `summary` tells what was found so far."""

    def __init__(
        self,
        policies: Sequence[Policy],
        *,
        tools: Tools | None = None,
        projects: Sequence[Project] = (),
        sweeps: bool = False,
    ) -> None:
        self._policies = enforced(policies)
        self._tools = tools
        self._captured = CapturePlayer(self._policies, tools, projects)
        self.summary = Summary(Sweep(self._policies, tools) if sweeps else None)

    def file(self, path: Path) -> Iterator[Step]:
        """Play a file, a step a line or a run; where it cannot be read on, the last step says so.

        Runs of a capture may go on in the next file: they are told when they are over.
        """
        position = 0
        try:
            for line in lines(path):
                position = line.position
                yield from self._steps(line, path)
        except OSError as error:
            self.summary.unfinished += 1
            yield Step(None, position, problem=error.strerror or str(error))

    def finish(self) -> Iterator[Result]:
        """End the runs of captures that may have gone on, and yield them."""
        for result in self._captured.finish():
            self.summary.add(result)
            yield result

    def _steps(self, line: Line, path: Path) -> Iterator[Step]:
        number, position = line.number, line.position
        try:
            if line.text is None:
                raise CallError("is too long for a run")
            if is_captured(line.text):
                self._captured.play(line.text)
                yield Step(number, position)
                for result in self._captured.ended():
                    self.summary.add(result)
                    yield Step(number, position, result)
            else:
                run = read_run(line.text, f"{path.name}:{number}")
                for result in self.finish():
                    yield Step(number, position, result)
                yield Step(number, position, self._play(run))
        except CallError as error:
            self.summary.skipped += 1
            yield Step(number, position, problem=str(error))

    def _play(self, run: Run) -> Result:
        result = play(run, self._policies, self._tools)
        self.summary.add(result, run)
        return result
