"""Captured calls, played as they came: one guard, their own callers, sessions and times."""

from __future__ import annotations

import re
from array import array
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import msgspec

from looptrap.detect.redacted_message import original_size, read_redacted
from looptrap.dialect.captured import HISTORIES, Form, Line, RecentRuns, call_of
from looptrap.dialect.content import UNREADABLE
from looptrap.dialect.dialect import History
from looptrap.dialect.model import Call
from looptrap.engine import Guard
from looptrap.errors import CallError
from looptrap.policy.policy import Policy, Project
from looptrap.replay.judge import RunResult, RunVerdicts, ToolRules, replay_guard
from looptrap.replay.recorded_run import iter_lines

is_captured = re.compile(rb'\s*\{\s*"looptrap"\s*:').match
"""Say whether a line is a captured call."""

_decode = msgspec.json.Decoder(Line).decode


class CapturedRun:
    """One run of a capture: its latest messages, and what was decided about its calls so far."""

    __slots__ = (
        "_saved_bytes",
        "_saved_calls",
        "_sizes",
        "_verdicts",
        "began",
        "id",
        "is_over",
        "model",
        "project",
        "raws",
        "tools",
    )

    def __init__(self, name: str) -> None:
        self.id = name
        self.began = 0.0
        """When its first call came that was judged; the model and project are that call's."""
        self.model = self.project = ""
        self.raws: list[msgspec.Raw] = []
        self.tools: tuple[str, ...] = ()
        self.is_over = False
        self._sizes: list[int] = []
        self._verdicts = RunVerdicts()
        self._saved_calls = self._saved_bytes = 0

    def add_line(self, line: Line) -> None:
        """Take the messages and tools of the run's next line."""
        if line.kept > len(self.raws):
            raise CallError(f"leans on {line.kept} messages of a line that is not there")
        is_sent = line.form == "content"
        # Copied: a message must not keep its whole line in memory.
        self.raws[line.kept :] = [raw.copy() for raw in line.messages]
        self._sizes[line.kept :] = [
            memoryview(raw).nbytes if is_sent else original_size(raw) for raw in line.messages
        ]
        if line.tools is not None:
            self.tools = line.tools

    def call(self, line: Line) -> Call:
        """Return the call of the line that was just taken; good until the next is."""
        history = HISTORIES[line.dialect]
        if line.form == "digests":
            history = History(read_redacted, scattered=history.scattered)
        return call_of(line, self.raws, self.tools, history)

    @property
    def calls(self) -> int:
        """How many calls were judged so far."""
        return self._verdicts.calls

    def play(self, line: Line, guard: Guard, now: float) -> None:
        """Judge the call of the line that was just taken."""
        if not self.calls:
            self.began, self.model, self.project = line.t, line.model, line.project
        self._verdicts.add(guard.admit(self.call(line), now).verdict)
        if self._verdicts.worst.action.refuses:
            self._saved_calls += 1
            self._saved_bytes += sum(self._sizes)

    def end(self) -> None:
        """Let go of the messages: nothing more of this run will come."""
        self.is_over = True
        self.raws, self._sizes = [], []

    def result(self) -> RunResult:
        """Return what became of the run."""
        return self._verdicts.result(
            self.id,
            calls=self.calls,
            saved_calls=self._saved_calls,
            saved_bytes=self._saved_bytes,
        )


class CaptureReplayer:
    """Plays the lines of captures in the order they come; runs are told in that of their first."""

    def __init__(
        self,
        policies: Sequence[Policy],
        tools: ToolRules | None = None,
        projects: Sequence[Project] = (),
        *,
        since: float = 0.0,
    ) -> None:
        """What was captured before `since` is read, as later calls lean on it, but not judged."""
        self._since = since
        self._guard = replay_guard(policies, tools, projects)
        self.now = 0.0
        """When the latest call came that was read."""
        self._open: RecentRuns[CapturedRun] = RecentRuns(CapturedRun.end)
        self._unreported: deque[CapturedRun] = deque()

    def play(self, text: bytes) -> None:
        """Judge one captured call; raises CallError for what is none."""
        line = read_captured_line(text)
        run = self._open.find(line.run, line.t)
        is_new = run is None
        if run is None:
            run = CapturedRun(line.run)
        run.add_line(line)
        if is_new:
            self._unreported.append(run)
        self.now = max(self.now, line.t)  # several processes may have written at once
        if line.t >= self._since:
            run.play(line, self._guard, self.now)
        size = sum(memoryview(raw).nbytes for raw in run.raws)
        self._open.keep(line.run, line.t, size, run)

    def finished_results(self) -> Iterator[RunResult]:
        """Yield the runs that are over, up to the first that is not."""
        return (run.result() for run in self.finished_runs())

    def finished_runs(self) -> Iterator[CapturedRun]:
        """Yield the same runs as they are; those without a call that was judged are passed over."""
        while self._unreported and self._unreported[0].is_over:
            run = self._unreported.popleft()
            if run.calls:
                yield run

    def end(self) -> None:
        """End all runs: nothing more will come."""
        self._open.clear()

    def finish(self) -> Iterator[RunResult]:
        """End all runs, and yield them."""
        self.end()
        return self.finished_results()


def read_captured_line(text: bytes) -> Line:
    """Read a captured call; raises CallError for what is none."""
    try:
        line = _decode(text)
    except UNREADABLE as error:
        raise CallError(str(error)) from error
    if line.dialect not in HISTORIES:
        raise CallError(f"is of dialect {line.dialect}, which is not captured")
    if line.kept < 0:
        raise CallError(f"leans on {line.kept} messages")
    return line


CAPTURE_GLOB = "looptrap-*.jsonl"
"""What the files of a capture are called."""


class _Head(msgspec.Struct, gc=False):
    t: float
    form: Form
    project: str = ""


_decode_head = msgspec.json.Decoder(_Head).decode


class CaptureSurvey:
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
        for path in reversed(capture_files(folder)):
            if len(self._times) > limit:
                self.is_cut = True
                break
            self._add_file(path)
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

    def _add_file(self, path: Path) -> None:
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


def capture_files(folder: Path) -> list[Path]:
    """Return the files of a capture, in the order of time; none where there is no such folder."""
    return sorted(folder.glob(CAPTURE_GLOB))


def _heads(path: Path) -> Iterable[_Head]:
    try:
        for line in iter_lines(path):
            if line.text is not None and is_captured(line.text):
                try:
                    yield _decode_head(line.text)
                except UNREADABLE:
                    continue
    except OSError:
        return  # gone meanwhile, to make room
