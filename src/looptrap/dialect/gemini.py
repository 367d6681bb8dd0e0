"""Gemini's generateContent and streamGenerateContent, at Google's own path or on Vertex.

Google accepts field names in camelCase and in snake_case; so does this module.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import groupby
from typing import Any
from urllib.parse import parse_qs

import msgspec

from looptrap.dialect.content import (
    ABSENT,
    ROLES,
    UNREADABLE,
    MessageParts,
    canonical,
    decode,
    decode_or_none,
    digest,
    encode,
    id_text,
    malformed_message,
    part_text,
    raw_message,
    read_tool_call,
    tool_names,
    untyped_text,
)
from looptrap.dialect.dialect import AnswerWriter, Count, Dialect, History, ModelAnswer, UsageFormat
from looptrap.dialect.model import (
    AnsweredTurn,
    Call,
    Json,
    Message,
    Refusal,
    Request,
    ToolCall,
    ToolResult,
    Usage,
)
from looptrap.dialect.path import model_in_path
from looptrap.dialect.splice import append_element, find_field
from looptrap.dialect.stream import CALL_CHARS, StreamParser, sse_event


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
            return malformed_message(raw)
        return _message(ROLES.get(role, role), parts)
    except UNREADABLE:
        return malformed_message(raw)


def _role_and_parts(sent: object) -> tuple[object, object]:
    """Return the role (`user` by default) and the parts.

    Google's own client accepts a bare string or part as a whole content, or system instruction.
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
    found = MessageParts()
    for part in parts:
        if not isinstance(part, dict):
            found.texts.append(part_text(part))
        elif call := _table(part, "functionCall", "function_call"):
            found.calls.append(read_tool_call(call, "id", "args"))
        elif response := _table(part, "functionResponse", "function_response"):
            found.results.append(_tool_result(response))
        elif not part.get("thought") and (text := untyped_text(part)):
            found.texts.append(text)
    if found.results and not found.texts and not found.calls:
        role = "tool"
    return found.message(role)


def _table(sent: Json, *names: str) -> Json:
    """Return the first of these fields that is an object; an empty one where none is."""
    return next((sent[name] for name in names if isinstance(sent.get(name), dict)), {})


def _tool_result(sent: Json) -> ToolResult:
    response, media = sent.get("response"), sent.get("parts")
    return ToolResult(
        id_text(sent.get("id")),
        f"{_output(response)}\n{digest('parts', {'parts': media})}" if media else _output(response),
        is_error=isinstance(response, dict) and bool(response.get("error")),
        name=id_text(sent.get("name")),
    )


def _output(response: object) -> str:
    """Return a response's text: the content of one that is only a wrapper, else its JSON."""
    if isinstance(response, dict) and len(response) == 1:
        ((key, value),) = response.items()
        # The API's convention is `output` and `error`, that of Google's client `result`.
        if key in ("output", "error", "result") and isinstance(value, str):
            return value
    return "" if response is None else canonical(response)


# Passing answers


class _AnswerPart(msgspec.Struct, gc=False, rename="camel"):
    text: str | None = None
    thought: bool = False
    function_call: msgspec.Raw = ABSENT


class _AnswerContent(msgspec.Struct, gc=False):
    parts: list[_AnswerPart] = []


class _Candidate(msgspec.Struct, gc=False):
    index: int = 0
    content: _AnswerContent | None = None
    finish_reason: str | None = msgspec.field(default=None, name="finishReason")


class _Response(msgspec.Struct, gc=False):
    candidates: list[_Candidate] = []


class _ResponseId(msgspec.Struct, gc=False):
    id: Any = msgspec.field(default=None, name="responseId")


class _CallContinuation(msgspec.Struct, gc=False):
    will_continue: Any = msgspec.field(default=None, name="willContinue")


# A name, a quoted name in brackets, or an index, of a JSON path.
_PATH_STEP = re.compile(r"""(?<=\.)[^.\[\]]+|(?<=\[)(?:'[^']*'|"[^"]*"|\d+)(?=\])""")

_decode_response_id = msgspec.json.Decoder(_ResponseId).decode
_decode_continuation = msgspec.json.Decoder(_CallContinuation).decode


