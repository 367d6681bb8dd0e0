"""Surveys: what the files of a capture hold, before any of it is judged."""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from pathlib import Path

import msgspec

from looptrap.call.captured import Form
from looptrap.call.content import UNREADABLE
from looptrap.replay.capture import is_captured
from looptrap.replay.file import lines

FILES = "looptrap-*.jsonl"
"""What the files of a capture are called."""


class _Head(msgspec.Struct, gc=False):
    t: float
    form: Form
    project: str = ""


_decode = msgspec.json.Decoder(_Head).decode


class Survey:
    """The latest calls of a folder, no more than `limit` of them and none before `since`."""

    def __init__(self, folder: Path, *, since: float = 0.0, limit: int) -> None:
        self.files: list[Path] = []
        """Where they are, in the order of time."""
        self.is_cut = False
        """Whether there are more than these."""
        self.projects: set[str] = set()
        self.forms: set[str] = set()
        self.since = since
        """None of them came before."""
        self._times: array[float] = array("d")
        for path in reversed(captures(folder)):
            if len(self._times) > limit:
                self.is_cut = True
                break
            self._take(path)
        self._cut(limit)

    @property
    def calls(self) -> int:
        """How many there are."""
        return len(self._times)

    @property
    def began(self) -> float:
        """When the first of them came."""
        return min(self._times)

    @property
    def ended(self) -> float:
        """When the last of them came."""
        return max(self._times)

    def _take(self, path: Path) -> None:
        before = len(self._times)
        for head in _heads(path):
            if head.t < self.since:
                self.is_cut = True
                continue
            self._times.append(head.t)
            self.forms.add(head.form)
            if head.project:
                self.projects.add(head.project)
        if len(self._times) > before:
            self.files.insert(0, path)

    def _cut(self, limit: int) -> None:
        if len(self._times) > limit:
            self._times = array("d", sorted(self._times)[-limit:])
            self.since, self.is_cut = self._times[0], True


def captures(folder: Path) -> list[Path]:
    """Return the files of a capture, in the order of time; none where there is no such folder."""
    return sorted(folder.glob(FILES))


def _heads(path: Path) -> Iterable[_Head]:
    try:
        for line in lines(path):
            if line.text is not None and is_captured(line.text):
                try:
                    yield _decode(line.text)
                except UNREADABLE:
                    continue
    except OSError:
        return  # gone meanwhile, to make room
