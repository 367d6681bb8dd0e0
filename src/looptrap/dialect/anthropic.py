"""Anthropic Messages, at Anthropic's own path or on Vertex."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import msgspec

from looptrap.dialect.content import (
    ABSENT,
    ROLES,
    UNREADABLE,
    MessageParts,
    decode,
    decode_or_none,
    encode,
    flatten,
    id_text,
    malformed_message,
    part_text,
    raw_message,
    read_tool_call,
    tool_names,
)
from looptrap.dialect.dialect import (
    NO_DETAILS,
    AnswerWriter,
    Count,
    Dialect,
    History,
    ModelAnswer,
    TokenDetails,
    UsageFormat,
    halves,
)
from looptrap.dialect.model import (
    AnsweredTurn,
    Call,
    Json,
    Message,
    Refusal,
    Request,
    ToolResult,
    Usage,
)
from looptrap.dialect.path import model_in_path
from looptrap.dialect.splice import append_element, find_field, last_element, wrap_value
from looptrap.dialect.stream import CALL_CHARS, StreamParser, named_events


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
        user=id_text(metadata.get("user_id")) if type(metadata) is dict else "",
        raws=raws,
        read=read_message,
        read_tools=None if sent.tools is ABSENT else partial(tool_names, sent.tools),
    )


def read_message(raw: msgspec.Raw) -> Message:
    """Read one message of the history."""
    try:
        return _message(_decode_message(raw))
    except UNREADABLE:
        return malformed_message(raw)


def _message(sent: _Message) -> Message:
    role = ROLES.get(sent.role, sent.role)
    if isinstance(sent.content, str):
        return Message(role, sent.content)
    parts = MessageParts()
    for block in sent.content:
        kind = str(block.get("type")) if isinstance(block, dict) else ""
        if kind.endswith("tool_use"):
            parts.calls.append(read_tool_call(block, "id", "input"))
        elif kind.endswith("tool_result"):
            parts.results.append(_tool_result(block))
        elif text := part_text(block):
            parts.texts.append(text)
    return parts.message(role)


def _tool_result(block: Json) -> ToolResult:
    call_id, content = id_text(block.get("tool_use_id")), block.get("content")
    # Anthropic's own tools report a failure by a code in place of their content.
    if isinstance(content, dict) and "error_code" in content:
        return ToolResult(call_id, id_text(content["error_code"]), is_error=True)
    return ToolResult(call_id, flatten(content), is_error=block.get("is_error") is True)


# Passing answers

_TEXT_BLOCKS = frozenset(("text", "thinking"))
_TOOL_BLOCKS = ("tool_use", "tool_result")
"""How the types of calls, and of the results of Anthropic's own tools, end."""


class _EventPart(msgspec.Struct, gc=False):
    """A block, or a delta of one."""

    type: str = ""
    text: str | None = None
    thinking: str | None = None
    partial_json: str | None = None


class _Event(msgspec.Struct, gc=False):
    type: str
    index: int = 0
    delta: _EventPart | None = None
    content_block: msgspec.Raw = ABSENT
    message: msgspec.Raw = ABSENT
    """As the first event shows it."""
    id: Any = None
    content: list[msgspec.Raw] = []
    """Of a whole message."""


class _MessageId(msgspec.Struct, gc=False):
    id: Any = None


_decode_part = msgspec.json.Decoder(_EventPart).decode
_decode_message_id = msgspec.json.Decoder(_MessageId).decode


class _ToolBlock(msgspec.Struct, gc=False):
    """A tool call, or the result of one of Anthropic's own tools."""

    shape: bytes
    """The block as its first event showed it."""
    input: list[str] = []
    is_complete: bool = False

    def close(self) -> Json | None:
        """Return the block with its input; None where it is incomplete or no object."""
        block = decode_or_none(self.shape) if self.is_complete else None
        if not isinstance(block, dict):
            return None
        sent = "".join(self.input)
        return {**block, "input": sent} if sent else block


class MessageStreamParser(StreamParser):
    """Parses the blocks of a message."""

    __slots__ = ("_blocks", "_id")

    event = _Event

    def __init__(self) -> None:
        super().__init__()
        self._blocks: dict[int, _ToolBlock] = {}
        self._id: str | None = None  # "" where the message has none

    @property
    def can_end(self) -> bool:
        # A tool call must not be cut in half.
        return not self.is_ending and _TEXT_BLOCKS.issuperset(self.open.values())

    def parse(self, events: list[_Event]) -> None:
        for event in events:
            match event.type:
                case "content_block_delta":
                    self._add(event.index, event.delta)
                case "content_block_start":
                    self.open[event.index] = self._begin(event.index, event.content_block)
                case "content_block_stop":
                    self.open.pop(event.index, None)
                    if (block := self._blocks.get(event.index)) is not None:
                        block.is_complete = True
                case "message_start":
                    message = decode_or_none(event.message, _decode_message_id)
                    self._id = id_text(message and message.id)
                case "message_delta" | "message_stop" | "error":
                    self.is_ending = True
                case "message":
                    self._id = id_text(event.id)
                    for index, raw in enumerate(event.content):
                        self._begin(index, raw)
                        if (block := self._blocks.get(index)) is not None:
                            block.is_complete = True

    def _begin(self, index: int, raw: msgspec.Raw) -> str:
        """Begin a block; return its type."""
        part = decode_or_none(raw, _decode_part)
        if part is None:
            return ""
        if self.keeps_calls and part.type.endswith(_TOOL_BLOCKS):
            self._blocks[index] = _ToolBlock(bytes(raw))
            self.kept_chars += CALL_CHARS + len(raw)
        else:
            self._add(index, part)
        return part.type

    def _add(self, index: int, part: _EventPart | None) -> None:
        text = (part.text or part.thinking) if part is not None else None
        if text:
            self.texts[index].pieces.append(text)
        elif part is not None and index in self._blocks and part.partial_json:
            self._blocks[index].input.append(part.partial_json)
            self.kept_chars += len(part.partial_json)

    def answered_turn(self) -> AnsweredTurn | None:
        if self._id is None and not self._blocks:
            return None
        closed = (self._blocks[index].close() for index in sorted(self._blocks))
        blocks = [block for block in closed if block is not None]
        message = _message(_Message("assistant", blocks))
        return AnsweredTurn(self._id or "", messages=(message,) if blocks else ())

    def finish(self) -> bytes:
        """Return the end of every open block, and of the message."""
        blocks = [{"type": "content_block_stop", "index": index} for index in self.open]
        end = _message_end("end_turn", {"output_tokens": self.tokens})
        return b"".join(named_events([*blocks, *end]))

    def fail(self, error: bytes) -> bytes:
        return b"event: error\ndata: %b\n\n" % error


