"""Answers that the gateway writes itself, in the dialect of a call and ready for the wire."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import msgspec

from looptrap.dialect.content import UNREADABLE, decode_mended, decode_or_none, encode
from looptrap.dialect.dialect import ModelAnswer
from looptrap.dialect.model import AnsweredTurn, Call, DialectName, Json, Refusal, Request, ToolCall
from looptrap.dialect.registry import DIALECTS
from looptrap.dialect.stream import (
    EVENT_STREAM,
    JSON,
    UNREAD_BYTES,
    AnswerReader,
    is_between_events,
)

Headers = list[tuple[bytes, bytes]]

MAX_NUDGED_BYTES = 2 * 1024 * 1024
"""A splice reads the body again; above this size that would delay every other call."""

SIGNATURES = frozenset(
    {
        b"content-digest",
        b"content-md5",
        b"digest",
        b"repr-digest",
        b"signature",
        b"signature-input",
        b"x-amz-content-sha256",
    }
)
"""Headers that sign the bytes of a body: a changed body would be refused."""


class Answer(msgspec.Struct, frozen=True):
    """One complete answer; the wire adds the headers of its framing."""

    status: int
    headers: Headers
    body: bytes


def failure(
    dialect: DialectName,
    *,
    status: int,
    code: str,
    message: str,
    request_id: str,
    retry_after: int | None = None,
) -> Answer:
    """Return the answer to a call that the gateway itself could not serve."""
    body = encode(failure_body(dialect, status, code, message, request_id))
    headers = [] if retry_after is None else [(b"Retry-After", b"%d" % retry_after)]
    return Answer(status, _complete_headers(headers, dialect, request_id), body)


def failure_body(name: DialectName, status: int, code: str, message: str, request_id: str) -> Json:
    """Return an error that is not a refusal, in the dialect's shape."""
    kind = "invalid_request_error" if status < 500 else "server_error"
    if status == 429:
        kind = "rate_limit_exceeded"
    error = Refusal(status, code, kind, message, {"error": code, "message": message})
    return DIALECTS[name].error_body(error, request_id, None)


def refusal_answer(call: Call, refusal: Refusal, headers: Headers, request_id: str) -> Answer:
    """Return the answer to a refused call."""
    dialect = DIALECTS[call.dialect]
    return Answer(
        dialect.refusal_status or refusal.status,
        _complete_headers(headers, call.dialect, request_id),
        encode(dialect.error_body(refusal, request_id, call)),
    )


def final_answer(
    call: Call,
    text: str,
    headers: Headers,
    *,
    request_id: str,
    now: float,
    calls: Sequence[ToolCall] = (),
) -> Answer | None:
    """Return a last message that looks written by the model, to end a run.

    A framework that handles no error still ends its run on it, some only with tool calls. None
    where plain text is not a valid answer.
    """
    dialect = DIALECTS[call.dialect]
    writer = dialect.writer
    if writer is None or not call.generates or call.is_opaque:
        return None
    sent = decode_body(call)
    if sent is None or not writer.takes_text(sent):
        return None
    answer = ModelAnswer(call, sent, request_id, int(now), (text,), calls)
    body = b"".join(writer.stream(answer)) if call.stream else encode(writer.body(answer))
    content_type = EVENT_STREAM if call.stream and dialect.is_event_stream(call) else JSON
    headers = _complete_headers(headers, call.dialect, request_id, content_type)
    return Answer(200, headers, body)


def decode_body(call: Call) -> Json | None:
    """Return the decoded body; None where it, or an unused part of it, is not JSON."""
    sent: object = decode_or_none(call.request.body, decode_mended)
    return sent if isinstance(sent, dict) else None


def _complete_headers(
    headers: Headers, dialect: DialectName, request_id: str, content_type: bytes = JSON
) -> Headers:
    """Return the headers with those for the content and the request's id."""
    id_bytes = request_id.encode("latin-1", "replace")
    headers = [*headers, (b"Content-Type", content_type), (b"X-Request-Id", id_bytes)]
    if content_type is EVENT_STREAM:
        headers.append((b"Cache-Control", b"no-cache"))
    if (id_header := DIALECTS[dialect].request_id_header) is not None:
        headers.append((id_header, id_bytes))
    return headers


