"""Recorded runs: one line of JSON each, and the requests of which each was made."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import accumulate
from pathlib import Path
from typing import IO, Any, NamedTuple

import msgspec

from looptrap.dialect.body import read_body
from looptrap.dialect.content import UNREADABLE, decode_or_none, id_text, mend
from looptrap.dialect.model import Call, Message
from looptrap.errors import CallError

MAX_TIME_S = 1e12
"""Seconds since 1970; a later time is not a time."""

UNKNOWN_MODEL = "unknown"
"""The model of a run that names none."""

REPLAYABLE_DIALECTS = ("openai_chat", "anthropic")
"""Dialects in which each request carries the whole history, as a recorded run does."""

OPENAI_ONLY_ROLES = ["system", "developer", "tool", "function"]
"""Roles that Anthropic's messages do not have."""


class RunLabel(msgspec.Struct, frozen=True, gc=False):
    """A reader's label of a run."""

    label: str = ""
    """`loop` or `ok`; anything else is no label."""
    kind: str | None = None
    first_loop_step: int | None = None
    """The assistant turn, counted from 0, with which the loop began."""
    hard_negative: bool = False
    """Legitimate work that looks like a loop."""


class _Line(msgspec.Struct, gc=False):
    messages: list[msgspec.Raw]
    id: Any = None
    judged: RunLabel | None = None


class _MessageMeta(msgspec.Struct, gc=False):
    t: Any = None
    role: Any = None
    tool_calls: Any = None


_decode_line = msgspec.json.Decoder(_Line).decode
_decode_message_meta = msgspec.json.Decoder(_MessageMeta).decode


class RecordedRequest(NamedTuple):
    """One request of a run, its time, and the assistant's answer where it was recorded."""

    call: Call
    now: float
    answer: str = ""


class RecordedRun:
    """One recorded run: its messages, and the requests that made them."""

    def __init__(self, name: str, whole: Call, judged: RunLabel | None = None) -> None:
        self.id = name
        self.judged = judged
        self.whole = with_message_cache(whole)
        """The run as one request, its last answer included."""
        self.messages: list[Message] = self.whole.messages
        self.turns = [i for i, message in enumerate(self.messages) if message.role == "assistant"]
        """Indexes of the assistant's messages; each answers a request with all before it."""
        is_waiting = self.messages[-1].role in ("tool", "user")
        self.ends = [*self.turns, len(self.messages)] if is_waiting else self.turns
        """The number of messages of each request, including the one that would follow."""
        self._bytes_before = [0, *accumulate(len(bytes(raw)) for raw in whole.raws)]

    def request(self, end: int) -> Call:
        """Return the request that carried the first `end` messages."""
        return first_messages(self.whole, end)

    def requests(self, times: Sequence[float] | None = None) -> Iterator[RecordedRequest]:
        """Yield all requests, with their own times or others."""
        for end, now in zip(self.ends, times or self.times, strict=True):
            answer = self.messages[end].text if end < len(self.messages) else ""
            yield RecordedRequest(self.request(end), now, answer)

    def prompt_bytes(self, turn: int) -> int:
        """Return the bytes of the messages that the request for that turn carried."""
        return self._bytes_before[self.turns[turn]]

    def answer_bytes(self, turn: int) -> int:
        """Return the bytes of the assistant's message of that turn."""
        place = self.turns[turn]
        return self._bytes_before[place + 1] - self._bytes_before[place]

    @cached_property
    def _stamps(self) -> list[float | None]:
        """The time of each message, where it has one."""
        return [_time(raw) for raw in self.whole.raws]

    @property
    def is_timed(self) -> bool:
        """Whether any message has a time."""
        return any(stamp is not None for stamp in self._stamps)

    @cached_property
    def times(self) -> list[float]:
        """The time of each request, in seconds: as recorded, else one a second.

        It is the time of the request's last message, or else of its answer. Times never run
        backwards.
        """
        stamps, times = self._stamps, list[float]()
        for end in self.ends:
            stamp = stamps[end - 1] if end else None
            if stamp is None and end < len(stamps):
                stamp = stamps[end]
            if not times:
                times.append(stamp or 0.0)
            else:
                times.append(times[-1] + 1.0 if stamp is None else max(stamp, times[-1]))
        return times


