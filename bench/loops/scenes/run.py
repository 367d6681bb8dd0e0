"""A run in neutral form: what the agent says and does in each turn, and what comes back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Act:
    """A tool call and its result.

    `shell`, `read`, `edit`, `write` and `grep` are named by each coding agent in its own way.
    """

    name: str
    args: Mapping[str, Any]
    result: str
    code: int = 0
    """The exit code of a command; any but 0 marks a failure."""
    took: float = 0.4
    image: str = ""
    """What a screen shows, for tools that return a picture: equal texts give equal pictures."""


@dataclass(frozen=True, slots=True)
class Turn:
    """One answer of the model, and what follows it before the next request."""

    say: str
    acts: tuple[Act, ...] = ()
    reply: str = ""
    """What a user, an application or a harness says next."""
    wait: float = 1.0
    takes: float = 4.0
    speaker: str = ""
    """In a group chat: which agent spoke."""
    says_as: str = ""
    """In a group chat: which agent says `reply`."""
    system: str = ""
    """In a team: what this agent is told, instead of the system prompt of the run."""
    lost: bool = False
    """The answer never came: the same request is sent again."""


@dataclass(frozen=True, slots=True)
class Run:
    """A task, the turns that follow, and for a loop the turn from which nothing new happens."""

    task: str
    turns: Sequence[Turn]
    begins: int | None = None
    system: str = ""
    """What the agent is told it is, where the form leaves that open."""
    difficulty: str = "medium"
    summaries: Sequence[str] = ()
    """What a compaction keeps of the run: one for each."""
    view: str = ""
    """How much of its history requests show, where the run itself decides."""
    every: int = 0
    """After so many turns a history is compacted; 0 leaves it to the form."""
    apart: float | None = None
    """Seconds from request to request, where they do not wait for answers."""
    extra: Mapping[str, Any] = field(default_factory=dict)
    """More fields of the body, as `temperature`."""


def shell(command: str, output: str, code: int = 0, took: float = 1.2) -> Act:
    """Run a command."""
    return Act("shell", {"command": command}, output, code, took)


def read(path: str, text: str) -> Act:
    """Read a file."""
    return Act("read", {"path": path}, text)


def grep(pattern: str, path: str, hits: str) -> Act:
    """Search in files."""
    return Act("grep", {"pattern": pattern, "path": path}, hits)


def edit(path: str, old: str, new: str, error: str = "") -> Act:
    """Replace a text in a file; with `error`, it fails."""
    return Act("edit", {"path": path, "old": old, "new": new}, error, 1 if error else 0)


def write(path: str, content: str) -> Act:
    """Write a whole file."""
    return Act("write", {"path": path, "content": content}, "")