class GeminiStreamParser(StreamParser):
    """Parses the candidates of a response; keeps the function calls of the first one."""

    __slots__ = ("_calls", "_has_begun", "has_open_call")

    event = _Response
    allows_comments = False

    def __init__(self) -> None:
        super().__init__()
        self._calls: list[bytes] = []
        self._has_begun = False
        self.has_open_call = False
        """Whether a function call has begun and not ended: it must not be cut in half."""

    @property
    def can_end(self) -> bool:
        return bool(self.open) and not self.has_open_call

    def parse(self, events: list[_Response]) -> None:
        for event in events:
            for candidate in event.candidates:
                index = candidate.index
                for part in candidate.content.parts if candidate.content else ():
                    if part.text:
                        key = (index, "thought") if part.thought else index
                        self.texts[key].pieces.append(part.text)
                    elif part.function_call is not ABSENT:
                        self._take_call(index, part.function_call)
                if candidate.finish_reason is None:
                    self.open[index] = True
                else:
                    self.open.pop(index, None)
        self._has_begun = self._has_begun or any(event.candidates for event in events)

    def _take_call(self, index: int, raw: msgspec.Raw) -> None:
        call = decode_or_none(raw, _decode_continuation)
        self.has_open_call = call is not None and bool(call.will_continue)
        if self.keeps_calls and index == 0:
            self._calls.append(bytes(raw))
            self.kept_chars += CALL_CHARS + len(raw)

    def answered_turn(self) -> AnsweredTurn | None:
        if not self._has_begun:
            return None
        shown = decode_or_none(self.latest, _decode_response_id) or _ResponseId()
        return AnsweredTurn.of_calls(id_text(shown.id), tuple(_join_calls(self._calls)))

    def finish(self) -> bytes:
        """Return a last response that ends every open candidate."""
        content = {"role": "model", "parts": [{"text": ""}]}
        ends = [
            {"content": content, "finishReason": "STOP", "index": index}
            for index in sorted(self.open)
        ]
        return sse_event({**decode(self.latest), "candidates": ends})

    def fail(self, error: bytes) -> bytes:
        return b"data: %b\n\n" % error


def _join_calls(raws: Iterable[bytes]) -> Iterator[ToolCall]:
    """Yield function calls, each from its parts where its arguments came bit by bit."""
    call: Json = {}
    bits: list[Json] = []
    for raw in raws:
        sent = decode_or_none(raw)
        if not isinstance(sent, dict):
            continue
        if not call or sent.get("name"):
            call, bits = sent, []
        if isinstance(sent.get("partialArgs"), list):
            bits += (bit for bit in sent["partialArgs"] if isinstance(bit, dict))
        if call and not sent.get("willContinue"):
            yield read_tool_call({**call, "args": _arguments(bits)} if bits else call, "id", "args")
            call = {}


def _arguments(bits: Iterable[Json]) -> Any:
    """Return arguments from bits of text and other values, each with its path."""
    tree: Json = {}
    for path, group in groupby(bits, lambda bit: bit.get("jsonPath")):
        values = [_value_of(bit) for bit in group]
        texts = [value for value in values if isinstance(value, str)]
        _put(tree, str(path), "".join(texts) if texts else values[-1])
    return _with_lists(tree)


def _value_of(bit: Json) -> object:
    return bit.get("stringValue", bit.get("numberValue", bit.get("boolValue")))


def _put(tree: Json, path: str, value: object) -> None:
    """Put a value at a path such as `$.files[0].name`; its indexes are keys too."""
    *steps, last = _PATH_STEP.findall(path) or [""]
    for step in steps:
        tree = tree.setdefault(step, {})
        if not isinstance(tree, dict):
            return
    tree[last] = value


def _with_lists(tree: Any) -> Any:
    """Return the tree with a list for each object whose keys are indexes."""
    if not isinstance(tree, dict):
        return tree
    values = {step.strip("'\""): _with_lists(value) for step, value in tree.items()}
    return list(values.values()) if tree and all(map(str.isdecimal, tree)) else values


# Answers

_SCHEMAS = ("responseSchema", "response_schema", "responseJsonSchema", "response_json_schema")


def _takes_text(sent: Json) -> bool:
    config = _table(sent, "generationConfig", "generation_config")
    mime_type = _field(config, "responseMimeType", "response_mime_type")
    if mime_type not in (None, "", "text/plain") or _field(config, *_SCHEMAS):
        return False
    modalities = _field(config, "responseModalities", "response_modalities")
    if isinstance(modalities, list) and modalities and "TEXT" not in modalities:
        return False
    tools = _table(sent, "toolConfig", "tool_config")
    calling = _table(tools, "functionCallingConfig", "function_calling_config")
    return calling.get("mode") != "ANY"


def _field(sent: Json, *names: str) -> Any:
    return next((sent[name] for name in names if sent.get(name) is not None), None)


def _is_event_stream(call: Call) -> bool:
    """Return whether a streaming client reads events; without `alt=sse` it reads a JSON array."""
    query = parse_qs(call.request.query)
    return "sse" in query.get("alt", []) + query.get("$alt", [])


