"""Captures: their calls replayed in order by one guard, and the captured loop of an incident."""

from __future__ import annotations

import re
from array import array
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import msgspec

from looptrap.detect.fingerprint import derived_session_of
from looptrap.detect.redacted_message import original_size, read_redacted
from looptrap.detect.trajectory import Trajectory
from looptrap.dialect.captured import (
    HISTORIES,
    AnswerLine,
    Form,
    Line,
    RecentRuns,
    call_of,
)
from looptrap.dialect.content import UNREADABLE
from looptrap.dialect.dialect import History
from looptrap.dialect.model import Call
from looptrap.engine import Guard, Ticket, Transaction
from looptrap.errors import CallError
from looptrap.replay.judge import RunResult, RunVerdicts, replay_guard
from looptrap.replay.recorded_run import iter_lines
from looptrap.replay.ruleset import Ruleset

is_captured = re.compile(rb'\s*\{\s*"looptrap"\s*:').match
"""Matches a line that is a captured call."""

is_captured_answer = re.compile(rb'\s*\{\s*"looptrap"\s*:\s*\d+\s*,\s*"answers"\s*:').match
"""Matches a line that tells when a captured call was answered."""

_decode = msgspec.json.Decoder(Line).decode
_decode_answer = msgspec.json.Decoder(AnswerLine).decode


class CapturedRun:
    """One run of a capture: its latest messages, and the verdicts on its calls so far."""

    def __init__(self, name: str) -> None:
        self.id = name
        self.began = 0.0
        """The time of its first judged call; model and project are that call's."""
        self.model = self.project = ""
        self.raws: list[msgspec.Raw] = []
        self.tools: tuple[str, ...] = ()
        self.is_over = False
        self._sizes: list[int] = []
        self._verdicts = RunVerdicts()
        self._saved_calls = self._saved_bytes = 0

    def add_line(self, line: Line) -> None:
        """Add the messages and tools of the run's next line."""
        if line.kept > len(self.raws):
            raise CallError(f"needs {line.kept} messages of an earlier line, which is missing")
        is_sent = line.form == "content"
        # Copied: a message must not keep its whole line in memory.
        self.raws[line.kept :] = [raw.copy() for raw in line.messages]
        self._sizes[line.kept :] = [
            memoryview(raw).nbytes if is_sent else original_size(raw) for raw in line.messages
        ]
        if line.tools is not None:
            self.tools = line.tools

    def call(self, line: Line) -> Call:
        """Return the call of the line that was just added."""
        history = HISTORIES[line.dialect]
        if line.form == "digests":
            history = History(read_redacted, has_split_turns=history.has_split_turns)
        # Copied: an answer comes after later lines of the run.
        return call_of(line, self.raws[:], self._sizes[:], self.tools, history)

    @property
    def calls(self) -> int:
        """The number of calls judged so far."""
        return self._verdicts.calls

    def play(self, line: Line, guard: Guard, now: float) -> Ticket:
        """Judge the call of the line that was just added."""
        if not self.calls:
            self.began, self.model, self.project = line.t, line.model, line.project
        ticket = guard.begin(Transaction(guard, self.call(line)), now).ticket
        self._verdicts.add(ticket.verdict)
        if self._verdicts.worst.action.refuses:
            self._saved_calls += 1
            self._saved_bytes += sum(self._sizes)
        return ticket

    def end(self) -> None:
        """Free the messages: no more lines of this run will come."""
        self.is_over = True
        self.raws, self._sizes = [], []

    def result(self) -> RunResult:
        """Return the result of the run."""
        saved_calls, saved_bytes = self._saved_calls, self._saved_bytes
        return self._verdicts.result(
            self.id, calls=self.calls, saved_calls=saved_calls, saved_bytes=saved_bytes
        )


