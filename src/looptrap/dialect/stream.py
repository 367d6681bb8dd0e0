"""Streams: how an answer is framed in events, and how its texts are read while it passes."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator
from typing import Any, ClassVar

import msgspec

from looptrap.build import mypyc_attr
from looptrap.dialect.content import decode_or_none, encode
from looptrap.dialect.model import AnsweredTurn, Json

# Events

JSON = b"application/json"
EVENT_STREAM = b"text/event-stream; charset=utf-8"

DONE = b"data: [DONE]\n\n"
"""The end of a stream of OpenAI's older APIs."""

_DONE_DATA = b"[DONE]"
_LAST_EVENTS = tuple(
    b'{"type":"%b"' % name
    for name in (b"message_stop", b"response.completed", b"response.incomplete", b"error")
)
_BLANK_LINES = (b"\n\n", b"\r\n\r\n")


def sse_event(data: object, name: str = "") -> bytes:
    """Return one server-sent event, its data as JSON."""
    line = b"data: %b\n\n" % encode(data)
    return b"event: %b\n%b" % (name.encode(), line) if name else line


def named_events(events: Iterable[Json]) -> Iterator[bytes]:
    """Yield events that are named by the `type` of their data."""
    for data in events:
        yield sse_event(data, data["type"])


def is_between_events(latest: bytes) -> bool:
    """Return whether a stream with this latest chunk has no incomplete event."""
    return not latest or latest.endswith(_BLANK_LINES)


def is_over(latest: bytes) -> bool:
    """Return whether a chunk ends with the last event of a stream."""
    if not latest.endswith(_BLANK_LINES):
        return False
    data = latest.rpartition(b"data:")[2].strip()
    return data == _DONE_DATA or data.replace(b" ", b"")[:40].startswith(_LAST_EVENTS)


# Framing

_BLANK_LINE = re.compile(rb"\r?\n\r?\n")
_BETWEEN_ELEMENTS = b"[, \t\r\n"

# The next brace outside of strings; no match while a string is not closed.
_BRACE = re.compile(rb'(?:[^{}"]++|"(?:[^"\\]++|\\.)*+")*+[{}]', re.DOTALL)
_OPENING_BRACE = ord("{")


class Framing(ABC):
    """Splits the bytes of an answer into the JSON of its events."""

    __slots__ = ("rest",)

    def __init__(self) -> None:
        self.rest = b""
        """The bytes of an incomplete event."""

    @abstractmethod
    def feed(self, data: bytes) -> list[bytes]:
        """Return every event that `data` completes."""

    def finish(self) -> list[bytes]:
        """Return the events that only the end of the answer completes."""
        return []

    @abstractmethod
    def end_in(self, chunk: bytes) -> int | None:
        """Return where in the next chunk the incomplete event ends; None where it does not."""


class EventFraming(Framing):
    """Server-sent events."""

    __slots__ = ()

    def feed(self, data: bytes) -> list[bytes]:
        data = self.rest + data
        end = max(data.rfind(b"\n\n") + 2, data.rfind(b"\n\r\n") + 3)
        if end < 3:
            self.rest = data
            return []
        self.rest = data[end:]
        lines = [line[5:] for line in data[:end].split(b"\n") if line.startswith(b"data:")]
        if lines and lines[-1].strip() == _DONE_DATA:
            lines.pop()
        return lines

    def end_in(self, chunk: bytes) -> int | None:
        if not self.rest:
            return 0
        blank = _BLANK_LINE.search(self.rest[-3:] + chunk)
        return None if blank is None else blank.end() - min(len(self.rest), 3)


class ArrayFraming(Framing):
    """The elements of one JSON array, as Gemini streams them without `alt=sse`."""

    __slots__ = ("_at", "_depth")

    def __init__(self) -> None:
        super().__init__()
        self._at = self._depth = 0

    def feed(self, data: bytes) -> list[bytes]:
        return [element for element, _ in self._split(data)]

    def end_in(self, chunk: bytes) -> int | None:
        if self.rest.strip() in (b"", b","):
            return 0
        ahead = ArrayFraming()
        ahead.rest, ahead._at, ahead._depth = self.rest, self._at, self._depth
        ends = [end for _, end in ahead._split(chunk)]
        return ends[0] - len(self.rest) if ends else None

    def _split(self, data: bytes) -> list[tuple[bytes, int]]:
        """Return complete elements, each with its end; keep the rest."""
        data = self.rest + data
        at, depth, start = self._at, self._depth, 0
        elements: list[tuple[bytes, int]] = []
        while brace := _BRACE.match(data, at):
            at = brace.end()
            depth += 1 if data[at - 1] == _OPENING_BRACE else -1
            if depth == 0:
                elements.append((data[start:at].lstrip(_BETWEEN_ELEMENTS), at))
                start = at
        self.rest = data[start:]
        self._at, self._depth = at - start, depth
        return elements


