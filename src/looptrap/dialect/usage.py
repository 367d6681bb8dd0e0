"""Reported usage: where each API puts its counts, and how they are found in an answer's bytes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Annotated, Any, NamedTuple, Protocol

import msgspec

from looptrap.dialect.content import decode_or_none
from looptrap.dialect.model import MAX_TOKENS, Usage

Count = Annotated[int, msgspec.Meta(ge=0, le=MAX_TOKENS)]
"""A negative or impossibly large number counts as not reported."""


def optional_field(name: str) -> Any:
    """Return a field of a Struct with that name in JSON, None by default."""
    return msgspec.field(default=None, name=name)


class Counts(Protocol):
    """The counts of one API: a Struct with their sum in neutral form."""

    def usage(self) -> Usage:
        """Return the counts in neutral form."""


class TokenDetails(msgspec.Struct, gc=False):
    """Parts of a count, by the names of OpenAI and Anthropic."""

    cached_tokens: Count | None = None
    cache_write_tokens: Count | None = None
    reasoning_tokens: Count | None = None
    thinking_tokens: Count | None = None
    audio_tokens: Count | None = None


NO_DETAILS = TokenDetails()


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


JsonPath = tuple[str | int, ...]
"""The keys and indices on the way to an object in a JSON text."""


class UsageFormat(NamedTuple):
    """How an API reports the usage of an answer."""

    shapes: tuple[type[Counts], ...]
    """Shapes of the counts, tried in this order."""
    key: str = "usage"
    path_in_event: JsonPath = ()
    """The path to the answer in the last event of a stream."""
    path_in_first_event: JsonPath | None = None
    """The path to earlier counts, where a stream begins with some."""

    @property
    def whole_answer(self) -> type[Any] | None:
        """A Struct of a whole answer's counts; None where they have more than one shape."""
        if len(self.shapes) > 1:
            return None
        counts = ("usage", self.shapes[0], msgspec.field(name=self.key))
        return msgspec.defstruct("CountedAnswer", [counts], gc=False)

    def find(self, beginning: bytes, end: bytes, is_events: bool, path: JsonPath) -> Usage | None:
        """Return the usage in the two ends of an answer, which is at `path` in its last event."""
        first = None
        if self.path_in_first_event is not None and is_events:
            # A stream that is cut has reported its input at its start, and that is charged.
            events = beginning[: beginning.rfind(b"\n") + 1]
            first = last_value(self.key, events, True, self.path_in_first_event)
        last = last_value(self.key, end, is_events, path)
        for shape in self.shapes:
            usage = read_counts(first if last is None else last, shape, first)
            if usage is not None:
                return usage
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
