"""UsageMeter: the usage of a passing answer.

While the answer passes, only the chunks of its beginning and its end are kept: providers put their
counts there. They are read after the client has its answer.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from math import ceil
from typing import Any

import msgspec

from looptrap.dialect.content import decode_or_none
from looptrap.dialect.dialect import Counts, JsonPath
from looptrap.dialect.model import BYTES_PER_TOKEN, Call, DialectName, Usage
from looptrap.dialect.output_limit import is_in_background, runs_on, unanswered_usage
from looptrap.dialect.registry import DIALECTS

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
        usage = DIALECTS[self._dialect].usage
        if usage is None:
            return None
        head, tail = self._ends()
        beginning = head or tail
        opening = beginning[:16].lstrip()[:1]
        path: JsonPath = (0,) if opening == b"[" else ()
        first = None
        is_events = self._stream and opening not in (b"{", b"[")
        if is_events:
            path = usage.path_in_event
            if usage.path_in_first_event is not None:
                # A stream that is cut has reported its input at its start, and that is charged.
                events = beginning[: beginning.rfind(b"\n") + 1]
                first = last_value(usage.key, events, True, usage.path_in_first_event)
        last = last_value(usage.key, tail, is_events, path)
        for shape in usage.shapes:
            found = read_counts(first if last is None else last, shape, first)
            if found is not None:
                return found
        return None

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


def read_counts(counts: Any, shape: type[Counts], earlier: Any = None) -> Usage | None:
    """Read counts, with missing ones from `earlier`; None for an unknown shape."""
    if not isinstance(counts, dict):
        return None
    known = earlier if isinstance(earlier, dict) else {}
    reported = {name: count for name, count in counts.items() if count is not None}
    try:
        return msgspec.convert(known | reported, shape).usage()
    except msgspec.ValidationError:
        return None


_VALUE = re.compile(rb"\s*:\s*+(?!null)")


def last_value(key: str, text: bytes, is_events: bool, path: JsonPath) -> Any:
    """Return the last value under `key` that is not null, in the object at `path`.

    The text may lack its beginning. The rest after a key closes everything that is open there, so
    it is valid JSON after the opening of a path only if the key belongs to that path.
    """
    opening = b"".join(
        b'{"%b":' % step.encode() if isinstance(step, str) else b"[" for step in path
    )
    for start in _key_positions(b'"%b"' % key.encode(), text):
        stop = text.find(b"\n", start) if is_events else len(text)
        found: Any = decode_or_none(opening + b"{" + text[start : stop if stop >= 0 else None])
        if found is not None:
            for step in path:
                found = found[step]
            return found[key]
        if stop < 0:
            return None  # cut off in its last event: earlier values are no longer true
    return None


def _key_positions(key: bytes, text: bytes) -> Iterator[int]:
    """Yield the positions of a quoted key with a value, last first: providers count upwards.

    A quote inside a JSON string is escaped, so the text of a model never looks like a key.
    """
    end = len(text)
    while (end := text.rfind(key, 0, end)) > 0:
        if text[end - 1] in b"{, \t\r\n" and _VALUE.match(text, end + len(key)):
            yield end


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