class WholeFraming(Framing):
    """An answer in one piece, which is complete only at its end."""

    __slots__ = ()

    def feed(self, data: bytes) -> list[bytes]:
        self.rest += data
        return []

    def finish(self) -> list[bytes]:
        whole, self.rest = self.rest, b""
        return [whole] if whole else []

    def end_in(self, _chunk: bytes) -> None:
        return None


def framing_of(beginning: bytes) -> Framing:
    """Return the framing of an answer with these first bytes."""
    match beginning.lstrip()[:1]:
        case b"[":
            return ArrayFraming()
        case b"{":
            return WholeFraming()
        case _:
            return EventFraming()


# Texts

MAX_TAIL_CHARS = 8_192
"""Characters at the end of an answer that are searched."""

FENCE = re.compile(r"^[ \t>]*(`{3,}|~{3,})(.*)", re.MULTILINE)


class GrowingText:
    """One text of an answer: its latest stretch, and all of it with `keep_all`."""

    __slots__ = ("_latest", "_new_chars", "_parts", "pieces", "size")

    def __init__(self, *, keep_all: bool = False) -> None:
        self._latest = ""
        self._new_chars = 0
        self._parts: list[str] | None = [] if keep_all else None
        self.pieces: list[str] = []
        """New text, not yet added by `grow`: one piece for every event, so they are only listed."""
        self.size = 0
        """The number of characters, without `pieces`."""

    def grow(self) -> int:
        """Add the pieces; return the number of characters since the last `look`."""
        if self.pieces:
            added = "".join(self.pieces)
            self.pieces = []
            self.size += len(added)
            self._new_chars += len(added)
            self._latest = tail_of(self._latest + added)
            if self._parts is not None:
                self._parts.append(added)
        return self._new_chars

    def look(self) -> str:
        """Return the latest stretch."""
        self._new_chars = 0
        return self._latest

    def whole(self) -> str:
        """Return all of a text with `keep_all`."""
        self.grow()
        return "".join(self._parts or ())


def tail_of(text: str) -> str:
    """Return the end of a text, after the code fence that is open there."""
    at = len(text) - MAX_TAIL_CHARS
    if at <= 0:
        return text
    while at and text[at - 1] in "`~":
        at -= 1
    fence = open_fence(text[:at])
    return f"{fence}\n{text[at:]}" if fence else text[at:]


def open_fence(text: str) -> str:
    """Return the fence of the code block at the end of a text; empty outside of one."""
    opening = ""
    if "```" in text or "~~~" in text:
        for fence, after in FENCE.findall(text):
            if not opening:
                opening = fence
            elif fence.startswith(opening) and not after.strip():
                opening = ""
    return opening


# Reading

MAX_TEXTS = 1_000
"""Texts of one answer that are kept apart."""

MAX_KEPT_CHARS = 4 * 1024 * 1024
"""Characters and bytes of one answer that are kept, to end it or for its turn."""

CALL_CHARS = 64
"""Counted for each tool call that is kept, besides its own characters."""

UNREAD_BYTES = 16 * 1024
"""A shorter stream is not read at all: it is over before a cut would save anything."""

READ_BYTES = 4 * 1024
"""Bytes that are collected before the next reading."""

LOOK_CHARS = 1024
"""Characters by which a text must grow before it is judged again."""

MAX_EVENT_BYTES = 4 * 1024 * 1024
"""A larger event, or answer in one piece, is not read."""


