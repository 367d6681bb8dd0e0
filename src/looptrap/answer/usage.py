"""Read from an answer's passing bytes what it used, and whether it failed half-way.

While the answer passes, chunks are only kept: those of its beginning and of its end, where
providers put their counts. Reading them waits until the client has its answer.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import msgspec

from looptrap.answer.tokens import (
    AnthropicCounts,
    Bedrock,
    ChatCounts,
    GeminiCounts,
    ResponsesCounts,
    counted,
)
from looptrap.call.content import UNREADABLE
from looptrap.call.model import Dialect
from looptrap.call.usage import Usage

HEAD = 4 * 1024
TAIL = 8 * 1024
"""How many bytes of an answer's two ends are read; those in between say nothing of usage."""


class UsageReader:
    """Keeps both ends of one answer; `finish` reads them once the answer is over."""

    __slots__ = ("_dialect", "_head", "_newest", "_older", "_room", "_stream", "error")

    def __init__(self, dialect: Dialect, stream: bool) -> None:
        self._dialect = dialect
        self._stream = stream
        self._head: list[bytes] = []
        self._older: list[bytes] = []
        self._newest: list[bytes] = []
        self._room = HEAD
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
        top = _IN_ARRAY if first == b"[" else _TOP
        inner = _IN_RESPONSE if is_events and self._dialect == "openai_responses" else top
        self.error = _error(tail, is_events, (top, inner)) if b"error" in tail else ""
        match self._dialect:
            case "openai_chat" | "openai_completions" | "openai_embeddings":
                return counted(_last(b'"usage"', tail, is_events, top), ChatCounts)
            case "openai_responses":
                return counted(_last(b'"usage"', tail, is_events, inner), ResponsesCounts)
            case "anthropic":
                # Also a stream that is cut has said at its start what went in: that is paid for.
                whole = beginning[: beginning.rfind(b"\n") + 1] if is_events else b""
                started = _last(b'"usage"', whole, True, _IN_MESSAGE)
                ended = _last(b'"usage"', tail, is_events, top)
                return counted(started if ended is None else ended, AnthropicCounts, started)
            case "gemini":
                return counted(_last(b'"usageMetadata"', tail, is_events, top), GeminiCounts)
            case "http":
                # Pictures and transcripts are counted as responses are, Bedrock's answers not.
                found = _last(b'"usage"', tail, is_events, top)
                return counted(found, ResponsesCounts) or counted(found, Bedrock)
            case "mcp":
                return None

    def _turn(self) -> None:
        """Begin a new list: of the full ones, the first and the last are kept."""
        if self._head:
            self._older = self._newest
        else:
            self._head = self._newest
        self._newest = []
        self._room = TAIL

    def _ends(self) -> tuple[bytes, bytes]:
        """Return the beginning and the end; an answer that fits into both is all end.

        What is read depends on the bytes alone, not on how they came in chunks.
        """
        newest = self._newest
        if not self._head:
            return b"", newest[0] if len(newest) == 1 else b"".join(newest)
        head = b"".join(self._head)
        rest = b"".join(self._older + newest)
        if len(head) + len(rest) <= HEAD + TAIL:
            return b"", head + rest
        return head[:HEAD], rest[-TAIL:] if len(rest) >= TAIL else (head + rest)[-TAIL:]


# Finding the counts


class _Place(NamedTuple):
    """Where in a JSON text a field belongs: what opens before it, and the way to it."""

    opening: bytes
    way: tuple[str | int, ...]


_TOP = _Place(b"{", ())
_IN_RESPONSE = _Place(b'{"response":{', ("response",))
_IN_MESSAGE = _Place(b'{"message":{', ("message",))
_IN_ARRAY = _Place(b"[{", (0,))

_VALUE = re.compile(rb"\s*:\s*+(?!null)")
_ERROR_EVENT = re.compile(rb"event: ?error\r?\ndata:(.*)")


def _last(key: bytes, text: bytes, is_events: bool, place: _Place) -> Any:
    """Return the last value under `key` at `place` that is not null.

    The text may have lost its beginning. What comes after a key closes all that is open there: so
    the rest, by being whole with the place's opening before it, tells that the key belongs there.
    """
    for start in _keys(key, text):
        stop = text.find(b"\n", start) if is_events else len(text)
        found = _decode(place.opening + text[start : stop if stop >= 0 else None])
        if found is not None:
            for step in place.way:
                found = found[step]
            return found[key[1:-1].decode()]
        if stop < 0:
            return None  # cut off in its last event: what came before is no longer true
    return None


def _keys(key: bytes, text: bytes) -> Iterator[int]:
    """Yield where `key` (in quotes) is one with a value, the last first: providers count upwards.

    A quote inside a JSON string is escaped, so that nothing a model says looks like a key.
    """
    end = len(text)
    while (end := text.rfind(key, 0, end)) > 0:
        if text[end - 1] in b"{, \t\r\n" and _VALUE.match(text, end + len(key)):
            yield end


def _error(text: bytes, is_events: bool, places: Iterable[_Place]) -> str:
    """Return the type of the last error that was reported, if one was."""
    for place in places:
        error = _last(b'"error"', text, is_events, place)
        if isinstance(error, dict):
            return str(error.get("type") or error.get("status") or error.get("code") or "error")
        if error:
            return "error"
    # Responses has one event that is itself the error.
    start = text.rfind(b"event: error") if is_events else -1
    if start >= 0 and (event := _ERROR_EVENT.match(text, start)):
        found = _decode(event[1])
        return str((isinstance(found, dict) and found.get("code")) or "error")
    return ""


def _decode(text: bytes) -> Any:
    try:
        return msgspec.json.decode(text)
    except UNREADABLE:
        return None
