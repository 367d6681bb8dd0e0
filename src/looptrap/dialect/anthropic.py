"""Anthropic Messages, at Anthropic's own path or hosted on Vertex."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import msgspec

from looptrap.dialect.content import (
    ABSENT,
    ROLES,
    UNREADABLE,
    arguments,
    decode,
    encode,
    flatten,
    identity,
    malformed,
    model_in_path,
    part_text,
    raw_message,
    tool_names,
)
from looptrap.dialect.dialect import Dialect, FakeAnswer, FinalMessage, History, Streaming
from looptrap.dialect.fake_answer import ModelAnswer, Tokens, call_tokens, halves
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
from looptrap.dialect.splice import append_element, find_field, last_element, wrap_value
from looptrap.dialect.stream import StreamParser, named_events, sse_event
from looptrap.dialect.usage import (
    IN_MESSAGE,
    NO_DETAILS,
    AnswerEnds,
    Count,
    CountedAnswer,
    TokenDetails,
    last_value,
    read_counts,
)


class _Body(msgspec.Struct, gc=False):
    messages: list[msgspec.Raw]
    model: str | None = None
    stream: Any = None
    system: msgspec.Raw = ABSENT
    metadata: Any = None
    tools: msgspec.Raw = ABSENT


class _Message(msgspec.Struct, gc=False):
    role: str
    content: str | list[Any]


_decode_body = msgspec.json.Decoder(_Body).decode
_decode_message = msgspec.json.Decoder(_Message).decode


def read(request: Request, body: bytes) -> Call:
    """Read a Messages body; raises what decoding raises."""
    sent = _decode_body(body)
    raws = sent.messages
    if sent.system != ABSENT:
        raws.insert(0, raw_message(b"system", sent.system))
    metadata = sent.metadata
    return Call(
        request,
        "anthropic",
        model=sent.model or model_in_path(request.path),
        stream=sent.stream is True,
        user=identity(metadata.get("user_id")) if type(metadata) is dict else "",
        raws=raws,
        read=read_message,
        read_tools=None if sent.tools is ABSENT else partial(tool_names, sent.tools),
    )


def read_message(raw: msgspec.Raw) -> Message:
    """Read one message of the history."""
    try:
        return _message(_decode_message(raw))
    except UNREADABLE:
        return malformed(raw)


def _message(sent: _Message) -> Message:
    role = ROLES.get(sent.role, sent.role)
    if isinstance(sent.content, str):
        return Message(role, sent.content)
    texts: list[str] = []
    calls: list[ToolCall] = []
    results: list[ToolResult] = []
    for block in sent.content:
        kind = str(block.get("type")) if isinstance(block, dict) else ""
        if kind.endswith("tool_use"):
            calls.append(_tool_call(block))
        elif kind.endswith("tool_result"):
            results.append(_tool_result(block))
        elif text := part_text(block):
            texts.append(text)
    if results and role == "user" and not texts:
        role = "tool"
    return Message(role, "\n".join(texts), tuple(calls), tuple(results))


def _tool_call(block: Json) -> ToolCall:
    return ToolCall(
        identity(block.get("id")), identity(block.get("name")), arguments(block.get("input"))
    )


def _tool_result(block: Json) -> ToolResult:
    call_id, content = identity(block.get("tool_use_id")), block.get("content")
    # The server's own tools report a failure by a code in place of their content.
    if isinstance(content, dict) and "error_code" in content:
        return ToolResult(call_id, identity(content["error_code"]), is_error=True)
    return ToolResult(call_id, flatten(content), is_error=block.get("is_error") is True)


# Passing answers

_TEXT_BLOCKS = frozenset(("text", "thinking"))


class _EventPart(msgspec.Struct, gc=False):
    """A block, or what is added to one."""

    type: str = ""
    text: str | None = None
    thinking: str | None = None


class _Event(msgspec.Struct, gc=False):
    type: str
    index: int = 0
    delta: _EventPart | None = None
    content_block: _EventPart | None = None
    content: list[_EventPart] = []
    """Of a whole message."""


class MessageStreamParser(StreamParser):
    """Parses the blocks of a message."""

    __slots__ = ("is_ending", "open")

    event = _Event

    def __init__(self) -> None:
        super().__init__()
        self.is_ending = False
        self.open: dict[int, str] = {}
        """The kinds of the blocks that have begun and not ended."""

    @property
    def can_end(self) -> bool:
        # A tool call must not be cut in half.
        return not self.is_ending and _TEXT_BLOCKS.issuperset(self.open.values())

    def parse(self, events: list[_Event]) -> None:
        for event in events:
            if event.type == "content_block_delta":
                self._add(event.index, event.delta)
            else:
                self._parse_other(event)

    def _parse_other(self, event: _Event) -> None:
        match event.type:
            case "content_block_start":
                self._add(event.index, event.content_block)
                self.open[event.index] = event.content_block.type if event.content_block else ""
            case "content_block_stop":
                self.open.pop(event.index, None)
            case "message_delta" | "message_stop" | "error":
                self.is_ending = True
            case "message":
                for index, part in enumerate(event.content):
                    self._add(index, part)

    def _add(self, index: int, part: _EventPart | None) -> None:
        said = (part.text or part.thinking) if part is not None else None
        if said:
            self.text(index).pieces.append(said)


def _finish_stream(parser: MessageStreamParser) -> bytes:
    """Return the end of every block that is open, and of the message."""
    blocks = [{"type": "content_block_stop", "index": index} for index in parser.open]
    ending = {"stop_reason": "end_turn", "stop_sequence": None}
    usage = {"output_tokens": parser.tokens}
    last = {"type": "message_delta", "delta": ending, "usage": usage}
    return named_events([*blocks, last, {"type": "message_stop"}])


def _fail_stream(_parser: MessageStreamParser, body: bytes) -> bytes:
    return b"event: error\ndata: %b\n\n" % body


# Final messages

_NO_TOKENS = {
    "input_tokens": 0,
    "cache_creation_input_tokens": 0,
    "cache_read_input_tokens": 0,
    "output_tokens": 0,
}


def _takes_text(sent: Json) -> bool:
    choice, output = sent.get("tool_choice"), sent.get("output_config")
    if isinstance(choice, dict) and choice.get("type") in ("any", "tool"):
        return False
    if sent.get("output_format") or (isinstance(output, dict) and output.get("format")):
        return False
    # A prefill wants its own sentence (often its own JSON) continued.
    messages = sent.get("messages")
    last = messages[-1] if isinstance(messages, list) and messages else None
    return not (isinstance(last, dict) and last.get("role") == "assistant")


def _final_body(call: Call, _sent: Json, text: str, request_id: str, _now: float) -> bytes:
    message = _final_message(call, request_id)
    message["content"] = [{"type": "text", "text": text}]
    message["stop_reason"] = "end_turn"
    return encode(message)


def _final_stream(call: Call, _sent: Json, text: str, request_id: str, _now: float) -> bytes:
    block = {"type": "text", "text": ""}
    delta = {"type": "text_delta", "text": text}
    ending = {"stop_reason": "end_turn", "stop_sequence": None}
    return named_events(
        [
            {"type": "message_start", "message": _final_message(call, request_id)},
            {"type": "content_block_start", "index": 0, "content_block": block},
            {"type": "content_block_delta", "index": 0, "delta": delta},
            {"type": "content_block_stop", "index": 0},
            {"type": "message_delta", "delta": ending, "usage": _NO_TOKENS},
            {"type": "message_stop"},
        ]
    )


def _final_message(call: Call, request_id: str) -> Json:
    return {
        "id": f"msg_{request_id}",
        "type": "message",
        "role": "assistant",
        "model": call.model,
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": _NO_TOKENS,
    }


# Errors, nudges and usage

_ERROR_TYPES = {
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    408: "timeout_error",
    413: "request_too_large",
    429: "rate_limit_error",
    503: "overloaded_error",
    504: "timeout_error",
}


def _error_body(refusal: Refusal, request_id: str, _call: Call | None) -> Json:
    other = "invalid_request_error" if refusal.status < 500 else "api_error"
    error = {
        "type": _ERROR_TYPES.get(refusal.status, other),
        "message": refusal.message,
        # What `code` is to OpenAI's SDK.
        "details": {"error_code": refusal.code},
    }
    return {"type": "error", "error": error, "detail": refusal.detail, "request_id": request_id}


def _splice_nudge(body: bytes, text: str) -> bytes | None:
    """Add a block to the last user message: roles alternate, and results must come first."""
    messages = find_field(body, "messages")
    message = messages and last_element(body, messages)
    if not message:
        return None
    role, within = find_field(body[message], "role"), find_field(body[message], "content")
    if role is None or within is None or decode(body[message][role]) != "user":
        return None
    content = slice(message.start + within.start, message.start + within.stop)
    block = encode({"type": "text", "text": text})
    if body[content].startswith(b'"'):
        # A string is short for one text block.
        return wrap_value(body, content, b'[{"type":"text","text":', b"}," + block + b"]")
    return append_element(body, content, block)


class AnthropicCounts(msgspec.Struct, gc=False):
    """Anthropic counts what concerns the cache apart from the rest of the input."""

    input_tokens: Count
    output_tokens: Count
    cache_read_input_tokens: Count | None = None
    cache_creation_input_tokens: Count | None = None
    output_tokens_details: TokenDetails | None = None

    def usage(self) -> Usage:
        """Return the counts in neutral form."""
        read = self.cache_read_input_tokens or 0
        written = self.cache_creation_input_tokens or 0
        thought = (self.output_tokens_details or NO_DETAILS).thinking_tokens or 0
        return Usage(self.input_tokens + read + written, self.output_tokens, read, thought, written)


def _find_usage(ends: AnswerEnds) -> Usage | None:
    """Find what an answer used in its end, and of a stream that was cut, in its beginning."""
    # Also a stream that is cut has said at its start what went in: that is paid for.
    beginning = ends.beginning
    whole = beginning[: beginning.rfind(b"\n") + 1] if ends.is_events else b""
    started = last_value(b'"usage"', whole, True, IN_MESSAGE)
    ended = ends.last(b'"usage"')
    return read_counts(started if ended is None else ended, AnthropicCounts, started)


# Fake answers


def _fake_body(answer: ModelAnswer, _call: Call) -> Json:
    return {
        "model": answer.model,
        "id": f"msg_{answer.number}",
        "type": "message",
        "role": "assistant",
        "content": _fake_blocks(answer),
        "stop_reason": _fake_reason(answer),
        "stop_sequence": None,
        "usage": {**_fake_input(answer.tokens), "output_tokens": answer.tokens.output},
    }


def _fake_stream(answer: ModelAnswer, call: Call) -> Iterator[bytes]:
    opening = {**_fake_body(answer, call), "content": [], "stop_reason": None}
    # The count of the output is not known yet: Anthropic starts with a token or so.
    opening["usage"] = {**_fake_input(answer.tokens), "output_tokens": 1}
    yield _fake_event("message_start", message=opening)
    yield _fake_event("ping")
    for index, block in enumerate(_fake_blocks(answer)):
        yield from _fake_block_events(answer, index, block)
    yield _fake_event(
        "message_delta",
        delta={"stop_reason": _fake_reason(answer), "stop_sequence": None},
        usage={**_fake_input(answer.tokens), "output_tokens": answer.tokens.output},
    )
    yield _fake_event("message_stop")


def _fake_token_count(call: Call) -> Json:
    return {"input_tokens": call_tokens(call).input}


def _fake_error(status: int) -> Json:
    kinds = {
        401: "authentication_error",
        403: "permission_error",
        404: "not_found_error",
        413: "request_too_large",
        429: "rate_limit_error",
        529: "overloaded_error",
    }
    kind = kinds.get(status, "api_error" if status >= 500 else "invalid_request_error")
    message = f"The fake provider was told to answer {status}."
    return {
        "type": "error",
        "error": {"type": kind, "message": message},
        "request_id": "req_fake",
    }


def _fake_event(name: str, **fields: object) -> bytes:
    return sse_event({"type": name, **fields}, name)


def _fake_input(tokens: Tokens) -> dict[str, int]:
    # Anthropic counts what it read from the cache apart from the rest of the input.
    return {
        "input_tokens": tokens.input - tokens.cached,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": tokens.cached,
    }


def _fake_blocks(answer: ModelAnswer) -> list[Json]:
    text = [{"type": "text", "text": answer.text}] if answer.text else []
    calls = [
        {
            "type": "tool_use",
            "id": f"toolu_{answer.number}_{index}",
            "name": call.name,
            "input": dict(call.arguments),
        }
        for index, call in enumerate(answer.calls)
    ]
    return text + calls


def _fake_block_events(answer: ModelAnswer, index: int, block: Json) -> Iterator[bytes]:
    if block["type"] == "text":
        opening = {**block, "text": ""}
        deltas = [{"type": "text_delta", "text": word} for word in answer.words()]
    else:
        opening = {**block, "input": {}}
        parts = ("", *halves(encode(block["input"]).decode()))
        deltas = [{"type": "input_json_delta", "partial_json": part} for part in parts]
    yield _fake_event("content_block_start", index=index, content_block=opening)
    for delta in deltas:
        yield _fake_event("content_block_delta", index=index, delta=delta)
    yield _fake_event("content_block_stop", index=index)


def _fake_reason(answer: ModelAnswer) -> str:
    return "tool_use" if answer.calls else "end_turn"


DIALECT = Dialect(
    name="anthropic",
    read=read,
    error_body=_error_body,
    request_id_header=b"request-id",
    history=History(read_message),
    final_message=FinalMessage(_takes_text, _final_body, _final_stream),
    streaming=Streaming(MessageStreamParser, _finish_stream, _fail_stream),
    splice_nudge=_splice_nudge,
    counted_answer=CountedAnswer[AnthropicCounts],
    find_usage=_find_usage,
    fake=FakeAnswer(_fake_body, _fake_stream),
    fake_fixed=_fake_token_count,
    fake_error=_fake_error,
)
