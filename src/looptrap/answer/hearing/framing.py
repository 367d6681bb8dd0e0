"""Where the events of an answer end, whatever the chunks in which they come.

Each framing has feed(data), which returns the JSON of all events that are complete now, finish(),
and end_in(chunk), which says where in the next chunk the event under way is over.
"""

from __future__ import annotations

import re

_BLANK_LINE = re.compile(rb"\r?\n\r?\n")
_DONE = b"[DONE]"
_BETWEEN = b"[, \t\r\n"

# The next brace that is not in a string; none while a string is not closed.
_BRACE = re.compile(rb'(?:[^{}"]++|"(?:[^"\\]++|\\.)*+")*+[{}]', re.DOTALL)
_OPENING = 0x7B


class Events:
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


class Elements:
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
        ahead = Elements()
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


class Whole:
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


Framing = Events | Elements | Whole


def framing_of(beginning: bytes) -> Framing:
    """Tell from its first bytes how an answer comes."""
    match beginning.lstrip()[:1]:
        case b"[":
            return Elements()
        case b"{":
            return Whole()
        case _:
            return Events()
