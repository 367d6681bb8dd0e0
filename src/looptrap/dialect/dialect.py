"""Dialect: what the gateway can do in an API, a field for each verb."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import msgspec

from looptrap.dialect.model import (
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
from looptrap.dialect.usage import UsageFormat


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
