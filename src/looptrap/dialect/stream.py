"""Streams: where the events of an answer end, and what they say while they pass.

Each framing has feed(data), which returns the JSON of all events that are complete now, finish(),
and end_in(chunk), which says where in the next chunk the event under way is over.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterable
from typing import Any, ClassVar

import msgspec

from looptrap.dialect.content import UNREADABLE, encode
from looptrap.dialect.growing_text import GrowingText
from looptrap.dialect.model import Json

_BLANK_LINE = re.compile(rb"\r?\n\r?\n")
_DONE = b"[DONE]"
_BETWEEN = b"[, \t\r\n"

# The next brace that is not in a string; none while a string is not closed.
_BRACE = re.compile(rb'(?:[^{}"]++|"(?:[^"\\]++|\\.)*+")*+[{}]', re.DOTALL)
_OPENING = 0x7B


class EventFraming:
    """Server-sent events."""

    __slots__ = ("rest",)

    def __init__(self) -> None:
        self.rest = b""
        """What has come of an event that is not complete."""

    def feed(self, data: bytes) -> list[bytes]:
        """Return the data of every event that `data` completes."""
        data = self.rest + data
        end = max(data.rfind(b"\n\n") + 2, data.rfind(b"\n\r\n") + 3)
        if end < 3:
            self.rest = data
            return []
        self.rest = data[end:]
        lines = [line[5:] for line in data[:end].split(b"\n") if line.startswith(b"data:")]
        if lines and lines[-1].strip() == _DONE:
            lines.pop()
        return lines

    def finish(self) -> list[bytes]:
        """Return nothing: an event without its blank line was never sent."""
        return []

    def end_in(self, chunk: bytes) -> int | None:
        """Return where in the next chunk the event under way ends; None when it goes on."""
        if not self.rest:
            return 0
        known = len(self.rest)
        blank = _BLANK_LINE.search(self.rest[-3:] + chunk)
        return None if blank is None else blank.end() - min(known, 3)


class ArrayFraming:
    """The elements of one JSON array, as Gemini streams them without `alt=sse`."""

    __slots__ = ("_at", "_depth", "rest")

    def __init__(self) -> None:
        self._at = self._depth = 0
        self.rest = b""

    def feed(self, data: bytes) -> list[bytes]:
        """Return every element that `data` completes."""
        return [element for element, _ in self._split(data)]

    def finish(self) -> list[bytes]:
        """Return nothing: an element that is not closed is none."""
        return []

    def end_in(self, chunk: bytes) -> int | None:
        """Return where in the next chunk the element under way ends; None when it goes on."""
        if self.rest.strip() in (b"", b","):
            return 0
        ahead = ArrayFraming()
        ahead.rest, ahead._at, ahead._depth = self.rest, self._at, self._depth
        ends = [end for _, end in ahead._split(chunk)]
        return ends[0] - len(self.rest) if ends else None

    def _split(self, data: bytes) -> list[tuple[bytes, int]]:
        """Return complete elements with the place where each ends; keep what comes after."""
        data = self.rest + data
        at, depth, kept = self._at, self._depth, 0
        found: list[tuple[bytes, int]] = []
        while brace := _BRACE.match(data, at):
            at = brace.end()
            depth += 1 if data[at - 1] == _OPENING else -1
            if depth == 0:
                found.append((data[kept:at].lstrip(_BETWEEN), at))
                kept = at
        self.rest = data[kept:]
        self._at, self._depth = at - kept, depth
        return found


class WholeFraming:
    """An answer in one piece, which is read when it is all there."""

    __slots__ = ("rest",)

    def __init__(self) -> None:
        self.rest = b""

    def feed(self, data: bytes) -> list[bytes]:
        """Keep what has come."""
        self.rest += data
        return []

    def finish(self) -> list[bytes]:
        """Return the answer."""
        return [self.rest]

    def end_in(self, _chunk: bytes) -> None:
        """Return that it ends by itself only."""


Framing = EventFraming | ArrayFraming | WholeFraming


def framing_of(beginning: bytes) -> Framing:
    """Return how an answer is framed, by its first bytes."""
    match beginning.lstrip()[:1]:
        case b"[":
            return ArrayFraming()
        case b"{":
            return WholeFraming()
        case _:
            return EventFraming()


MAX_TEXTS = 1_000
"""Texts of one answer that are kept apart."""


class StreamParser(ABC):
    """Takes the events of one answer; remembers its texts and what it takes to end it."""

    __slots__ = ("latest", "texts")

    event: ClassVar[type[msgspec.Struct]]
    """What is decoded of each event, and of a whole answer: nothing that is not needed."""
    _one: ClassVar[msgspec.json.Decoder[Any]]
    _many: ClassVar[msgspec.json.Decoder[Any]]

    def __init_subclass__(cls) -> None:
        cls._one = msgspec.json.Decoder(cls.event)
        cls._many = msgspec.json.Decoder(list[cls.event])  # type: ignore[name-defined]

    def __init__(self) -> None:
        self.texts: dict[Hashable, GrowingText] = {}
        """By the choice or block that they belong to; thoughts apart from what is said."""
        self.latest = b""
        """The latest event that could be read."""

    @property
    def tokens(self) -> int:
        """How many tokens were read, about."""
        return sum(text.size for text in self.texts.values()) // 4

    @property
    def is_full(self) -> bool:
        """Whether more was read than is kept of an answer that does not end."""
        return len(self.texts) > MAX_TEXTS

    @property
    @abstractmethod
    def can_end(self) -> bool:
        """Whether the answer goes on, and can be ended here with nothing left half done."""

    @abstractmethod
    def parse(self, events: list[Any]) -> None:
        """Take in events."""

    def take(self, data: list[bytes]) -> None:
        """Take in the JSON of events; what is none, or unlike, is passed over."""
        # All in one go costs half as much as one after the other.
        try:
            events = self._many.decode(b"[%b]" % b",".join(data))
        except UNREADABLE:
            events = [event for one in data if (event := self._readable(one)) is not None]
        else:
            self.latest = data[-1] if data else self.latest
        self.parse(events)

    def text(self, key: Hashable) -> GrowingText:
        """Return the text of that name, which begins where there was none."""
        text = self.texts.get(key)
        if text is None:
            text = self.texts[key] = GrowingText()
        return text

    def _readable(self, data: bytes) -> Any:
        try:
            event = self._one.decode(data)
        except UNREADABLE:
            return None
        self.latest = data
        return event


UNREAD_BYTES = 16 * 1024
"""A stream of fewer bytes is not read at all: it is over before a cut would have saved anything."""

READ_BYTES = 4 * 1024
"""How many bytes are then kept before they are read."""

LOOK_CHARS = 1024
"""How many characters a text must grow before it is judged again."""

MAX_EVENT_BYTES = 4 * 1024 * 1024
"""An answer in one piece, or an event, that is larger than this is not read."""


class AnswerReader:
    """Reads one answer while it passes."""

    __slots__ = ("_framing", "_held", "_room", "_stream", "is_lost", "parser")

    def __init__(self, parser: StreamParser, stream: bool) -> None:
        self._framing: Framing | None = None
        self._held: list[bytes] = []
        self._room = UNREAD_BYTES
        self._stream = stream
        self.parser = parser
        self.is_lost = False
        """Whether more came than is kept: nothing more is read."""

    def feed(self, chunk: bytes) -> bool:
        """Take note of the next chunk; say whether it is time to read."""
        self._held.append(chunk)
        self._room -= len(chunk)
        return self._room <= 0

    def read(self) -> list[str]:
        """Read what was kept; return the texts that have grown enough for a look."""
        data = b"".join(self._held)
        self._held = []
        framing = self._framing
        if framing is None:
            framing = self._framing = framing_of(data)
        self.parser.take(framing.feed(data))
        # A large event is searched for its end as often as it doubles, not every few KB.
        self._room = max(READ_BYTES, len(framing.rest))
        self.is_lost = self._room > MAX_EVENT_BYTES or self.parser.is_full
        return [text.look() for text in self.parser.texts.values() if text.grow() >= LOOK_CHARS]

    def finish(self) -> list[str]:
        """Read the rest; return the texts with something new in them."""
        if self._stream and self._framing is None:
            return []
        grown = self.read()
        if self._framing is not None:
            self.parser.take(self._framing.finish())
        return grown + [text.look() for text in self.parser.texts.values() if text.grow()]

    @property
    def is_between_events(self) -> bool:
        """Whether all that has passed are complete events: asked after reading."""
        return self._framing is not None and self._framing.end_in(b"") == 0

    def take_event(self, chunk: bytes) -> int | None:
        """Read the next chunk up to where the event under way ends; None when it goes on."""
        if self._framing is None:
            return None
        end = self._framing.end_in(chunk)
        self.parser.take(self._framing.feed(chunk[:end]))
        return end

    @property
    def array_opening(self) -> bytes | None:
        """What must precede another element of an array; None where there is no array."""
        if not isinstance(self._framing, ArrayFraming):
            return None
        return b"" if self._framing.rest.strip() else b",\n"


JSON = b"application/json"
EVENT_STREAM = b"text/event-stream; charset=utf-8"
DONE = b"data: [DONE]\n\n"
"""What ends a stream of OpenAI's older APIs."""

