"""Loop detectors of PyPI, each in a process of an environment that is not the project's.

`make bench-loops` makes the environment. `package_worker.py` uses the packages there; here
their questions are asked.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from subprocess import DEVNULL, PIPE, Popen
from typing import Any
from uuid import uuid4

from bench.loops.detector import Detector, DetectorError, MadeDetector
from bench.loops.package_worker import ADAPTERS
from bench.loops.scenario import Step, Verdict
from bench.loops.trail import Trail, Turn

ROOT = Path(__file__).parents[2]
ENVIRONMENT = ROOT / ".frameworks" / "loops"
WORKER = Path(__file__).with_name("package_worker.py")

QUIET = {"DO_NOT_TRACK": "1", "PRAISONAI_TELEMETRY_DISABLED": "true"}
"""Packages report nothing to anybody."""


class Worker:
    """A process that runs one package."""

    def __init__(self, python: Path, name: str) -> None:
        environment = {"PATH": os.environ.get("PATH", ""), **QUIET}
        self._process = Popen(
            [python, "-I", WORKER, name],
            stdin=PIPE,
            stdout=PIPE,
            stderr=DEVNULL,
            text=True,
            env=environment,
        )
        self.name = name
        ready = self._read()
        if "error" in ready:
            self.end()
            raise DetectorError(f"{name} cannot be used: {ready['error']}")

    def ask(self, question: dict[str, Any]) -> dict[str, Any]:
        """Return the reply to a question."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(question) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise DetectorError(f"{self.name} ended on a question") from None
        return self._read()

    def end(self) -> None:
        """End the process."""
        self._process.communicate()

    def _read(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise DetectorError(f"{self.name} ended without a reply")
        return json.loads(line)


_workers: dict[tuple[int, Path, str], Worker] = {}


def worker(python: Path, name: str) -> Worker:
    """Return this process's worker for a package; the first time, start it."""
    key = os.getpid(), python, name
    if key not in _workers:
        _workers[key] = Worker(python, name)
    return _workers[key]


@dataclass(slots=True)
class PackageAsker:
    """Asks a package about the turns of each agent of a scenario."""

    python: Path
    name: str
    reason: str = ""
    _run: str = field(default_factory=lambda: uuid4().hex)
    _trail: Trail = field(default_factory=Trail)
    _spent: float = 0.0

    def __call__(self, step: Step) -> Verdict:
        """Return what the package says of the agent's new turns."""
        agent, turns = self._trail.follow(step)
        question = {"run": self._run, "agent": agent, "turns": [plain(turn) for turn in turns]}
        reply = worker(self.python, self.name).ask(question)
        self._spent += reply["cpu"]
        self.reason = reply["reason"]
        return reply["verdict"]

    def answered(self, step: Step, at: float) -> None:
        """Note an answer."""
        self._trail.answered(step, at)

    def clock(self) -> float:
        """Return the CPU seconds that the package says it spent."""
        return self._spent


def plain(turn: Turn) -> dict[str, Any]:
    """Return a turn as JSON, with arguments as values."""
    fields = asdict(turn)
    for use in fields["uses"]:
        try:
            use["arguments"] = json.loads(use["arguments"])
        except ValueError:
            continue  # text, as custom tools take it
    return fields


def package(environment: Path, name: str) -> Detector:
    """Return a package as a detector."""
    return MadeDetector(name, partial(PackageAsker, _python(environment), name))


def usable(environment: Path = ENVIRONMENT) -> tuple[list[str], dict[str, str]]:
    """Return the packages that can be used in an environment, and why the others cannot."""
    python = _python(environment)
    if not python.exists():
        return [], dict.fromkeys(ADAPTERS, "not installed; `make bench-loops` does")
    found: list[str] = []
    notes: dict[str, str] = {}
    for name in ADAPTERS:
        try:
            Worker(python, name).end()
        except DetectorError as error:
            notes[name] = str(error)
        else:
            found.append(name)
    return found, notes


def _python(environment: Path) -> Path:
    return environment / "bin" / "python"