def _message_end(reason: str, usage: Json) -> tuple[Json, Json]:
    delta = {"stop_reason": reason, "stop_sequence": None}
    return {"type": "message_delta", "delta": delta, "usage": usage}, {"type": "message_stop"}


# Answers


def _takes_text(sent: Json) -> bool:
    choice, output = sent.get("tool_choice"), sent.get("output_config")
    if isinstance(choice, dict) and choice.get("type") in ("any", "tool"):
        return False
    if sent.get("output_format") or (isinstance(output, dict) and output.get("format")):
        return False
    # The answer to a prefill continues its sentence, which is often JSON.
    messages = sent.get("messages")
    last = messages[-1] if isinstance(messages, list) and messages else None
    return not (isinstance(last, dict) and last.get("role") == "assistant")


def _write_body(answer: ModelAnswer) -> Json:
    return {
        "id": f"msg_{answer.id}",
        "type": "message",
        "role": "assistant",
        "model": answer.call.model,
        "content": _blocks(answer),
        "stop_reason": _stop_reason(answer),
        "stop_sequence": None,
        "usage": _usage_counts(answer.usage),
    }


def _write_stream(answer: ModelAnswer) -> Iterator[bytes]:
    return named_events(_events(answer))


def _events(answer: ModelAnswer) -> Iterator[Json]:
    usage = _usage_counts(answer.usage)
    message = {**_write_body(answer), "content": [], "stop_reason": None}
    # The output is not counted yet: Anthropic starts with a token or so.
    message["usage"] = {**usage, "output_tokens": min(1, answer.usage.output_tokens)}
    yield {"type": "message_start", "message": message}
    yield {"type": "ping"}
    for index, block in enumerate(_blocks(answer)):
        yield from _block_events(answer, index, block)
    yield from _message_end(_stop_reason(answer), usage)


def _block_events(answer: ModelAnswer, index: int, block: Json) -> Iterator[Json]:
    if block["type"] == "text":
        block = {**block, "text": ""}
        deltas = [{"type": "text_delta", "text": piece} for piece in answer.pieces]
    else:
        parts = ("", *halves(encode(block["input"]).decode()))
        deltas = [{"type": "input_json_delta", "partial_json": part} for part in parts]
        block = {**block, "input": {}}
    yield {"type": "content_block_start", "index": index, "content_block": block}
    for delta in deltas:
        yield {"type": "content_block_delta", "index": index, "delta": delta}
    yield {"type": "content_block_stop", "index": index}


def _blocks(answer: ModelAnswer) -> list[Json]:
    texts: list[Json] = [{"type": "text", "text": answer.text}] if answer.text else []
    return texts + [
        {
            "type": "tool_use",
            "id": f"toolu_{answer.id}_{index}",
            "name": call.name,
            "input": decode(call.arguments),
        }
        for index, call in enumerate(answer.calls)
    ]


def _stop_reason(answer: ModelAnswer) -> str:
    return "tool_use" if answer.calls else "end_turn"


def _usage_counts(usage: Usage) -> Json:
    # Anthropic does not count cached input among the input.
    return {
        "input_tokens": usage.input_tokens - usage.cached_tokens,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": usage.cached_tokens,
        "output_tokens": usage.output_tokens,
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
    529: "overloaded_error",
}


def _error_body(refusal: Refusal, request_id: str, _call: Call | None) -> Json:
    default = "invalid_request_error" if refusal.status < 500 else "api_error"
    error = {
        "type": _ERROR_TYPES.get(refusal.status, default),
        "message": refusal.message,
        # The counterpart of OpenAI's `code`.
        "details": {"error_code": refusal.code},
    }
    return {"type": "error", "error": error, **refusal.detail_field, "request_id": request_id}


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
    """Anthropic's counts, which have cached input apart from the rest of the input."""

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


DIALECT: Dialect = Dialect(
    name="anthropic",
    read=read,
    error_body=_error_body,
    request_id_header=b"request-id",
    history=History(read_message),
    writer=AnswerWriter(_takes_text, _write_body, _write_stream),
    stream_parser=MessageStreamParser,
    splice_nudge=_splice_nudge,
    usage=UsageFormat((AnthropicCounts,), path_in_first_event=("message",)),
    fake_without_model=lambda call: {"input_tokens": call.estimated_input},
)