_LAST_EVENTS = tuple(
    b'{"type":"%b"' % name
    for name in (b"message_stop", b"response.completed", b"response.incomplete", b"error")
)
_BLANK_LINES = (b"\n\n", b"\r\n\r\n")


def sse_event(data: object, name: str = "") -> bytes:
    """Return one server-sent event, its data as JSON."""
    line = b"data: %b\n\n" % encode(data)
    return b"event: %b\n%b" % (name.encode(), line) if name else line


def events(data: Iterable[object]) -> bytes:
    """Return a stream of unnamed events."""
    return b"".join(map(sse_event, data))


def named_events(data: Iterable[Json]) -> bytes:
    """Return a stream of events that go by the `type` of their data."""
    return b"".join(sse_event(one, one["type"]) for one in data)


def is_between_events(latest: bytes) -> bool:
    """Say whether a stream that has sent this chunk last has no event under way."""
    return not latest or latest.endswith(_BLANK_LINES)


def is_over(latest: bytes) -> bool:
    """Say whether the event that a chunk ends with is the last of its stream."""
    if not latest.endswith(_BLANK_LINES):
        return False
    data = latest.rpartition(b"data:")[2].strip()
    return data == _DONE or data.replace(b" ", b"")[:40].startswith(_LAST_EVENTS)