def _write_body(answer: ModelAnswer) -> Json:
    texts: list[Json] = [{"text": answer.text}] if answer.text else []
    return _response(answer, texts + _function_calls(answer), "STOP")


def _write_stream(answer: ModelAnswer) -> Iterator[bytes]:
    """Yield the responses as events or, without `alt=sse`, as the elements of an array."""
    if _is_event_stream(answer.call):
        yield from map(sse_event, _responses(answer))
        return
    for index, response in enumerate(_responses(answer)):
        yield (b",\r\n" if index else b"[") + encode(response)
    yield b"\n]\n"


def _responses(answer: ModelAnswer) -> Iterator[Json]:
    if len(answer.pieces) < 2:
        yield _write_body(answer)
        return
    for piece in answer.pieces:
        yield _response(answer, [{"text": piece}], None)
    yield _response(answer, _function_calls(answer) or [{"text": ""}], "STOP")


def _function_calls(answer: ModelAnswer) -> list[Json]:
    return [
        {"functionCall": {"name": call.name, "args": decode(call.arguments)}}
        for call in answer.calls
    ]


def _response(answer: ModelAnswer, parts: list[Json], reason: str | None) -> Json:
    """Return one response; only the last, which has a reason, counts the output."""
    candidate: Json = {"content": {"role": "model", "parts": parts}, "index": 0}
    usage = answer.usage
    counts = {"promptTokenCount": usage.input_tokens}
    if reason:
        candidate["finishReason"] = reason
        counts |= {
            "candidatesTokenCount": usage.output_tokens - usage.reasoning_tokens,
            "thoughtsTokenCount": usage.reasoning_tokens,
            "cachedContentTokenCount": usage.cached_tokens,
            "totalTokenCount": usage.tokens,
        }
    return {
        "candidates": [candidate],
        "usageMetadata": counts,
        "modelVersion": answer.call.model,
        "responseId": answer.id,
    }


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


def error_body(refusal: Refusal, _request_id: str, _call: Call | None) -> Json:
    """Return an error in the shape of all of Google's APIs."""
    default = "INVALID_ARGUMENT" if refusal.status < 500 else "INTERNAL"
    error: Json = {
        "code": refusal.status,
        "message": refusal.message,
        "status": _ERROR_STATUSES.get(refusal.status, default),
    }
    if refusal.detail is not None:
        # Without RetryInfo: clients would send the same request again.
        info = {
            "@type": "type.googleapis.com/google.rpc.ErrorInfo",
            "reason": refusal.code.upper(),
            "domain": "looptrap",
        }
        error["details"] = [info]
    return {"error": error, **refusal.detail_field}


def _splice_nudge(body: bytes, text: str) -> bytes | None:
    # In a content of its own: one with function responses must have exactly one for each call.
    contents = find_field(body, "contents")
    nudge = encode({"role": "user", "parts": [{"text": text}]})
    return contents and append_element(body, contents, nudge)


class CountedPart(msgspec.Struct, gc=False, rename="camel"):
    """The tokens of one modality."""

    modality: str = ""
    token_count: Count = 0


class GeminiCounts(msgspec.Struct, rename="camel"):
    """Google's counts, which have thoughts apart from the text of the candidates."""

    prompt_token_count: Count
    tool_use_prompt_token_count: Count | None = None
    candidates_token_count: Count | None = None
    thoughts_token_count: Count | None = None
    cached_content_token_count: Count | None = None
    prompt_tokens_details: Sequence[CountedPart] | None = None
    candidates_tokens_details: Sequence[CountedPart] | None = None

    def usage(self) -> Usage:
        """Return the counts in neutral form."""
        thought = self.thoughts_token_count or 0
        return Usage(
            self.prompt_token_count + (self.tool_use_prompt_token_count or 0),
            (self.candidates_token_count or 0) + thought,
            self.cached_content_token_count or 0,
            thought,
            audio_input_tokens=_count_audio(self.prompt_tokens_details),
            audio_output_tokens=_count_audio(self.candidates_tokens_details),
        )


def _count_audio(parts: Sequence[CountedPart] | None) -> int:
    return sum(part.token_count for part in parts or () if part.modality.upper() == "AUDIO")


DIALECT: Dialect = Dialect(
    name="gemini",
    read=read,
    error_body=error_body,
    history=History(read_content),
    writer=AnswerWriter(_takes_text, _write_body, _write_stream),
    is_event_stream=_is_event_stream,
    stream_parser=GeminiStreamParser,
    splice_nudge=_splice_nudge,
    usage=UsageFormat((GeminiCounts,), "usageMetadata"),
    fake_without_model=lambda call: {"totalTokens": call.estimated_input},
)
