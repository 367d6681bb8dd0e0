"""UsageMeter: what a passing answer used, and whether it failed half-way.

While the answer passes, chunks are only kept: those of its beginning and of its end, where
providers put their counts. Reading them waits until the client has its answer.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from math import ceil

import msgspec

from looptrap.dialect.content import UNREADABLE
from looptrap.dialect.model import Call, DialectName, Usage
from looptrap.dialect.output_limit import is_in_background, max_output, runs_on
from looptrap.dialect.registry import DIALECTS
from looptrap.dialect.usage import IN_ARRAY, TOP, AnswerEnds, JsonPlace, decode_or_none, last_value

HEAD_BYTES = 4 * 1024
TAIL_BYTES = 8 * 1024
"""How many bytes of an answer's two ends are read; those in between say nothing of usage."""


class UsageReader:
    """Keeps both ends of one answer; `finish` reads them once the answer is over."""

    __slots__ = ("_dialect", "_head", "_newest", "_older", "_room", "_stream", "error")

    def __init__(self, dialect: DialectName, stream: bool) -> None:
        self._dialect = dialect
        self._stream = stream
        self._head: list[bytes] = []
        self._older: list[bytes] = []
        self._newest: list[bytes] = []
        self._room = HEAD_BYTES
        self.error = ""
        """The type of an error inside the answer, such as `overloaded_error`; set by `finish`."""

    def feed(self, chunk: bytes) -> None:
        """Take note of the next chunk; neither copies nor looks into it."""
        self._newest.append(chunk)
        self._room -= len(chunk)
        if self._room < 0:
            self._turn()

    def finish(self) -> Usage | None:
        """Return what the provider counted last; None where it did not, or where that was lost."""
        head, tail = self._ends()
        beginning = head or tail
        first = beginning[:16].lstrip()[:1]
        is_events = self._stream and first not in (b"{", b"[")
        top = IN_ARRAY if first == b"[" else TOP
        dialect = DIALECTS[self._dialect]
        place = (dialect.answer_in_event if is_events else None) or top
        self.error = _error(tail, is_events, (top, place)) if b"error" in tail else ""
        if dialect.find_usage is None:
            return None
        return dialect.find_usage(AnswerEnds(beginning, tail, is_events, place))

    def _turn(self) -> None:
        """Begin a new list: of the full ones, the first and the last are kept."""
        if self._head:
            self._older = self._newest
        else:
            self._head = self._newest
        self._newest = []
        self._room = TAIL_BYTES

    def _ends(self) -> tuple[bytes, bytes]:
        """Return the beginning and the end; an answer that fits into both is all end.

        What is read depends on the bytes alone, not on how they came in chunks.
        """
        newest = self._newest
        if not self._head:
            return b"", newest[0] if len(newest) == 1 else b"".join(newest)
        head = b"".join(self._head)
        rest = b"".join(self._older + newest)
        if len(head) + len(rest) <= HEAD_BYTES + TAIL_BYTES:
            return b"", head + rest
        return head[:HEAD_BYTES], rest[-TAIL_BYTES:] if len(rest) >= TAIL_BYTES else (head + rest)[
            -TAIL_BYTES:
        ]


_ERROR_EVENT = re.compile(rb"event: ?error\r?\ndata:(.*)")


def _error(text: bytes, is_events: bool, places: Iterable[JsonPlace]) -> str:
    """Return the type of the last error that was reported, if one was."""
    for place in places:
        error = last_value(b'"error"', text, is_events, place)
        if isinstance(error, dict):
            return str(error.get("type") or error.get("status") or error.get("code") or "error")
        if error:
            return "error"
    # Responses has one event that is itself the error.
    start = text.rfind(b"event: error") if is_events else -1
    if start >= 0 and (event := _ERROR_EVENT.match(text, start)):
        found = decode_or_none(event[1])
        return str((isinstance(found, dict) and found.get("code")) or "error")
    return ""


BYTES_PER_TOKEN = 4
"""About, of requests and of answers that come in one piece."""

STREAMED_BYTES_PER_TOKEN = 100
"""About, of answers in events: most events carry one token and a good deal of JSON."""


MAX_GUESSED_OUTPUT = 4_096
"""Tokens that an answer of no dialect is taken to have at most: pictures and sounds have many bytes
and few tokens."""

ASSUMED_OUTPUT = 4_096
"""Tokens of an answer that was not waited for, where the call sets no limit."""


def unanswered_usage(call: Call, window: int | None = None) -> Usage:
    """Return what a call is taken to have used that was sent, and of which no answer was seen.

    The provider has read it. What it goes on to write is not known: as much as the call allows.
    """
    written = max_output(call, ASSUMED_OUTPUT, window) if runs_on(call) else 0
    return Usage(ceil(len(call.request.body) / BYTES_PER_TOKEN), written, is_estimated=True)


_DECODERS = {
    dialect.name: msgspec.json.Decoder(dialect.counted_answer).decode
    for dialect in DIALECTS.values()
    if dialect.counted_answer is not None
}


def usage_of(dialect: DialectName, answer: bytes) -> Usage | None:
    """Return what a whole answer says it used; None where it is not one JSON object, or unlike."""
    decode = _DECODERS.get(dialect)
    if decode is None:
        return None
    try:
        usage: Usage = decode(answer).usage.usage()
    except UNREADABLE:
        return None
    return usage


class UsageMeter:
    """Takes note of an answer while it passes; what it used is read when it is over."""

    __slots__ = ("_call", "_length", "_reader", "_size", "_whole")

    def __init__(self, call: Call, length: int | None) -> None:
        self._call = call
        self._length = length
        self._whole = b""
        self._reader: UsageReader | None = None
        self._size = 0

    def take(self, chunk: bytes) -> None:
        """Take note of the next chunk; most answers are one small object."""
        self._size += len(chunk)
        if self._reader is not None:
            self._reader.feed(chunk)
        elif self._length == len(chunk):
            self._whole = chunk
        else:
            self._reader = UsageReader(self._call.dialect, self._call.stream)
            self._reader.feed(chunk)

    def usage(self, seen: int, *, is_cut: bool = False) -> Usage:
        """Return what the answer used; `seen` are the tokens that were counted as they passed."""
        found = self._reported()
        if found is None:
            return self._estimated(seen, is_cut)
        if seen > found.output_tokens:  # an answer that was cut says less than it used
            return Usage(found.input_tokens, seen, found.cached_tokens, is_estimated=True)
        return found

    def _reported(self) -> Usage | None:
        if self._whole:
            usage = usage_of(self._call.dialect, self._whole)
            if usage is not None:
                return usage
            self._reader = UsageReader(self._call.dialect, self._call.stream)
            self._reader.feed(self._whole)
        return self._reader.finish() if self._reader is not None else None

    def _estimated(self, seen: int, is_cut: bool) -> Usage:
        call = self._call
        if (is_cut and runs_on(call)) or is_in_background(call):
            return unanswered_usage(call)
        a_token = STREAMED_BYTES_PER_TOKEN if call.stream else BYTES_PER_TOKEN
        written = seen or ceil(self._size / a_token) if call.generates else 0
        if call.dialect == "http":
            written = min(written, MAX_GUESSED_OUTPUT)
        asked = ceil(len(call.request.body) / BYTES_PER_TOKEN)
        return Usage(asked, written, is_estimated=True)
