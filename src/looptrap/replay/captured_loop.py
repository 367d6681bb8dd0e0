"""The captured history of a loop: what its client sent, where content is captured."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec

from looptrap.detect.fingerprint import derived_session_of
from looptrap.detect.trajectory import Trajectory
from looptrap.dialect.captured import Line
from looptrap.errors import CallError
from looptrap.replay.capture import (
    CapturedRun,
    capture_files,
    is_captured,
    is_captured_answer,
    read_captured_line,
)
from looptrap.replay.recorded_run import iter_lines

MAX_ROUNDS = 4
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
    try:
        for text in (line.text for line in iter_lines(path) if line.text is not None):
            if not is_captured(text) or is_captured_answer(text):
                continue
            line = read_captured_line(text)
            if line.form != "content" or line.t > question.until:
                continue
            if line.run not in is_ours:
                is_ours[line.run] = _is_of_session(line, question, secret)
            if is_ours[line.run]:
                yield line
    except (OSError, CallError):
        return  # deleted meanwhile, or written by a later version


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
        rounds=list(dict.fromkeys(rounds))[:MAX_ROUNDS],
        text=text.decode("utf-8", "replace"),
    )


def _short(text: str) -> str:
    return text if len(text) <= MAX_TEXT_CHARS else f"{text[: MAX_TEXT_CHARS - 1]}…"
