"""Dialect: what the gateway can do in an API, a field for each verb."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

import msgspec

from looptrap.dialect.fake_answer import ModelAnswer
from looptrap.dialect.model import Call, DialectName, Json, Message, Refusal, Request, Usage
from looptrap.dialect.stream import StreamParser
from looptrap.dialect.usage import AnswerEnds, CountedAnswer, JsonPlace


class History(NamedTuple):
    """How the messages of a captured call are read again."""

    read: Callable[[msgspec.Raw], Message]
    peek: Callable[[msgspec.Raw], str] | None = None
    scattered: bool = False


class FinalMessage(NamedTuple):
    """Writes the last message of a run, as if the model had written it.

    `body` and `stream` take the call, its decoded body, the text, the request's id and the time.
    """

    takes_text: Callable[[Json], bool]
    """Says whether plain text answers the request, given its decoded body."""
    body: Callable[[Call, Json, str, str, float], bytes]
    stream: Callable[[Call, Json, str, str, float], bytes]


class Streaming(NamedTuple):
    """Reads an answer while it passes, and ends one that has begun."""

    parser: type[StreamParser]
    finish: Callable[[Any], bytes]
    """Returns the events with which a model finishes, given the parser."""
    fail: Callable[[Any, bytes], bytes]
    """Returns the events that report a failure, given the parser and the body of an error."""
    skips_comments: bool = True
    """Whether clients skip comments among the events; Google's SDK does not."""


class FakeAnswer(NamedTuple):
    """Writes a fake model's answer to a call, in one piece or chunk by chunk."""

    body: Callable[[ModelAnswer, Call], Json]
    stream: Callable[[ModelAnswer, Call], Iterable[bytes]]


def _always(_call: Call) -> bool:
    return True


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
    """Where the API's SDK looks for the request's id."""
    history: History | None = None
    final_message: FinalMessage | None = None
    is_event_stream: Callable[[Call], bool] = _always
    """Says whether a call that streams is answered in server-sent events."""
    streaming: Streaming | None = None
    splice_nudge: Callable[[bytes, str], bytes | None] | None = None
    """Returns a body with a text as its last message; None where that cannot be done."""
    counted_answer: type[CountedAnswer[Any]] | None = None
    """What is decoded of a whole answer to learn what it used."""
    find_usage: Callable[[AnswerEnds], Usage | None] | None = None
    """Finds what an answer used in its two ends."""
    answer_in_event: JsonPlace | None = None
    """Where in a stream's last event the answer stands; None: it is the event itself."""
    fake: FakeAnswer | None = None
    fake_fixed: Callable[[Call], Json] | None = None
    """Returns a fake answer that no model makes: a token count, or embeddings."""
    fake_error: Callable[[int], Json]
    """Returns the error that a fake provider answers with that status."""
