"""Capture: writes judged generation calls to files, on a thread, to be replayed."""

from __future__ import annotations

import logging
import os
import re
import time
from array import array
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from hashlib import blake2b
from pathlib import Path
from threading import Event, Thread
from typing import NamedTuple

import msgspec

from looptrap.detect.canonical import join
from looptrap.detect.redacted_message import Redactor
from looptrap.dialect.agent import agent_session_of
from looptrap.dialect.captured import (
    HISTORIES,
    VERSION,
    AnswerLine,
    CapturedVerdict,
    Form,
    Line,
    RecentRuns,
)
from looptrap.dialect.model import AnsweredTurn, Call, Message
from looptrap.engine import RequestIds
from looptrap.errors import ConfigError, Problem
from looptrap.gateway.tls import os_error_text
from looptrap.policy.verdict import ALLOWED, Verdict

MAX_FILE_BYTES = 64 << 20
MIN_FILES = 4
"""A file has at most this part of the limit, where that is less."""

_CAPTURE_FILE = re.compile(r"looptrap-\d{8}T\d{6}\.\d{6}Z-\d+\.jsonl")
_NEW_FILE_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC


class CaptureFolder:
    """Writes lines into files of its own, and deletes the oldest files beyond a limit."""

    def __init__(self, path: str | Path, limit: int, clock: Callable[[], float]) -> None:
        self._path = Path(path)
        self._limit = limit
        self._clock = clock
        self._share = min(MAX_FILE_BYTES, limit // MIN_FILES)
        self._descriptor: int | None = None
        self._file = Path()
        self._size = 0

    def make(self) -> None:
        """Make the folder if it is missing; raise ConfigError if it cannot be written to."""
        try:
            self._path.mkdir(mode=0o700, parents=True, exist_ok=True)
            if not os.access(self._path, os.W_OK | os.X_OK):
                raise PermissionError(None, "permission denied")
        except OSError as error:
            message = f"{self._path}: cannot write there: {os_error_text(error)}"
            raise ConfigError([Problem("gateway.capture_dir", message)]) from None

    @property
    def room(self) -> int:
        """The bytes that the file can take; the last line may take more."""
        return self._share - self._size

    def is_at_end(self) -> bool:
        """Return whether the next line needs a new file: this one is full, or deleted."""
        if self._descriptor is None or self.room <= 0:
            return True
        return not os.fstat(self._descriptor).st_nlink

    def open(self) -> None:
        """Open a new file, after making room for it; raises OSError."""
        self.close()
        self._path.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._make_room()
        when = datetime.fromtimestamp(self._clock(), UTC)
        while self._descriptor is None:
            self._file = self._path / f"looptrap-{when:%Y%m%dT%H%M%S.%fZ}-{os.getpid()}.jsonl"
            try:
                # Never readable for others, not even before the first byte.
                self._descriptor = os.open(self._file, _NEW_FILE_FLAGS, 0o600)
            except FileExistsError:
                when += timedelta(microseconds=1)

    def write(self, lines: bytes) -> None:
        """Append complete lines; after an OSError, the file is closed as it was before."""
        assert self._descriptor is not None  # opened before
        left = memoryview(lines)
        try:
            while left:
                left = left[os.write(self._descriptor, left) :]
        except OSError:
            self._undo_write()
            raise
        self._size += len(lines)

    def close(self) -> None:
        """Close the file; the next line needs another."""
        if self._descriptor is not None:
            os.close(self._descriptor)
        self._descriptor, self._size = None, 0

    def _undo_write(self) -> None:
        """Leave neither a part of a line nor an empty file."""
        with suppress(OSError):
            if self._size and self._descriptor is not None:
                os.ftruncate(self._descriptor, self._size)
            else:
                self._file.unlink()
        self.close()

    def _make_room(self) -> None:
        """Delete the oldest of our files until one more fits."""
        files = sorted(file for file in self._path.iterdir() if _CAPTURE_FILE.fullmatch(file.name))
        sizes = {}
        for file in files:
            with suppress(FileNotFoundError):
                sizes[file] = file.stat().st_size
        total = sum(sizes.values())
        for file, size in sizes.items():
            if total <= self._limit - self._share:
                break
            file.unlink(missing_ok=True)
            total -= size


_encode = msgspec.json.Encoder().encode


class _LastLine(msgspec.Struct, frozen=True, gc=False):
    """The last line of a run: enough to find what the next one repeats."""

    messages: array[int]
    sizes: array[int]
    """The bytes of each message in the file."""
    tools: tuple[str, ...]


class CaptureEncoder:
    """Encodes calls as lines; a line refers to the ones before it, until `start_over`."""

    def __init__(self, form: Form, secret: bytes) -> None:
        self._form: Form = form
        self._redactor = Redactor(secret)
        self._digest = blake2b(digest_size=8, key=secret[:64], person=b"lt-capture")
        self._runs: RecentRuns[_LastLine] = RecentRuns()

    def start_over(self) -> None:
        """Refer to no earlier line: the next one is in another file."""
        self._runs.clear()

    def line(self, call: Call, verdict: Verdict, now: float, id: str = "") -> bytes:
        """Return a call as a line, with its line end; with an `id`, `answer_line` is to follow."""
        request, run = call.request, self._run(call)
        # Messages are compared by hashes of this process, which are never written.
        hashes = array("q", [hash(bytes(raw)) for raw in call.raws])
        before = self._runs.find(run, now)
        kept = _common_prefix_length(before.messages, hashes) if before is not None else 0
        messages = list(self._messages(call, kept))
        sizes = before.sizes[:kept] if before is not None else array("q")
        sizes.extend(memoryview(raw).nbytes for raw in messages)
        self._runs.keep(run, now, sum(sizes), _LastLine(hashes, sizes, call.tools))
        line = Line(
            looptrap=VERSION,
            t=now,
            run=run,
            kept=kept,
            form=self._form,
            dialect=call.dialect,
            path=request.path,
            model=call.model,
            stream=call.stream,
            caller=self.caller_name(request.caller),
            project=request.project,
            session=self._redact("session", request.session),
            user=self._redact("user", call.user),
            chain=self._chain(call.chain),
            progress=self._redact("progress", request.progress),
            retry=request.is_retry,
            tools=None if before is not None and before.tools == call.tools else call.tools,
            verdict=_verdict_entry(verdict),
            messages=messages,
            call=id,
            keeps_history=call.keeps_history,
            agent_session=self._redact(
                "session", "" if request.session else agent_session_of(call)
            ),
            rest=len(request.body) - call.message_bytes(0),
        )
        return _encode(line) + b"\n"

    def answer_line(self, id: str, turn: AnsweredTurn | None, now: float) -> bytes:
        """Return when a call was answered as a line, with its line end."""
        line = AnswerLine(looptrap=VERSION, answers=id, t=now)
        if turn is not None:
            line.response = self._chain(turn.response_id)
            line.conversation = self._chain(turn.conversation)
            is_sent = self._form == "content"
            line.calls = [one if is_sent else self._redactor.call(one) for one in turn.calls]
        return _encode(line) + b"\n"

    def caller_name(self, caller: str) -> str:
        """Return the name of a caller in lines: a digest, whatever the form."""
        return self._name("caller", caller)

    def _messages(self, call: Call, kept: int) -> Iterator[msgspec.Raw]:
        new, read = call.raws[kept:], call.read
        if self._form == "content":
            yield from map(_on_one_line, new)
        elif read is not None:
            sized = ((read(raw), memoryview(raw).nbytes) for raw in new)
            for stand_in in self._redactor.of(sized):
                yield msgspec.Raw(_encode(stand_in))

    def _run(self, call: Call) -> str:
        """Return the id of the call's run: by its session, else by its first messages."""
        request = call.request
        if request.session:
            return self._name("session", request.caller, request.session)
        opening = [f"{one.role} {one.text}" for one in _opening_messages(call)]
        return self._name("beginning", request.caller, call.model, *opening)

    def _chain(self, chain: str) -> str:
        """Return the id of a kept history, or a digest of it that begins as the id does."""
        name = self._redact("chain", chain)
        return f"resp{name}" if name != chain and chain.startswith("resp") else name

    def _redact(self, what: str, text: str) -> str:
        """Return a text of the client, or a digest of it."""
        return text if self._form == "content" else self._name(what, text)

    def _name(self, what: str, *texts: str) -> str:
        if not any(texts):
            return ""
        named = self._digest.copy()
        named.update(join([what, *texts]))
        return named.hexdigest()


def _opening_messages(call: Call) -> Iterator[Message]:
    if call.read is not None:
        for message in map(call.read, call.raws):
            yield message
            if message.role == "user":
                return


def _common_prefix_length(before: array[int], now: array[int]) -> int:
    length = min(len(before), len(now))
    if before[:length] == now[:length]:
        return length
    return next(i for i in range(length) if before[i] != now[i])


def _on_one_line(raw: msgspec.Raw) -> msgspec.Raw:
    """Return a message without line ends between its fields; JSON texts have none."""
    text = bytes(raw)
    if b"\n" in text or b"\r" in text:
        return msgspec.Raw(msgspec.json.format(text, indent=-1))
    return raw


def _verdict_entry(verdict: Verdict) -> CapturedVerdict | None:
    if verdict is ALLOWED:
        return None
    signal = verdict.evidence[0].signal if verdict.evidence else ""
    return CapturedVerdict(verdict.action.value, verdict.rule, signal)


MAX_WAITING_CALLS = 10_000
MAX_WAITING_BYTES = 64 << 20
"""Calls, and bytes of their bodies, that wait to be written; one more is not captured."""

POLL_INTERVAL_S = 0.1
"""Seconds between two looks for calls."""

BURST_S, REST_S = 0.001, 0.002
"""Seconds of work at a time, and of rest after it: the gateway's own thread cannot run meanwhile,
and to switch line by line would cost more than the work does."""

RETRY_PAUSE_S = 1.0
"""Seconds until the next try, and the next log line, after an error."""

STOP_TIMEOUT_S = 10.0
"""Seconds to write what waits when the gateway stops."""

log = logging.getLogger("looptrap")


class _JudgedCall(NamedTuple):
    id: str
    call: Call
    verdict: Verdict
    now: float


class _AnsweredCall(NamedTuple):
    id: str
    turn: AnsweredTurn | None
    now: float


class Capture:
    """Writes calls and their verdicts; no error of capturing affects a call."""

    def __init__(
        self,
        form: Form,
        path: str | Path,
        *,
        limit: int,
        secret: bytes,
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.written = 0
        self.overflowed = 0
        """Calls for which the queue was full."""
        self.failed = 0
        """Calls that could not be written."""
        self._folder = CaptureFolder(path, limit, clock)
        self._form: Form = form
        self._encoder = CaptureEncoder(form, secret)
        self._monotonic = monotonic
        self._waiting: deque[_JudgedCall | _AnsweredCall] = deque()
        self._ids = RequestIds()
        # Two counters with one writer each need no lock; their difference is waiting.
        self._bytes_added = self._bytes_taken = 0
        self._not_before = 0.0
        self._stopping = Event()
        self._thread: Thread | None = None

    def start(self) -> None:
        """Make the folder and begin to write; raise ConfigError if that is not possible."""
        self._folder.make()
        self._thread = Thread(target=self._run, name="looptrap-capture", daemon=True)
        self._thread.start()

    def add(self, call: Call, verdict: Verdict, now: float) -> str:
        """Queue a call that was judged; return its id, empty if it is not captured."""
        if not call.generates or call.dialect not in HISTORIES:
            return ""
        size = len(call.request.body)
        held = self._bytes_added - self._bytes_taken
        if held + size > MAX_WAITING_BYTES or len(self._waiting) >= MAX_WAITING_CALLS:
            self.overflowed += 1
            return ""
        self._bytes_added += size
        id = self._ids.new().decode()
        self._waiting.append(_JudgedCall(id, call, verdict, now))
        return id

    def add_answer(self, id: str, turn: AnsweredTurn | None, now: float) -> None:
        """Queue that a call was answered, or failed; `turn` is what a later call can continue."""
        self._waiting.append(_AnsweredCall(id, turn, now))

    def rekey(self, secret: bytes) -> None:
        """Make digests with another secret; no line refers to one with the old secret."""
        self._encoder = CaptureEncoder(self._form, secret)

    def caller_name(self, caller: str) -> str:
        """Return the name of a caller in lines."""
        return self._encoder.caller_name(caller)

    def stop(self) -> None:
        """Write what waits, and end."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join(STOP_TIMEOUT_S)

    def _run(self) -> None:
        while not self._stopping.wait(POLL_INTERVAL_S):
            while self._waiting and not self._stopping.wait(REST_S):
                self._write_some()
        while self._waiting:
            self._write_some()
        self._folder.close()

    def _write_some(self) -> None:
        """Write what waits, for at most one burst, into one file."""
        began, taken, written = self._monotonic(), 0, 0
        lines: list[bytes] = []
        try:
            if began >= self._not_before and self._folder.is_at_end():
                self._folder.open()
                self._encoder.start_over()
            until, room = self._monotonic() + BURST_S, self._folder.room
            while self._waiting and room > 0 and (not taken or self._monotonic() < until):
                item = self._waiting.popleft()
                if isinstance(item, _JudgedCall):
                    self._bytes_taken += len(item.call.request.body)
                    taken += 1
                if began >= self._not_before:
                    lines.append(self._line(item))
                    written += isinstance(item, _JudgedCall)
                    room -= len(lines[-1])
            if lines:
                self._folder.write(b"".join(lines))
            self.written += written
            self.failed += taken - written
        except Exception as error:  # noqa: BLE001 - a call that cannot be written is no outage
            self.failed += taken
            self._folder.close()
            self._not_before = began + RETRY_PAUSE_S
            log.error("calls are not captured: %s", _error_text(error))

    def _line(self, item: _JudgedCall | _AnsweredCall) -> bytes:
        if isinstance(item, _AnsweredCall):
            return self._encoder.answer_line(item.id, item.turn, item.now)
        return self._encoder.line(item.call, item.verdict, item.now, item.id)


def _error_text(error: Exception) -> str:
    """Return the text of an error, without any content of a call."""
    return (isinstance(error, OSError) and error.strerror) or type(error).__name__
