"""Answers that the gateway gives itself, in the dialect of a call and ready for the wire."""

from __future__ import annotations

from collections import Counter

import msgspec

from looptrap.dialect.content import UNREADABLE, decode, encode, mend
from looptrap.dialect.model import Call, DialectName, Json, Refusal, Request
from looptrap.dialect.registry import DIALECTS
from looptrap.dialect.stream import EVENT_STREAM, JSON, AnswerReader, is_between_events

Headers = list[tuple[bytes, bytes]]

MAX_NUDGED_BYTES = 2 * 1024 * 1024
"""A splice reads the body once more; above this that would hold up every other call."""

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
"""Headers that vouch for the bytes of a body: changed, it would be refused."""


class Answer(msgspec.Struct, frozen=True):
    """One complete answer; framing headers are the wire's to add."""

    status: int
    headers: Headers
    body: bytes


def _described(
    headers: Headers, dialect: DialectName, request_id: str, content_type: bytes = JSON
) -> Headers:
    """Return the headers with those that name the content and the request added."""
    known_as = request_id.encode("latin-1", "replace")
    added = [(b"Content-Type", content_type), (b"X-Request-Id", known_as)]
    if content_type is EVENT_STREAM:
        added.append((b"Cache-Control", b"no-cache"))
    if (own := DIALECTS[dialect].request_id_header) is not None:
        added.append((own, known_as))
    return [*headers, *added]


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
    kind = "invalid_request_error" if status < 500 else "server_error"
    if status == 429:
        kind = "rate_limit_exceeded"
    fault = Refusal(status, code, kind, message, {"error": code, "message": message})
    body = DIALECTS[dialect].error_body(fault, request_id, None)
    waiting = [] if retry_after is None else [(b"Retry-After", b"%d" % retry_after)]
    return Answer(status, _described(waiting, dialect, request_id), encode(body))


def refusal_answer(call: Call, refusal: Refusal, headers: Headers, request_id: str) -> Answer:
    """Return the answer to a call that goes no further."""
    dialect = DIALECTS[call.dialect]
    return Answer(
        dialect.refusal_status or refusal.status,
        _described(headers, call.dialect, request_id),
        encode(dialect.error_body(refusal, request_id, call)),
    )


def final_answer(
    call: Call, text: str, headers: Headers, *, request_id: str, now: float
) -> Answer | None:
    """Return a last message of the dialect, as if the model had written it, to end a run with.

    A framework that handles no error still ends its run on it. None where no plain text can be
    the answer.
    """
    dialect = DIALECTS[call.dialect]
    final = dialect.final_message
    if final is None or not call.generates or call.opaque:
        return None
    sent = _sent(call)
    if sent is None or not final.takes_text(sent):
        return None
    write = final.stream if call.stream else final.body
    body = write(call, sent, text, request_id, now)
    kind = EVENT_STREAM if call.stream and dialect.is_event_stream(call) else JSON
    return Answer(200, _described(headers, call.dialect, request_id, kind), body)


def _sent(call: Call) -> Json | None:
    """Return the body that the call was read from; None where an unused part of it is no JSON."""
    body = call.request.body
    for restored in (bytes, mend):
        try:
            sent = decode(restored(body))
        except UNREADABLE:
            continue
        return sent if isinstance(sent, dict) else None
    return None


# Nudges


def nudged_body(call: Call, text: str) -> bytes | None:
    """Return the body with a text as its last message; None where it cannot or must not have one.

    Whatever stands before it keeps its bytes, so that prompt caches stay valid.
    """
    splice = DIALECTS[call.dialect].splice_nudge
    body = call.request.body
    if splice is None or not call.generates or len(body) > MAX_NUDGED_BYTES:
        return None
    if _is_sealed(call.request) or not _is_models_turn(call):
        return None
    return splice(body, text)


def _is_sealed(request: Request) -> bool:
    """Say whether the body is encoded or signed."""
    for name, value in request.headers:
        if name in SIGNATURES:
            return True
        if name == b"authorization" and value.startswith(b"AWS4-"):
            return True
        if name == b"content-encoding" and value.strip().lower() not in (b"", b"identity"):
            return True
    return False


def _is_models_turn(call: Call) -> bool:
    """Say whether the model is asked to begin a turn, with no tool call still unanswered."""
    results: Counter[str] = Counter()
    for place, message in enumerate(call.backwards()):
        if not place and message.role not in ("user", "tool", "system"):
            return False  # a prefill to be continued, or something unknown
        results.update(result.call_id or result.name for result in message.results)
        if message.role == "assistant":
            return not Counter(made.id or made.name for made in message.calls) - results
    return bool(call.raws)


# Streams


def answer_reader(dialect: DialectName, stream: bool) -> AnswerReader | None:
    """Return what reads a passing answer of a dialect; None where it has no text."""
    streaming = DIALECTS[dialect].streaming
    return AnswerReader(streaming.parser(), stream) if streaming is not None else None


def close_stream(
    dialect: DialectName, reader: AnswerReader, error: bytes | None, comment: str
) -> bytes | None:
    """Return what ends a stream of which only complete events have been sent.

    Without the body of an `error` it ends as if the model had finished. The comment is for people
    who look at the bytes. None where that cannot be done well: it ends already, or a tool call is
    under way.
    """
    streaming, parser = DIALECTS[dialect].streaming, reader.parser
    if streaming is None:
        return None
    try:
        if not parser.can_end:
            return None
        end = streaming.finish(parser) if error is None else streaming.fail(parser, error)
    except UNREADABLE:
        return None  # what was sent is no JSON in a part that was not needed until now
    if (opening := reader.array_opening) is not None:
        return opening + end.removeprefix(b"data: ").rstrip() + b"\n]"
    return f": {comment}\n\n".encode() + end if streaming.skips_comments else end


def fail_stream(dialect: DialectName, latest: bytes, error: bytes) -> bytes | None:
    """Return what reports an error after the latest chunk of a stream that its provider left.

    None where an event is under way, which nothing could take back, or there are none.
    """
    streaming = DIALECTS[dialect].streaming
    if streaming is None or not is_between_events(latest):
        return None
    return streaming.fail(streaming.parser(), error)
