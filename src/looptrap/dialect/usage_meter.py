"""UsageMeter: the usage of a passing answer.

While the answer passes, only the chunks of its beginning and its end are kept: providers put their
counts there. They are read after the client has its answer.
"""

from __future__ import annotations

from math import ceil

import msgspec

from looptrap.dialect.content import decode_or_none
from looptrap.dialect.model import BYTES_PER_TOKEN, Call, DialectName, Usage
from looptrap.dialect.output_limit import is_in_background, runs_on, unanswered_usage
from looptrap.dialect.registry import DIALECTS
from looptrap.dialect.usage import JsonPath

HEAD_BYTES = 4 * 1024
TAIL_BYTES = 8 * 1024
"""Bytes of an answer's two ends that are read; the bytes between them report no usage."""

STREAMED_BYTES_PER_TOKEN = 100
"""An estimate for answers in events: most events have one token in much JSON."""

MAX_GUESSED_OUTPUT = 4_096
"""Limit for the estimated tokens of a plain HTTP answer: images and audio have many bytes and few
tokens."""


class UsageReader:
    """Keeps both ends of one answer; `finish` reads them at its end."""

    __slots__ = ("_dialect", "_head", "_newest", "_older", "_room", "_stream")

    def __init__(self, dialect: DialectName, stream: bool) -> None:
        self._dialect = dialect
        self._stream = stream
        self._head: list[bytes] = []
        self._older: list[bytes] = []
        self._newest: list[bytes] = []
        self._room = HEAD_BYTES

    def feed(self, chunk: bytes) -> None:
        """Keep the next chunk, without copying or reading it."""
        self._newest.append(chunk)
        self._room -= len(chunk)
        if self._room < 0:
            self._start_list()

    def finish(self) -> Usage | None:
        """Return the last usage that the provider reported; None where it is missing or lost."""
        head, tail = self._ends()
        beginning = head or tail
        first = beginning[:16].lstrip()[:1]
        is_events = self._stream and first not in (b"{", b"[")
        usage = DIALECTS[self._dialect].usage
        if usage is None:
            return None
        top: JsonPath = (0,) if first == b"[" else ()
        return usage.find(beginning, tail, is_events, usage.path_in_event if is_events else top)

    def _start_list(self) -> None:
        """Start a new list of chunks; of the full lists, keep the first and the last."""
        if self._head:
            self._older = self._newest
        else:
            self._head = self._newest
        self._newest = []
        self._room = TAIL_BYTES

    def _ends(self) -> tuple[bytes, bytes]:
        """Return the beginning and the end; an answer that fits into both is all end.

        The result depends on the bytes alone, not on their chunks.
        """
        newest = self._newest
        if not self._head:
            return b"", newest[0] if len(newest) == 1 else b"".join(newest)
        head = b"".join(self._head)
        rest = b"".join(self._older + newest)
        if len(head) + len(rest) <= HEAD_BYTES + TAIL_BYTES:
            return b"", head + rest
        tail = rest if len(rest) >= TAIL_BYTES else head + rest
        return head[:HEAD_BYTES], tail[-TAIL_BYTES:]


_DECODERS = {
    dialect.name: msgspec.json.Decoder(dialect.usage.whole_answer).decode
    for dialect in DIALECTS.values()
    if dialect.usage is not None and dialect.usage.whole_answer is not None
}


def usage_of(dialect: DialectName, answer: bytes) -> Usage | None:
    """Return the usage in a whole answer; None where it is not a JSON object of the right shape."""
    decode = _DECODERS.get(dialect)
    found = None if decode is None else decode_or_none(answer, decode)
    return None if found is None else found.usage.usage()


class UsageMeter:
    """Keeps what is needed of a passing answer, and returns its usage at the end."""

    __slots__ = ("_call", "_length", "_reader", "_size", "_whole")

    def __init__(self, call: Call, length: int | None) -> None:
        self._call = call
        self._length = length
        self._whole = b""
        self._reader: UsageReader | None = None
        self._size = 0

    def take(self, chunk: bytes) -> None:
        """Keep the next chunk; most answers are one small object."""
        self._size += len(chunk)
        if self._reader is not None:
            self._reader.feed(chunk)
        elif self._length == len(chunk):
            self._whole = chunk
        else:
            self._start_reader(chunk)

    def usage(self, seen: int, *, is_cut: bool = False) -> Usage:
        """Return the usage; `seen` is the number of tokens that were counted while they passed."""
        found = self._reported()
        if found is None:
            return self._estimate(seen, is_cut)
        if seen > found.output_tokens:  # a cut answer reports less than it used
            return Usage(found.input_tokens, seen, found.cached_tokens, is_estimated=True)
        return found

    def _start_reader(self, chunk: bytes) -> None:
        self._reader = UsageReader(self._call.dialect, self._call.stream)
        self._reader.feed(chunk)

    def _reported(self) -> Usage | None:
        if self._whole:
            usage = usage_of(self._call.dialect, self._whole)
            if usage is not None:
                return usage
            self._start_reader(self._whole)
        return self._reader.finish() if self._reader is not None else None

    def _estimate(self, seen: int, is_cut: bool) -> Usage:
        call = self._call
        if (is_cut and runs_on(call)) or is_in_background(call):
            return unanswered_usage(call)
        token_bytes = STREAMED_BYTES_PER_TOKEN if call.stream else BYTES_PER_TOKEN
        output = seen or ceil(self._size / token_bytes) if call.generates else 0
        if call.dialect == "http":
            output = min(output, MAX_GUESSED_OUTPUT)
        return Usage(call.estimated_input, output, is_estimated=True)
