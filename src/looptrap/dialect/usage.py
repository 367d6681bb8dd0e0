"""Usage in an answer: how counts are found in its bytes, and read alike for all dialects."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Annotated, Any, NamedTuple, Protocol

import msgspec

from looptrap.dialect.content import UNREADABLE
from looptrap.dialect.model import MOST_TOKENS, Usage

Count = Annotated[int, msgspec.Meta(ge=0, le=MOST_TOKENS)]
"""What is negative, or more than any call has, was not reported."""


class TokenDetails(msgspec.Struct, gc=False):
    """Parts of a count, as OpenAI and Anthropic name them."""

    cached_tokens: Count | None = None
    cache_write_tokens: Count | None = None
    reasoning_tokens: Count | None = None
    thinking_tokens: Count | None = None
    audio_tokens: Count | None = None


NO_DETAILS = TokenDetails()


class Counts(Protocol):
    """What a dialect counts; a Struct that says it in neutral form."""

    def usage(self) -> Usage:
        """Return the counts in neutral form."""


def counted(counts: Any, shape: type[Counts], earlier: Any = None) -> Usage | None:
    """Read counts over `earlier` ones; no number is better than one from a shape not known."""
    if not isinstance(counts, dict):
        return None
    known = earlier if isinstance(earlier, dict) else {}
    given = {name: count for name, count in counts.items() if count is not None}
    try:
        return msgspec.convert(known | given, shape).usage()
    except msgspec.ValidationError:
        return None


class JsonPlace(NamedTuple):
    """Where in a JSON text a field belongs: what opens before it, and the path to it."""

    opening: bytes
    path: tuple[str | int, ...]


TOP = JsonPlace(b"{", ())
IN_RESPONSE = JsonPlace(b'{"response":{', ("response",))
IN_MESSAGE = JsonPlace(b'{"message":{', ("message",))
IN_ARRAY = JsonPlace(b"[{", (0,))

_VALUE = re.compile(rb"\s*:\s*+(?!null)")


class AnswerEnds(NamedTuple):
    """The beginning and the end of an answer."""

    beginning: bytes
    tail: bytes
    is_events: bool
    place: JsonPlace
    """Where in the answer, or in its last event, its fields stand."""

    def last(self, key: bytes) -> Any:
        """Return the last value under `key` (in quotes) in the tail; None where there is none."""
        return last_value(key, self.tail, self.is_events, self.place)


def last_value(key: bytes, text: bytes, is_events: bool, place: JsonPlace) -> Any:
    """Return the last value under `key` at `place` that is not null.

    The text may have lost its beginning. What comes after a key closes all that is open there: so
    the rest, by being whole with the place's opening before it, shows that the key belongs there.
    """
    for start in _keys(key, text):
        stop = text.find(b"\n", start) if is_events else len(text)
        found = decoded(place.opening + text[start : stop if stop >= 0 else None])
        if found is not None:
            for step in place.path:
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


def decoded(text: bytes) -> Any:
    """Return the value of a JSON text; None for what is none."""
    try:
        return msgspec.json.decode(text)
    except UNREADABLE:
        return None