class CaptureReplayer:
    """Replays the lines of captures in order; results come in that of the runs' first calls."""

    def __init__(self, rules: Ruleset, *, since: float = 0.0) -> None:
        """Lines before `since` are read, since later ones need them, but not judged."""
        self._since = since
        self._guard = replay_guard(rules)
        self.now = 0.0
        """The time of the latest call that was read."""
        self._open: RecentRuns[CapturedRun] = RecentRuns(CapturedRun.end)
        self._unreported: deque[CapturedRun] = deque()
        self._unanswered: RecentRuns[Ticket] = RecentRuns()
        """Calls whose answers are still to come, by their ids."""

    def play(self, text: bytes) -> None:
        """Judge one captured call, or note the answer to one; raises CallError for another line."""
        if is_captured_answer(text):
            self._play_answer(text)
            return
        line = read_captured_line(text)
        run = self._open.find(line.run, line.t)
        is_new = run is None
        if run is None:
            run = CapturedRun(line.run)
        run.add_line(line)
        if is_new:
            self._unreported.append(run)
        self.now = max(self.now, line.t)  # several processes may write the same capture
        size = sum(memoryview(raw).nbytes for raw in run.raws)
        if line.t >= self._since:
            ticket = run.play(line, self._guard, self.now)
            if line.call:
                self._unanswered.keep(line.call, line.t, size, ticket)
            if not line.call or ticket.verdict.action.refuses:
                self._guard.answer(ticket, self.now)
        self._open.keep(line.run, line.t, size, run)

    def _play_answer(self, text: bytes) -> None:
        """Note the answer to a call; of a call that was not judged, there is nothing to note."""
        try:
            line = _decode_answer(text)
        except UNREADABLE as error:
            raise CallError(str(error)) from error
        self.now = max(self.now, line.t)
        ticket = self._unanswered.take(line.answers)
        if ticket is not None:
            self._guard.answer(ticket, self.now, line.turn())

    def finished_runs(self) -> Iterator[CapturedRun]:
        """Yield the finished runs of which calls were judged, up to the first that is not over."""
        while self._unreported and self._unreported[0].is_over:
            run = self._unreported.popleft()
            if run.calls:
                yield run

    def finish(self) -> Iterator[CapturedRun]:
        """End all runs, since no more lines will come, and yield those not yielded before."""
        self._open.clear()
        return self.finished_runs()


def read_captured_line(text: bytes) -> Line:
    """Read a captured call; raises CallError for another line."""
    try:
        line = _decode(text)
    except UNREADABLE as error:
        raise CallError(str(error)) from error
    if line.dialect not in HISTORIES:
        raise CallError(f"is of dialect {line.dialect}, which is not captured")
    if line.kept < 0:
        raise CallError(f"needs {line.kept} messages of an earlier line, must be 0 or more")
    return line


CAPTURE_GLOB = "looptrap-*.jsonl"
"""The names of capture files."""


class _Head(msgspec.Struct, gc=False):
    t: float
    form: Form
    project: str = ""


_decode_head = msgspec.json.Decoder(_Head).decode


class CaptureSurvey:
    """The latest calls in a folder, at most `limit` and none before `since`."""

    def __init__(self, folder: Path, *, since: float = 0.0, limit: int) -> None:
        self.files: list[Path] = []
        """Their files, in the order of time."""
        self.is_cut = False
        """Whether there are more calls than these."""
        self.projects: set[str] = set()
        self.forms: set[str] = set()
        self.since = since
        times: array[float] = array("d")
        for path in reversed(capture_files(folder)):
            if len(times) > limit:
                break
            of_file = self._read_times(path)
            times.extend(of_file)
            if of_file:
                self.files.insert(0, path)
        if len(times) > limit:
            times = array("d", sorted(times)[-limit:])
            self.since, self.is_cut = times[0], True
        self.calls = len(times)
        self.began, self.ended = min(times, default=0.0), max(times, default=0.0)
        """The times of the first and the last call."""

    def _read_times(self, path: Path) -> list[float]:
        """Return the times of a file's calls, and note their forms and projects."""
        times = []
        for head in _heads(path):
            if head.t < self.since:
                self.is_cut = True
                continue
            times.append(head.t)
            self.forms.add(head.form)
            if head.project:
                self.projects.add(head.project)
        return times