def read_run(line: bytes, name: str) -> RecordedRun:
    """Read a run in OpenAI's or Anthropic's style; `name` is for a run without an id.

    Raises CallError for another line.
    """
    try:
        record, line = _decoded(line)
    except UNREADABLE as error:
        raise CallError(str(error)) from error
    if not record.messages:
        raise CallError("has no messages")
    is_openai = any(map(_is_openai, record.messages))
    whole = read_body(line, "/v1/chat/completions" if is_openai else None)
    if whole.dialect not in REPLAYABLE_DIALECTS or whole.is_opaque:
        raise CallError("is not written in OpenAI's or Anthropic's style")
    name = id_text(record.id) or name
    whole.model = whole.model or UNKNOWN_MODEL
    whole.request.caller = whole.request.session = name
    # No two requests of a run are equal, since each carries more messages. So rules that compare
    # bodies need none.
    whole.request.body, whole.request.lacks_body = b"", True
    return RecordedRun(name, whole, record.judged)


def _decoded(line: bytes) -> tuple[_Line, bytes]:
    """Return a decoded line, and the line itself as strict JSON."""
    try:
        return _decode_line(line), line
    except msgspec.ValidationError:
        raise
    except UNREADABLE:
        line = mend(line)
        return _decode_line(line), line


def with_message_cache(whole: Call) -> Call:
    """Return a call that decodes each message once, however many requests carry it."""
    read = whole.read
    assert read is not None  # every dialect that is replayed has one
    known = {id(raw): read(raw) for raw in whole.raws}

    def recall(raw: msgspec.Raw) -> Message:
        # By identity: requests of the run share its raws.
        return known.get(id(raw)) or read(raw)

    return msgspec.structs.replace(whole, read=recall)


def first_messages(whole: Call, number: int) -> Call:
    """Return a call with only the first messages of another."""
    return msgspec.structs.replace(whole, raws=whole.raws[:number], _messages=None, _tail=None)


def _is_openai(raw: msgspec.Raw) -> bool:
    """Return whether a message has what only OpenAI's have."""
    meta = _message_meta(raw)
    return meta.role in OPENAI_ONLY_ROLES or bool(meta.tool_calls)


def _time(raw: msgspec.Raw) -> float | None:
    stamp = _message_meta(raw).t
    is_time = isinstance(stamp, int | float) and not isinstance(stamp, bool)
    return float(stamp) if is_time and abs(stamp) <= MAX_TIME_S else None


def _message_meta(raw: msgspec.Raw) -> _MessageMeta:
    return decode_or_none(raw, _decode_message_meta) or _MessageMeta()


MAX_LINE_BYTES = 64 * 1024 * 1024
"""Longer lines are skipped without being read into memory."""

GZIP_MAGIC = b"\x1f\x8b"


class FileLine(NamedTuple):
    """One line that may be a run."""

    number: int
    text: bytes | None
    """None for a line that is too long."""
    position: int
    """Where it ends in the file, in bytes on disk."""


def iter_lines(path: Path) -> Iterator[FileLine]:
    """Yield the lines that are not blank; raises OSError for an unreadable file."""
    with path.open("rb") as file:
        is_packed = file.peek(2)[:2] == GZIP_MAGIC
        try:
            if is_packed:
                with gzip.open(file) as unpacked:
                    yield from _lines(unpacked, file)
            else:
                yield from _lines(file, file)
        except (EOFError, zlib.error) as error:
            raise OSError(f"broken gzip file: {error}") from error


def _lines(text: IO[bytes] | gzip.GzipFile, file: IO[bytes]) -> Iterator[FileLine]:
    number = 0
    while line := text.readline(MAX_LINE_BYTES):
        number += 1
        is_cut = len(line) == MAX_LINE_BYTES and not line.endswith(b"\n")
        while is_cut and (rest := text.readline(MAX_LINE_BYTES)):
            is_cut = not rest.endswith(b"\n")
            line = b""
        if not line or line.strip():
            yield FileLine(number, line or None, file.tell())
