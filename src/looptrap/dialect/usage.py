"""Usage in an answer: how counts are found in its bytes, and read alike for all dialects."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Annotated, Any, Generic, NamedTuple, Protocol, TypeVar

import msgspec

from looptrap.dialect.content import UNREADABLE
from looptrap.dialect.model import MAX_TOKENS, Usage

Count = Annotated[int, msgspec.Meta(ge=0, le=MAX_TOKENS)]
"""What is negative, or more than any call has, was not reported."""


class TokenDetails(msgspec.Struct, gc=False):
    """Parts of a count, as OpenAI and Anthropic name them."""

    cached_tokens: Count | None = None
    cache_write_tokens: Count | None = None
    reasoning_tokens: Count | None = None
    thinking_tokens: Count | None = None
    audio_tokens: Count | None = None


NO_DETAILS = TokenDetails()


def openai_usage(
    asked: int, said: int, asked_details: TokenDetails | None, said_details: TokenDetails | None
) -> Usage:
    """Return OpenAI's counts, of either shape, in neutral form."""
    asked_details, said_details = asked_details or NO_DETAILS, said_details or NO_DETAILS
    return Usage(
        asked,
        said,
        asked_details.cached_tokens or 0,
        said_details.reasoning_tokens or 0,
        asked_details.cache_write_tokens or 0,
        asked_details.audio_tokens or 0,
        said_details.audio_tokens or 0,
    )


class Counts(Protocol):
    """What a dialect counts; a Struct that says it in neutral form."""

    def usage(self) -> Usage:
        """Return the counts in neutral form."""


def read_counts(counts: Any, shape: type[Counts], earlier: Any = None) -> Usage | None:
    """Read counts over `earlier` ones; no number is better than one from a shape not known."""
    if not isinstance(counts, dict):
        return None
    known = earlier if isinstance(earlier, dict) else {}
    given = {name: count for name, count in counts.items() if count is not None}
    try:
        return msgspec.convert(known | given, shape).usage()
    except msgspec.ValidationError:
        return None


CountsT = TypeVar("CountsT", bound=Counts)


class CountedAnswer(msgspec.Struct, Generic[CountsT], gc=False):
    """What is decoded of a whole answer: its counts."""

    usage: CountsT


def usage_finder(
    shape: type[Counts], key: bytes = b'"usage"'
) -> Callable[[AnswerEnds], Usage | None]:
    """Return what finds the counts under `key` in the end of an answer."""
    return lambda ends: read_counts(ends.last(key), shape)


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
        found = decode_or_none(place.opening + text[start : stop if stop >= 0 else None])
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


def decode_or_none(text: bytes) -> Any:
    """Return the value of a JSON text; None for what is none."""
    try:
        return msgspec.json.decode(text)
    except UNREADABLE:
        return None
