"""Answers of providers: heard, counted, cut off, and told apart when they failed."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from fuzz.target import Target, cuts, pick, seed
from fuzz.targets.call import LOOP, decoded
from looptrap.dialect.answer import answer_reader, answered_turn, failure
from looptrap.dialect.content import encode
from looptrap.dialect.dialect import ModelAnswer
from looptrap.dialect.model import Call, DialectName, Request, ToolCall, Usage
from looptrap.dialect.registry import DIALECTS, read
from looptrap.dialect.stream import AnswerReader, framing_of
from looptrap.dialect.usage_meter import UsageReader, usage_of
from looptrap.gateway.upstream.attempt import ResponseBuffer
from looptrap.policy.action import Action
from looptrap.policy.stream_guard import end_stream
from looptrap.retry.classify import classify_answer, classify_event
from looptrap.retry.failure import parse_error_body

KINDS: tuple[tuple[DialectName, bool], ...] = (
    ("openai_chat", True),
    ("openai_chat", False),
    ("openai_responses", True),
    ("openai_responses", False),
    ("openai_completions", True),
    ("anthropic", True),
    ("anthropic", False),
    ("gemini", True),
    ("gemini", False),
    ("openai_embeddings", False),
    ("http", False),
    ("gemini_interactions", True),
    ("gemini_interactions", False),
)
PATHS: dict[DialectName, str] = {
    "openai_chat": "/v1/chat/completions",
    "openai_responses": "/v1/responses",
    "openai_completions": "/v1/completions",
    "anthropic": "/v1/messages",
    "gemini": "/v1beta/models/m:streamGenerateContent",
    "gemini_interactions": "/v1beta/interactions",
}
BODIES = {
    "openai_responses": b'{"model":"m","input":"hi"}',
    "gemini": b'{"contents":[]}',
    "gemini_interactions": b'{"model":"m","input":"hi"}',
}
TURNS: tuple[tuple[DialectName, bool], ...] = (
    ("openai_responses", True),
    ("openai_responses", False),
    ("gemini_interactions", True),
    ("gemini_interactions", False),
    ("openai_chat", True),
    ("openai_chat", False),
    ("anthropic", True),
    ("anthropic", False),
    ("gemini", True),
    ("gemini", False),
)
"""The answers whose tool calls are read."""

ODD_TURNS: tuple[tuple[tuple[DialectName, bool], tuple[bytes, ...]], ...] = (
    (("openai_chat", True), (
        b'{"choices":[{"delta":{"tool_calls":[{"id":"a","custom":{"name":"s","input":"x"}}]}}]}',
        b'{"choices":[{"delta":{"tool_calls":[{"custom":{"input":"y"}}]}}]}',
        b'{"choices":[{"delta":{"tool_calls":[{"index":1,"function":{"name":"f"}}]}}]}',
        b'{"choices":[{"delta":{},"finish_reason":"tool_calls"}]}',
    )),
    (("openai_chat", True), (
        b'{"choices":[{"delta":{"function_call":{"name":"f","arguments":"{"}}}]}',
        b'{"choices":[{"delta":{"function_call":{"arguments":"}"}}}]}',
    )),
    (("anthropic", True), (
        b'{"type":"content_block_start","content_block":{"type":"server_tool_use","id":"s"}}',
        b'{"type":"content_block_stop"}',
        b'{"type":"content_block_start","index":1,"content_block":{"type":"web_search_tool_result"}}',
        b'{"type":"content_block_stop","index":1}',
    )),
    (("gemini", True), (
        b'{"candidates":[{"content":{"parts":[{"functionCall":{"name":"f","willContinue":true}}]}}]}',
        b'{"candidates":[{"content":{"parts":[{"functionCall":{"partialArgs":'
        b'[{"jsonPath":"$.a[0].b","stringValue":"x"}]}}]}}]}',
    )),
)  # fmt: skip

HEADERS = [(b"retry-after", b"3"), (b"x-should-retry", b"false")]
WORDS = (
    b"data: ", b"event: error\n", b"\n\n", b"data: [DONE]\n\n", b'"usage":', b'"usageMetadata":',
    b'"error":', b'"response":', b'"message":', b'"delta":', b'"choices":', b'"index":',
    b'"content_block":', b'"type":"content_block_delta"', b'"type":"response.failed"',
    b'"tool_calls":[{"index":1,"function":{"arguments":"', b'"partial_json":"', b'"functionCall":{',
    b'"event_type":"step.delta"', b'"interaction":', b'"step":', b'"arguments":', b'"steps":',
)  # fmt: skip


def check_usage(data: bytes) -> None:
    """What was used is the same however the answer came in chunks, and no exception."""
    (dialect, stream), text = pick(data, KINDS)
    found = []
    for chunks in ([text], cuts(text)):
        reader = UsageReader(dialect, stream)
        for chunk in chunks:
            reader.feed(chunk)
        found.append(reader.finish())
    assert found[0] == found[1], "another usage when cut in other places"
    usage_of(dialect, text)


def check_hearing(data: bytes) -> None:
    """Hear a stream in any chunks, and end it where it stands: what is sent then is whole."""
    (dialect, stream), text = pick(data, KINDS)
    heard = []
    # No answer is read before some of it is there: how it begins tells how it goes on.
    for chunks in ([text], [text[:64], *cuts(text[64:])]):
        hearing = answer_reader(dialect, stream)
        if hearing is None:
            return
        _hear(hearing, chunks)
        if stream:
            _cut(dialect, hearing)
        heard.append({key: one.size for key, one in hearing.parser.texts.items()})
    assert heard[0] == heard[1], "other texts when cut in other places"


def _hear(hearing: AnswerReader, chunks: list[bytes]) -> None:
    for chunk in chunks:
        hearing.feed(chunk)
        hearing.read()
        assert hearing.is_between_events in (True, False)
    for one in chunks[-1:]:
        end = hearing.take_event(one)
        assert end is None or 0 <= end <= len(one)


def _cut(dialect: DialectName, hearing: AnswerReader) -> None:
    body = BODIES.get(dialect, b'{"model":"m","messages":[],"stream":true}')
    call = read(Request(path=PATHS[dialect], body=body))
    for action in (Action.STOP, Action.BLOCK):
        verdict = msgspec.structs.replace(LOOP, action=action)
        end = end_stream(call, hearing, verdict, request_id="r", block_status=429)
        if end is not None and not end.rstrip().endswith(b"]"):
            for line in end.split(b"\n"):
                if line.startswith(b"data:") and line[5:].strip() != b"[DONE]":
                    decoded(line[5:])


def check_turn(data: bytes) -> None:
    """The tool calls of an answer are the same in any chunks, and no exception."""
    (dialect, stream), text = pick(data, TURNS)
    call = Call(Request(body=b"{}"), dialect, stream=stream)
    hearing = answer_reader(dialect, stream)
    assert hearing is not None
    for chunk in cuts(text):
        hearing.follow(chunk)
    assert answered_turn(call, hearing) == answered_turn(call, text), "another turn in chunks"


def check_framing(data: bytes) -> None:
    """Events are the same in any chunks, and never more bytes than came."""
    found = []
    for chunks in ([data], cuts(data)):
        framing = framing_of(data)
        events = [event for chunk in chunks for event in framing.feed(chunk)]
        found.append([one for one in events if one.strip() != b"[DONE]"] + framing.finish())
    assert found[0] == found[1], "other events when cut in other places"
    assert sum(map(len, found[0])) <= len(data)


def check_error(data: bytes) -> None:
    """A failed answer means something, whatever its body; never an exception."""
    status, body = pick(data, (400, 401, 402, 403, 404, 408, 409, 413, 422, 429, 500, 503, 529))
    assert classify_answer(status, HEADERS, body, 1.0) is not None
    fields = [(b"retry-after", body[:80]), (b"date", body[80:160]), (b"retry-after-ms", body[:9])]
    failure = classify_answer(status, fields, b"", 1.0)
    assert failure is not None
    assert failure.retry_after is None or failure.retry_after >= 0
    classify_event(body)
    parse_error_body(body)
    held = ResponseBuffer(200, b"OK", [], None, True, True)
    for chunk in cuts(body):
        held.take(chunk)
        if held.look(chunk) is not False:
            break
    held.classified(1.0)


def seeds() -> Iterator[bytes]:
    """Yield answers of every dialect, as the fake provider writes them, streamed and whole."""
    tool_call = ToolCall("", "search", '{"q":"weather"}')
    for pieces, calls in ((["word "] * 9, ()), ([], (tool_call,))):
        for place, (dialect, stream) in enumerate(KINDS):
            writer = DIALECTS[dialect].writer
            for query in ("", "alt=sse") if stream and dialect == "gemini" else ("",):
                call = Call(Request(query=query, body=b"{}"), dialect, model="m")
                answer = ModelAnswer(call, {}, "1", 1_750_000_000, pieces, calls, Usage(12, 34))
                if writer is not None and stream:
                    yield seed(place, b"".join(writer.stream(answer)))
                elif writer is not None:
                    yield seed(place, encode(writer.body(answer)))


def turns() -> Iterator[bytes]:
    """Yield the answers whose tool calls are read, and some in forms that no writer has."""
    for one in seeds():
        kind, text = pick(one, KINDS)
        if kind in TURNS:
            yield seed(TURNS.index(kind), text)
    for kind, lines in ODD_TURNS:
        yield seed(TURNS.index(kind), b"".join(b"data: %b\n\n" % line for line in lines))


def framed() -> Iterator[bytes]:
    """Yield the same without the byte that says what they are."""
    return (one[1:] for one in seeds())


def failed() -> Iterator[bytes]:
    """Yield errors as providers write them."""
    for place, status in enumerate((400, 401, 429, 500, 529)):
        for dialect in DIALECTS:
            error = failure(dialect, status=status, code="c", message="m", request_id="r").body
            yield seed(place, error)
            yield seed(place, b"event: error\ndata: " + error + b"\n\n")
    yield seed(9, b'{"error":{"code":"rate_limit","message":"Please try again in 1h2m3.5s"}}')
    yield seed(
        9, b'[{"error":{"details":[{"retryDelay":"3s"},{"violations":[{"quotaId":"PerDay"}]}]}}]'
    )


TARGETS = [
    Target(name="usage", check=check_usage, seeds=seeds, words=WORDS),
    Target(name="hearing", check=check_hearing, seeds=seeds, words=WORDS),
    Target(name="turn", check=check_turn, seeds=turns, words=WORDS),
    Target(name="framing", check=check_framing, seeds=framed, words=WORDS),
    Target(name="error", check=check_error, seeds=failed, words=WORDS),
]