# Nudges


def nudged_body(call: Call, text: str) -> bytes | None:
    """Return the body with a text as its last message; None where that is not possible or valid.

    The bytes before it do not change, so prompt caches stay valid.
    """
    splice = DIALECTS[call.dialect].splice_nudge
    body = call.request.body
    if splice is None or not call.generates or len(body) > MAX_NUDGED_BYTES:
        return None
    if _is_sealed(call.request) or not _is_models_turn(call):
        return None
    return splice(body, text)


def _is_sealed(request: Request) -> bool:
    """Return whether the body is encoded or signed."""
    return any(
        name in SIGNATURES
        or (name == b"authorization" and value.startswith(b"AWS4-"))
        or (name == b"content-encoding" and value.strip().lower() not in (b"", b"identity"))
        for name, value in request.headers
    )


def _is_models_turn(call: Call) -> bool:
    """Return whether the model begins a turn, with a result for every tool call."""
    results: Counter[str] = Counter()
    for position, message in enumerate(call.backwards()):
        if not position and message.role not in ("user", "tool", "system"):
            return False  # a prefill that the model continues, or an unknown role
        results.update(result.call_id or result.name for result in message.results)
        if message.role == "assistant":
            return not Counter(made.id or made.name for made in message.calls) - results
    return bool(call.raws)


# Streams


def answer_reader(
    dialect: DialectName, stream: bool, *, keeps_calls: bool = True
) -> AnswerReader | None:
    """Return a reader for a passing answer of a dialect; None where answers have no text.

    `keeps_calls` is whether `answered_turn` is to follow.
    """
    parser_type = DIALECTS[dialect].stream_parser
    if parser_type is None:
        return None
    parser = parser_type()
    parser.keeps_calls = keeps_calls
    return AnswerReader(parser, stream)


def answered_turn(call: Call, answer: AnswerReader | bytes) -> AnsweredTurn | None:
    """Return an answer's tool calls as a request would repeat them.

    None where it is no answer of a model, or of an API that keeps the history and has no id.
    `answer` is whole (JSON, or all events of a stream), or has been read while it passed. Of a cut
    or very large answer, the turn has the items that were complete.
    """
    reader = _read_whole(call, answer) if isinstance(answer, bytes) else answer
    if reader is None or not reader.parser.keeps_calls:
        return None
    reader.read_rest()
    try:
        return reader.parser.answered_turn()
    except UNREADABLE:
        return None  # nested too deeply


def _read_whole(call: Call, answer: bytes) -> AnswerReader | None:
    """Return a reader that has read an answer as if it had passed."""
    reader = answer_reader(call.dialect, call.stream)
    if reader is not None:
        for start in range(0, len(answer), UNREAD_BYTES):
            reader.follow(answer[start : start + UNREAD_BYTES])
    return reader


def close_stream(reader: AnswerReader, error: bytes | None, comment: str) -> bytes | None:
    """Return the end of a stream of which only complete events have been sent.

    Without the body of an `error` it ends as if the model had finished. The comment is for people
    who read the bytes. None where the stream has ended already, or has a tool call in progress.
    """
    parser = reader.parser
    try:
        if not parser.can_end:
            return None
        end = parser.finish() if error is None else parser.fail(error)
    except UNREADABLE:
        return None  # a part that was not decoded until now is not JSON
    if (opening := reader.array_opening) is not None:
        return opening + end.removeprefix(b"data: ").rstrip() + b"\n]"
    return f": {comment}\n\n".encode() + end if parser.allows_comments else end


def fail_stream(dialect: DialectName, latest: bytes, error: bytes) -> bytes | None:
    """Return the events that report an error after the latest chunk of an abandoned stream.

    None where an event is incomplete, which cannot be undone, or where answers have no events.
    """
    parser = DIALECTS[dialect].stream_parser
    if parser is None or not is_between_events(latest):
        return None
    return parser().fail(error)
