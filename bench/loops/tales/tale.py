"""A tale: what an agent said and did, and what came of it, in the form of no harness."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

from bench.loops.form import Tool


@dataclass(frozen=True, slots=True)
class Deed:
    """One use of a tool; `shell`, `read`, `edit`, `write` and `find` are named by each harness."""

    verb: str
    args: Mapping[str, Any]
    result: str
    code: int = 0
    """The exit code of a command."""
    failed: bool = False
    seconds: float = 0.6
    """How long the tool took."""
    image: str = ""
    """A screenshot that comes with the result, in base64."""
    is_unknown: bool = False
    """Whether there is no such tool."""


@dataclass(frozen=True, slots=True)
class Round:
    """An answer of the model, and what it gets back before its next one."""

    said: str
    deeds: Sequence[Deed] = ()
    heard: str = ""
    """What a person, another agent or the harness says after it."""
    pause: float = 0.0
    """Seconds that pass before the next request beside those of the tools."""
    note: str = ""
    """What a summary of the run says about this round."""
    speaker: str = ""
    """Which agent of a team answers, where there are several."""


@dataclass(frozen=True, slots=True)
class Tale:
    """A run of one agent."""

    task: str
    rounds: Sequence[Round]
    starts: int | None = None
    """For a loop: its first round."""
    period: int = 1
    """For a loop: the rounds after which all of it has been seen once."""
    tools: Sequence[Tool] = ()
    """Tools of the tale itself, beside those of its harness."""
    persona: str = ""
    """What the system prompt says that the agent is."""
    personas: Mapping[str, str] = field(default_factory=dict)
    """The same for each agent of a team."""

    @property
    def begins(self) -> int | None:
        """The first request that shows nothing which an earlier one has not shown."""
        return None if self.starts is None else self.starts + self.period + 1


Teller = Callable[[Random], Tale]


@dataclass(frozen=True, slots=True)
class Case:
    """A tale to be told in the form of one harness."""

    kind: str
    story: str
    is_loop: bool
    tell: Teller
    harness: str
    shows: str = "whole"
    difficulty: str = "medium"
    options: Mapping[str, Any] = field(default_factory=dict)
    """Options of how much each request shows."""


def cases_of(
    kind: str,
    story: str,
    tell: Teller,
    harnesses: str,
    *,
    is_loop: bool = False,
    difficulty: str = "medium",
) -> list[Case]:
    """Return a case for each harness in a list of words."""
    return [
        Case(kind, story, is_loop, tell, harness, difficulty=difficulty)
        for harness in harnesses.split()
    ]


def shell(command: str, output: str, code: int = 0, seconds: float = 0.6) -> Deed:
    """Return the run of a command."""
    return Deed("shell", {"command": command}, output, code, code != 0, seconds)


def read(path: str, content: str) -> Deed:
    """Return the reading of a file."""
    return Deed("read", {"path": path}, content, seconds=0.1)


def edit(path: str, old: str, new: str, *, fails: bool = False) -> Deed:
    """Return the replacement of a text in a file, or the attempt."""
    return Deed("edit", {"path": path, "old": old, "new": new}, "", failed=fails, seconds=0.1)


def write(path: str, content: str) -> Deed:
    """Return the writing of a file."""
    return Deed("write", {"path": path, "content": content}, "", seconds=0.1)


def find(pattern: str, path: str, output: str) -> Deed:
    """Return a search in files."""
    return Deed("find", {"pattern": pattern, "path": path}, output, seconds=0.2)
