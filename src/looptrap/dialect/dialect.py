"""Dialect: what the gateway can do in an API, a field for each verb."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple, Protocol

import msgspec

from looptrap.dialect.model import (
    MAX_TOKENS,
    Call,
    DialectName,
    Json,
    Message,
    Refusal,
    Request,
    ToolCall,
    Usage,
)
from looptrap.dialect.stream import StreamParser


class History(NamedTuple):
    """How the messages of a captured call are read again."""

    read: Callable[[msgspec.Raw], Message]
    peek: Callable[[msgspec.Raw], str] | None = None
    has_split_turns: bool = False


class ModelAnswer(msgspec.Struct, frozen=True):
    """A model's answer before a dialect writes it: the last message of a run, or a fake answer."""

    call: Call
    sent: Json
    """The decoded body of the call."""
    id: str
    """A part of every id in the answer."""
    created_at: int
    """In seconds since 1970."""
    pieces: Sequence[str] = ()
    """The text, in the pieces in which it is streamed."""
    calls: Sequence[ToolCall] = ()
    usage: Usage = Usage()

    @property
    def text(self) -> str:
        """The whole text."""
        return "".join(self.pieces)


def halves(text: str) -> tuple[str, str]:
    """Return the two pieces in which the arguments of a tool call are streamed."""
    middle = len(text) // 2
    return text[:middle], text[middle:]


class AnswerWriter(NamedTuple):
    """Writes a model's answer, in one piece or as the chunks of a stream."""

    takes_text: Callable[[Json], bool]
    """Whether plain text answers a request with this decoded body."""
    body: Callable[[ModelAnswer], Json]
    stream: Callable[[ModelAnswer], Iterable[bytes]]


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """One API; a verb that it does not have is None."""

    name: DialectName
    read: Callable[[Request, bytes], Call]
    """Reads a request; raises what decoding raises."""
    error_body: Callable[[Refusal, str, Call | None], Json]
    """Returns an error in the API's shape, given the request's id and the call, if it was read."""
    refusal_status: int | None = None
    """The HTTP status of every refusal; None where a refusal has its own."""
    request_id_header: bytes | None = None
    """The header in which the API's SDK expects the request's id."""
    history: History | None = None
    writer: AnswerWriter | None = None
    is_event_stream: Callable[[Call], bool] = lambda _call: True
    """Whether a streaming call is answered in server-sent events."""
    stream_parser: type[StreamParser] | None = None
    splice_nudge: Callable[[bytes, str], bytes | None] | None = None
    """Returns a body with a text as its last message; None where that is not possible."""
    usage: UsageFormat | None = None
    fake_without_model: Callable[[Call], Json] | None = None
    """Returns the fake answer of an endpoint without a model: a token count, or embeddings."""