@mypyc_attr(allow_interpreted_subclasses=True)
class StreamParser(ABC):
    """Collects the texts of one answer from its events, and can end the answer."""

    __slots__ = ("is_ending", "keeps_calls", "kept_chars", "latest", "open", "texts")

    event: ClassVar[type[msgspec.Struct]]
    """The fields that are decoded of each event, and of a whole answer: only those in use."""
    allows_comments: ClassVar[bool] = True
    """Whether clients skip comments among the events; Google's SDK does not."""
    _decoder: ClassVar[msgspec.json.Decoder[Any]]
    _list_decoder: ClassVar[msgspec.json.Decoder[Any]]

    def __init_subclass__(cls) -> None:
        cls._decoder = msgspec.json.Decoder(cls.event)
        cls._list_decoder = msgspec.json.Decoder(list[cls.event])  # type: ignore[name-defined]

    def __init__(self) -> None:
        self.texts: defaultdict[Hashable, GrowingText] = defaultdict(GrowingText)
        """By choice or block; thoughts apart from the answer."""
        self.open: dict[int, Any] = {}
        """The choices, blocks or items that have begun and not ended, by their index."""
        self.is_ending = False
        """Whether the last events have begun."""
        self.latest = b""
        """The latest event that could be read."""
        self.keeps_calls = True
        """Whether tool calls are kept for `answered_turn`; only texts are judged."""
        self.kept_chars = 0
        """What is kept of the answer, in characters or bytes."""

    @property
    def tokens(self) -> int:
        """The estimated number of tokens that were read."""
        return sum(text.size for text in self.texts.values()) // 4

    @property
    def is_full(self) -> bool:
        """Whether the answer is larger than what is kept of one."""
        return len(self.texts) > MAX_TEXTS or self.kept_chars > MAX_KEPT_CHARS

    @property
    @abstractmethod
    def can_end(self) -> bool:
        """Whether the answer goes on, and can be ended here with nothing incomplete."""

    @abstractmethod
    def parse(self, events: list[Any]) -> None:
        """Parse decoded events."""

    @abstractmethod
    def finish(self) -> bytes:
        """Return the events that end the answer as if the model had finished."""

    @abstractmethod
    def fail(self, error: bytes) -> bytes:
        """Return the events that report a failure with this error body."""

    def answered_turn(self) -> AnsweredTurn | None:
        """Return the tool calls of what was read; None where it is no answer of a model."""
        return None

    def take(self, data: list[bytes]) -> None:
        """Parse the JSON of events; skip those that are unreadable or of another shape."""
        # Decoding all at once costs half as much as one after the other. Two broken events can be
        # one good one together.
        events = decode_or_none(b"[%b]" % b",".join(data), self._list_decoder.decode)
        if events is None or len(events) != len(data):
            events = []
            for one in data:
                if (event := decode_or_none(one, self._decoder.decode)) is not None:
                    events.append(event)
                    self.latest = one
        else:
            self.latest = data[-1] if data else self.latest
        self.parse(events)


class AnswerReader:
    """Reads one answer while it passes."""

    __slots__ = ("_bytes_to_read", "_chunks", "_framing", "_is_judged", "is_lost", "parser")

    def __init__(self, parser: StreamParser, stream: bool) -> None:
        self._framing: Framing | None = None
        self._chunks: list[bytes] = []
        self._bytes_to_read = UNREAD_BYTES
        self._is_judged = not stream  # a short stream is not
        self.parser = parser
        self.is_lost = False
        """Whether the answer is too large: no more of it is read."""

    def feed(self, chunk: bytes) -> bool:
        """Keep the next chunk; return whether to call `read` now."""
        self._chunks.append(chunk)
        self._bytes_to_read -= len(chunk)
        return self._bytes_to_read <= 0

    def follow(self, chunk: bytes) -> None:
        """Read the next chunk, and judge nothing."""
        if not self.is_lost and self.feed(chunk):
            self._parse_chunks()

    def read(self) -> list[str]:
        """Read the chunks; return the texts that have grown enough to be judged."""
        self._is_judged = True
        self._parse_chunks()
        return [text.look() for text in self.parser.texts.values() if text.grow() >= LOOK_CHARS]

    def _parse_chunks(self) -> None:
        data = b"".join(self._chunks)
        self._chunks = []
        framing = self._framing
        if framing is None:
            framing = self._framing = framing_of(data)
        self.parser.take(framing.feed(data))
        # The end of a large event is searched each time its size doubles, not every few KB.
        self._bytes_to_read = max(READ_BYTES, len(framing.rest))
        self.is_lost = self._bytes_to_read > MAX_EVENT_BYTES or self.parser.is_full

    def finish(self) -> list[str]:
        """Read the rest; return the texts that have grown."""
        if not self._is_judged:
            return []
        self.read_rest()
        return [text.look() for text in self.parser.texts.values() if text.grow()]

    def read_rest(self) -> None:
        """Read the rest, of a short stream too, and judge nothing."""
        self._parse_chunks()
        if self._framing is not None and not self.is_lost:
            self.parser.take(self._framing.finish())

    @property
    def is_between_events(self) -> bool:
        """Whether only complete events have passed; valid after `read`."""
        return self._framing is not None and self._framing.end_in(b"") == 0

    def take_event(self, chunk: bytes) -> int | None:
        """Read the next chunk up to the end of the incomplete event; None where it goes on."""
        if self._framing is None:
            return None
        end = self._framing.end_in(chunk)
        self.parser.take(self._framing.feed(chunk[:end]))
        return end

    @property
    def array_opening(self) -> bytes | None:
        """The bytes before another element of an array; None where there is no array."""
        if not isinstance(self._framing, ArrayFraming):
            return None
        return b"" if self._framing.rest.strip() else b",\n"