def capture_files(folder: Path) -> list[Path]:
    """Return the files of a capture, in the order of time; none where the folder is missing."""
    return sorted(folder.glob(CAPTURE_GLOB))


def _heads(path: Path) -> Iterator[_Head]:
    for text in _captured_calls(path):
        with suppress(*UNREADABLE):
            yield _decode_head(text)


def _captured_calls(path: Path) -> Iterator[bytes]:
    """Yield the lines of a file that are captured calls."""
    try:
        for line in iter_lines(path):
            text = line.text
            if text is not None and is_captured(text) and not is_captured_answer(text):
                yield text
    except OSError:
        return  # deleted meanwhile, to make room


MAX_LISTED_ROUNDS = 4
"""Distinct rounds that are returned."""

MAX_TEXT_CHARS = 2_000
"""Characters of arguments and of a result."""

MAX_TRANSCRIPT_BYTES = 2 << 20
"""Bytes of a transcript; of a longer one, the latest call alone is returned."""


class CapturedLoopRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Where to look for the calls of an incident, and how to recognise them."""

    folder: str
    session: str
    caller: str
    """As captures name it."""
    secret: str
    """In hex: sessions that no client named are derived with it."""
    until: float
    rounds: int
    """How many of the latest rounds belong to the loop."""


class CapturedRound(msgspec.Struct, frozen=True, gc=False):
    """One round of a loop, as it was sent."""

    calls: str
    result: str
    is_error: bool


class CapturedLoop(msgspec.Struct, frozen=True, kw_only=True):
    """The rounds that repeat, the latest first, and the calls as `try` reads them."""

    calls: int = 0
    rounds: list[CapturedRound] = []
    text: str = ""


def find_loop(question: CapturedLoopRequest) -> CapturedLoop:
    """Return the latest captured calls of a session; nothing if there are none."""
    for path in reversed(capture_files(Path(question.folder))):
        lines = list(_lines_of_session(path, question))
        if lines:
            return _loop(lines, question.rounds)
    return CapturedLoop()


def _lines_of_session(path: Path, question: CapturedLoopRequest) -> Iterator[Line]:
    """Yield the calls of a session in one file; no line refers to another file."""
    secret = bytes.fromhex(question.secret)
    is_ours: dict[str, bool] = {}
    with suppress(CallError):  # written by a later version
        for line in map(read_captured_line, _captured_calls(path)):
            if line.form != "content" or line.t > question.until:
                continue
            if line.run not in is_ours:
                is_ours[line.run] = _is_of_session(line, question, secret)
            if is_ours[line.run]:
                yield line


def _is_of_session(line: Line, question: CapturedLoopRequest, secret: bytes) -> bool:
    if line.caller != question.caller:
        return False
    if line.session:
        return line.session == question.session
    run = CapturedRun(line.run)
    try:
        run.add_line(line)
    except CallError:
        return False  # its beginning is missing
    return derived_session_of(run.call(line), secret) == question.session


def _loop(lines: list[Line], number: int) -> CapturedLoop:
    run = CapturedRun(lines[-1].run)
    mine = [line for line in lines if line.run == run.id]
    for line in mine:
        run.add_line(line)
    last = mine[-1]
    text = b"\n".join(map(msgspec.json.encode, mine))
    if len(text) > MAX_TRANSCRIPT_BYTES:
        alone = msgspec.structs.replace(last, kept=0, messages=run.raws, tools=run.tools)
        text = msgspec.json.encode(alone)
    rounds = [
        CapturedRound(
            _short(", ".join(f"{call.name}({call.arguments})" for call in one.calls) or one.text),
            _short(one.result) if one.calls else "",
            one.failure is not None,
        )
        for one in Trajectory(run.call(last), number).latest(number)
    ]
    return CapturedLoop(
        calls=len(mine),
        rounds=list(dict.fromkeys(rounds))[:MAX_LISTED_ROUNDS],
        text=text.decode("utf-8", "replace"),
    )


def _short(text: str) -> str:
    return text if len(text) <= MAX_TEXT_CHARS else f"{text[: MAX_TEXT_CHARS - 1]}…"
