"""Gemini's generateContent and streamGenerateContent, at Google's own path or on Vertex.

Google takes field names in camelCase and in snake_case; so do we.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any
from urllib.parse import parse_qs

import msgspec

from looptrap.dialect.content import (
    ABSENT,
    ROLES,
    UNREADABLE,
    arguments,
    canonical,
    decode,
    digest,
    encode,
    identity,
    malformed,
    model_in_path,
    part_text,
    raw_message,
    tool_names,
)
from looptrap.dialect.dialect import Dialect, FakeAnswer, FinalMessage, History, Streaming
from looptrap.dialect.fake_answer import ModelAnswer, Tokens, call_tokens
from looptrap.dialect.model import (
    Call,
    Json,
    Message,
    Refusal,
    Request,
    ToolCall,
    ToolResult,
    Usage,
)
from looptrap.dialect.splice import append_element, find_field
from looptrap.dialect.stream import StreamParser, events, sse_event
from looptrap.dialect.usage import Count, CountedAnswer, usage_finder


class _Body(msgspec.Struct, gc=False):
    contents: list[msgspec.Raw]
    systemInstruction: msgspec.Raw = ABSENT  # noqa: N815
    system_instruction: msgspec.Raw = ABSENT
    cachedContent: str | None = None  # noqa: N815
    cached_content: str | None = None
    tools: msgspec.Raw = ABSENT


_decode_body = msgspec.json.Decoder(_Body).decode


def read(request: Request, body: bytes) -> Call:
    """Read a generateContent body; raises what decoding raises."""
    sent = _decode_body(body)
    raws = sent.contents
    for system in (sent.systemInstruction, sent.system_instruction):
        if system != ABSENT:
            raws.insert(0, raw_message(b"system", system))
    return Call(
        request,
        "gemini",
        model=model_in_path(request.path),
        chain=sent.cachedContent or sent.cached_content or "",
        raws=raws,
        read=read_content,
        read_tools=None if sent.tools is ABSENT else partial(tool_names, sent.tools),
    )


def read_content(raw: msgspec.Raw) -> Message:
    """Read one entry of the contents."""
    try:
        sent = decode(raw)
        role, parts = _role_and_parts(sent)
        if not isinstance(role, str) or not isinstance(parts, list):
            return malformed(raw)
        return _message(ROLES.get(role, role), parts)
    except UNREADABLE:
        return malformed(raw)


def _role_and_parts(sent: object) -> tuple[object, object]:
    """Return the role (a user's where none is named) and the parts.

    Google's own client takes a bare string or part for a whole content, and so may a system
    instruction be one.
    """
    if not isinstance(sent, dict):
        return "user", [sent] if isinstance(sent, str) else None
    role = sent.get("role") or "user"
    if "parts" in sent:
        return role, sent["parts"] or []
    if "content" in sent:
        return role, _role_and_parts(sent["content"])[1]
    return role, [{key: value for key, value in sent.items() if key != "role"}]


def _message(role: str, parts: list[Any]) -> Message:
    texts: list[str] = []
    calls: list[ToolCall] = []
    results: list[ToolResult] = []
    for part in parts:
        if not isinstance(part, dict):
            texts.append(part_text(part))
        elif call := _field(part, "functionCall", "function_call"):
            calls.append(_tool_call(call))
        elif response := _field(part, "functionResponse", "function_response"):
            results.append(_tool_result(response))
        elif not part.get("thought") and (text := _text(part)):
            texts.append(text)
    if results and not texts and not calls:
        role = "tool"
    return Message(role, "\n".join(texts), tuple(calls), tuple(results))


def _field(part: Json, *names: str) -> Json | None:
    return next((part[name] for name in names if isinstance(part.get(name), dict)), None)


def _text(part: Json) -> str:
    text = part.get("text")
    if isinstance(text, str):
        return text
    return digest(min((key for key in part if isinstance(part[key], dict)), default="part"), part)


def _tool_call(sent: Json) -> ToolCall:
    return ToolCall(
        identity(sent.get("id")), identity(sent.get("name")), arguments(sent.get("args"))
    )


def _tool_result(sent: Json) -> ToolResult:
    response, media = sent.get("response"), sent.get("parts")
    return ToolResult(
        identity(sent.get("id")),
        f"{_output(response)}\n{digest('parts', {'parts': media})}" if media else _output(response),
        is_error=isinstance(response, dict) and bool(response.get("error")),
        name=identity(sent.get("name")),
    )


def _output(response: object) -> str:
    """Return a response's text: what it wraps, where it is a wrapper and nothing else."""
    if isinstance(response, dict) and len(response) == 1:
        ((key, value),) = response.items()
        # `output` and `error` by the API's own convention, `result` by that of Google's client.
        if key in ("output", "error", "result") and isinstance(value, str):
            return value
    return "" if response is None else canonical(response)


# Passing answers


class _AnswerPart(msgspec.Struct, gc=False):
    text: str | None = None
    thought: bool = False


class _AnswerContent(msgspec.Struct, gc=False):
    parts: list[_AnswerPart] = []


class _Candidate(msgspec.Struct, gc=False):
    index: int = 0
    content: _AnswerContent | None = None
    finish_reason: str | None = msgspec.field(default=None, name="finishReason")


class _Response(msgspec.Struct, gc=False):
    candidates: list[_Candidate] = []


class GeminiStreamParser(StreamParser):
    """Parses the candidates of a response."""

    __slots__ = ("open",)

    event = _Response

    def __init__(self) -> None:
        super().__init__()
        self.open: set[int] = set()
        """The candidates that have begun and not ended."""

    @property
    def can_end(self) -> bool:
        return bool(self.open)

    def parse(self, events: list[_Response]) -> None:
        for event in events:
            for candidate in event.candidates:
                index = candidate.index
                for part in candidate.content.parts if candidate.content else ():
                    if part.text:
                        key = (index, "thought") if part.thought else index
                        self.text(key).pieces.append(part.text)
                if candidate.finish_reason is None:
                    self.open.add(index)
                else:
                    self.open.discard(index)


def _finish_stream(parser: GeminiStreamParser) -> bytes:
    """Return a last response that ends every candidate that is open."""
    nothing = {"role": "model", "parts": [{"text": ""}]}
    ends = [
        {"content": nothing, "finishReason": "STOP", "index": index}
        for index in sorted(parser.open)
    ]
    return events([{**msgspec.json.decode(parser.latest), "candidates": ends}])


def _fail_stream(_parser: GeminiStreamParser, body: bytes) -> bytes:
    return b"data: %b\n\n" % body


# Final messages

_SCHEMAS = ("responseSchema", "response_schema", "responseJsonSchema", "response_json_schema")

_NO_TOKENS = {"promptTokenCount": 0, "candidatesTokenCount": 0, "totalTokenCount": 0}


def _takes_text(sent: Json) -> bool:
    config = _sent_table(sent, "generationConfig", "generation_config")
    if _sent_field(config, "responseMimeType", "response_mime_type") not in (
        None,
        "",
        "text/plain",
    ):
        return False
    if _sent_field(config, *_SCHEMAS):
        return False
    modalities = _sent_field(config, "responseModalities", "response_modalities")
    if isinstance(modalities, list) and modalities and "TEXT" not in modalities:
        return False
    tools = _sent_table(sent, "toolConfig", "tool_config")
    calling = _sent_table(tools, "functionCallingConfig", "function_calling_config")
    return calling.get("mode") != "ANY"


def _is_event_stream(call: Call) -> bool:
    """Say whether a streaming client reads events; without `alt=sse` it reads a JSON array."""
    query = parse_qs(call.request.query)
    return "sse" in query.get("alt", []) + query.get("$alt", [])


def _final_body(call: Call, _sent: Json, text: str, request_id: str, _now: float) -> bytes:
    return encode(_final_response(call, text, request_id))


def _final_stream(call: Call, _sent: Json, text: str, request_id: str, _now: float) -> bytes:
    """Return the content as a stream of one event, or as an array of one."""
    response = [_final_response(call, text, request_id)]
    return events(response) if _is_event_stream(call) else encode(response)


def _final_response(call: Call, text: str, request_id: str) -> Json:
    content = {"role": "model", "parts": [{"text": text}]}
    return {
        "candidates": [{"content": content, "finishReason": "STOP", "index": 0}],
        "usageMetadata": _NO_TOKENS,
        "modelVersion": call.model,
        "responseId": request_id,
    }


def _sent_field(table: Json, *names: str) -> Any:
    return next((table[name] for name in names if table.get(name) is not None), None)


def _sent_table(table: Json, *names: str) -> Json:
    found = _sent_field(table, *names)
    return found if isinstance(found, dict) else {}


# Errors, nudges and usage

_ERROR_STATUSES = {
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    408: "DEADLINE_EXCEEDED",
    429: "RESOURCE_EXHAUSTED",
    502: "UNAVAILABLE",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}


def _error_body(refusal: Refusal, _request_id: str, _call: Call | None) -> Json:
    other = "INVALID_ARGUMENT" if refusal.status < 500 else "INTERNAL"
    # No RetryInfo beside it: clients take that as an invitation to send the same again.
    info = {
        "@type": "type.googleapis.com/google.rpc.ErrorInfo",
        "reason": refusal.code.upper(),
        "domain": "looptrap",
    }
    error = {
        "code": refusal.status,
        "message": refusal.message,
        "status": _ERROR_STATUSES.get(refusal.status, other),
        "details": [info],
    }
    return {"error": error, "detail": refusal.detail}


def _splice_nudge(body: bytes, text: str) -> bytes | None:
    # A content of its own: one with function responses must hold exactly as many as were called.
    contents = find_field(body, "contents")
    nudge = encode({"role": "user", "parts": [{"text": text}]})
    return contents and append_element(body, contents, nudge)


class _CountedPart(msgspec.Struct, gc=False, rename="camel"):
    modality: str = ""
    token_count: Count = 0


class GeminiCounts(msgspec.Struct, rename="camel"):
    """Google counts thoughts apart from what the candidates say."""

    prompt_token_count: Count
    tool_use_prompt_token_count: Count | None = None
    candidates_token_count: Count | None = None
    thoughts_token_count: Count | None = None
    cached_content_token_count: Count | None = None
    prompt_tokens_details: list[_CountedPart] | None = None
    candidates_tokens_details: list[_CountedPart] | None = None

    def usage(self) -> Usage:
        """Return the counts in neutral form."""
        thought = self.thoughts_token_count or 0
        asked, said = self.prompt_tokens_details, self.candidates_tokens_details
        return Usage(
            self.prompt_token_count + (self.tool_use_prompt_token_count or 0),
            (self.candidates_token_count or 0) + thought,
            self.cached_content_token_count or 0,
            thought,
            audio_input_tokens=_audio(asked) if asked else 0,
            audio_output_tokens=_audio(said) if said else 0,
        )


def _audio(parts: list[_CountedPart]) -> int:
    return sum(part.token_count for part in parts if part.modality == "AUDIO")


class _CountedAnswer(CountedAnswer[GeminiCounts], gc=False):
    usage: GeminiCounts = msgspec.field(name="usageMetadata")


# Fake answers


def _fake_body(answer: ModelAnswer, _call: Call) -> Json:
    return _fake_response(answer, _fake_parts(answer), "STOP")


def _fake_stream(answer: ModelAnswer, call: Call) -> Iterator[bytes]:
    """Return the answer as events, each with counts so far; without `alt=sse`, as one array."""
    if _is_event_stream(call):
        yield from map(sse_event, _fake_pieces(answer))
        return
    for index, piece in enumerate(_fake_pieces(answer)):
        yield (b",\r\n" if index else b"[") + encode(piece)
    yield b"\n]\n"


def _fake_token_count(call: Call) -> Json:
    return {"totalTokens": call_tokens(call).input}


def _fake_error(status: int) -> Json:
    names = {
        400: "INVALID_ARGUMENT",
        401: "UNAUTHENTICATED",
        403: "PERMISSION_DENIED",
        404: "NOT_FOUND",
        429: "RESOURCE_EXHAUSTED",
        503: "UNAVAILABLE",
        504: "DEADLINE_EXCEEDED",
    }
    name = names.get(status, "INTERNAL" if status >= 500 else "FAILED_PRECONDITION")
    message = f"The fake provider was told to answer {status}."
    return {"error": {"code": status, "message": message, "status": name}}


def _fake_pieces(answer: ModelAnswer) -> Iterator[Json]:
    # Each word is a response of its own; the counts of the output come with the last one.
    for word in answer.words():
        yield _fake_response(answer, [{"text": word}], None)
    calls = [part for part in _fake_parts(answer) if "functionCall" in part]
    yield _fake_response(answer, calls or [{"text": ""}], "STOP")


def _fake_response(answer: ModelAnswer, parts: list[Json], reason: str | None) -> Json:
    candidate: Json = {"content": {"parts": parts, "role": "model"}, "index": 0}
    usage: Json = {"promptTokenCount": answer.tokens.input}
    if reason:
        candidate["finishReason"] = reason
        usage |= _fake_counts(answer.tokens)
    return {
        "candidates": [candidate],
        "usageMetadata": usage,
        "modelVersion": answer.model,
        "responseId": f"fake-{answer.number}",
    }


def _fake_counts(tokens: Tokens) -> Json:
    # Google counts thoughts apart from what the candidates say.
    return {
        "candidatesTokenCount": tokens.output - tokens.reasoning,
        "thoughtsTokenCount": tokens.reasoning,
        "cachedContentTokenCount": tokens.cached,
        "totalTokenCount": tokens.input + tokens.output,
    }


def _fake_parts(answer: ModelAnswer) -> list[Json]:
    text = [{"text": answer.text}] if answer.text else []
    calls = [
        {"functionCall": {"name": call.name, "args": dict(call.arguments)}} for call in answer.calls
    ]
    return text + calls


DIALECT = Dialect(
    name="gemini",
    read=read,
    error_body=_error_body,
    history=History(read_content),
    final_message=FinalMessage(_takes_text, _final_body, _final_stream),
    is_event_stream=_is_event_stream,
    streaming=Streaming(GeminiStreamParser, _finish_stream, _fail_stream, skips_comments=False),
    splice_nudge=_splice_nudge,
    counted_answer=_CountedAnswer,
    find_usage=usage_finder(GeminiCounts, b'"usageMetadata"'),
    fake=FakeAnswer(_fake_body, _fake_stream),
    fake_fixed=_fake_token_count,
    fake_error=_fake_error,
)
