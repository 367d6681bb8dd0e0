"""OpenAI Chat Completions, the dialect of OpenAI, Azure, OpenRouter and most others."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Any, ClassVar

import msgspec

from looptrap.dialect.content import (
    ABSENT,
    ROLES,
    UNREADABLE,
    canonical,
    canonical_arguments,
    decode,
    decode_or_none,
    encode,
    flatten,
    id_text,
    malformed_message,
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
    optional_field,
)
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
from looptrap.dialect.stream import CALL_CHARS, DONE, StreamParser, sse_event


class _Body(msgspec.Struct, gc=False):
    messages: list[msgspec.Raw]
    model: str | None = None
    stream: Any = None
    user: Any = None
    tools: msgspec.Raw = ABSENT
    functions: msgspec.Raw = ABSENT


class _Function(msgspec.Struct, gc=False):
    name: str = ""
    arguments: Any = None


class _CustomTool(msgspec.Struct, gc=False):
    name: str = ""
    input: str = ""


class _ToolCall(msgspec.Struct, gc=False):
    id: str | None = None
    function: _Function | None = None
    custom: _CustomTool | None = None


class _Message(msgspec.Struct, gc=False):
    role: str
    content: str | list[Any] | None = None
    tool_calls: list[_ToolCall] | None = None
    tool_call_id: str | None = None
    function_call: _Function | None = None
    name: str | None = None
    refusal: str | None = None


class _Role(msgspec.Struct, gc=False):
    role: str


_decode_role = msgspec.json.Decoder(_Role).decode
_decode_body = msgspec.json.Decoder(_Body).decode
_decode_message = msgspec.json.Decoder(_Message).decode


def read(request: Request, body: bytes) -> Call:
    """Read a Chat Completions body; raises what decoding raises."""
    sent = _decode_body(body)
    tools = sent.tools if sent.tools is not ABSENT else sent.functions
    return Call(
        request,
        "openai_chat",
        model=sent.model or model_in_path(request.path),
        stream=sent.stream is True,
        user=id_text(sent.user),
        raws=sent.messages,
        read=read_message,
        peek=read_role,
        read_tools=None if tools is ABSENT else partial(tool_names, tools),
    )


def read_role(raw: msgspec.Raw) -> str:
    """Read only the role of a message."""
    try:
        role = _decode_role(raw).role
    except UNREADABLE:
        return ""
    return ROLES.get(role, role)


def read_message(raw: msgspec.Raw) -> Message:
    """Read one message of the history."""
    try:
        sent = _decode_message(raw)
        role = ROLES.get(sent.role, sent.role)
        content = sent.content
        text = content if type(content) is str else flatten(content)
        if role == "tool":
            result = ToolResult(sent.tool_call_id or "", text, name=sent.name or "")
            return Message(role, "", (), (result,))
        if sent.tool_calls:
            return Message(role, text, tuple(map(_tool_call, sent.tool_calls)))
        if sent.function_call:
            return Message(role, text, (_tool_call(_ToolCall(function=sent.function_call)),))
        return Message(role, text or sent.refusal or "")
    except UNREADABLE:
        return malformed_message(raw)


def _tool_call(sent: _ToolCall) -> ToolCall:
    call_id, function, custom = sent.id or "", sent.function, sent.custom
    if function is not None:
        return ToolCall(call_id, function.name, canonical_arguments(function.arguments))
    return ToolCall(call_id, custom.name, custom.input) if custom else ToolCall(call_id, "", "{}")


# Passing answers


class _Delta(msgspec.Struct, gc=False):
    content: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    tool_calls: list[msgspec.Raw] | None = None
    function_call: msgspec.Raw = ABSENT


class _FunctionDelta(msgspec.Struct, gc=False):
    """A function or custom tool, or a delta of one."""

    name: str | None = None
    arguments: Any = None
    input: str | None = None


class _CallDelta(msgspec.Struct, gc=False):
    index: int | None = None
    id: str | None = None
    function: _FunctionDelta | None = None
    custom: _FunctionDelta | None = None


class _AnswerId(msgspec.Struct, gc=False):
    id: Any = None


_decode_call = msgspec.json.Decoder(_ToolCall).decode
_decode_call_delta = msgspec.json.Decoder(_CallDelta).decode
_decode_answer_id = msgspec.json.Decoder(_AnswerId).decode


class _Choice(msgspec.Struct, gc=False):
    index: int = 0
    delta: _Delta | None = None
    message: _Delta | None = None
    text: str | None = None
    finish_reason: str | None = None


class _Chunk(msgspec.Struct, gc=False):
    choices: list[_Choice] = []


class _GrowingCall(msgspec.Struct, gc=False):
    """A tool call that comes in deltas."""

    id: str
    name: str
    is_custom: bool
    pieces: list[str] = []
    """Of its arguments, or of the input of a custom tool."""

    def is_over_at(self, delta: _CallDelta) -> bool:
        """Return whether a delta of the same index that names a tool begins another call.

        Some servers send all calls with one index, or with none.
        """
        if self.id and delta.id:
            return self.id != delta.id
        return delta.index is None or bool(self.pieces)

    def tool_call(self, *, is_complete: bool) -> ToolCall | None:
        """Return the call; None where the answer ended before it was complete.

        Only the end of its choice tells that it is complete, or arguments that are JSON.
        """
        arguments = "".join(self.pieces)
        if not is_complete and (self.is_custom or type(decode_or_none(arguments)) is not dict):
            return None
        if not self.is_custom:
            arguments = canonical_arguments(arguments)
        return ToolCall(self.id, self.name, arguments)


class ChatStreamParser(StreamParser):
    """Parses the choices of a completion; keeps the tool calls of the first one."""

    __slots__ = ("_calls", "_growing", "_has_ended", "_whole", "has_tool_call")

    event = _Chunk
    last_delta: ClassVar[Json] = {"delta": {}}
    """The text of a choice in its last chunk."""

    def __init__(self) -> None:
        super().__init__()
        self.has_tool_call = False
        """Whether a choice calls a tool: a tool call must not be cut in half."""
        self._has_ended = False  # the first choice
        self._whole: _Delta | None = None  # where it comes in one piece
        self._calls: list[_GrowingCall] = []
        self._growing: dict[int | None, _GrowingCall] = {}  # the latest call of each index

    @property
    def can_end(self) -> bool:
        return bool(self.open) and not self.has_tool_call

    def parse(self, events: list[_Chunk]) -> None:
        for event in events:
            for choice in event.choices:
                index = choice.index
                if choice.finish_reason is None:
                    self.open[index] = True
                else:
                    self.open.pop(index, None)
                    self._has_ended |= index == 0
                delta = choice.delta or choice.message
                if delta is None:
                    self.texts[index].pieces.append(choice.text or "")
                    continue
                if delta.content:
                    self.texts[index].pieces.append(delta.content)
                elif thought := delta.reasoning_content or delta.reasoning:
                    self.texts[index, "thought"].pieces.append(thought)
                if delta.tool_calls or delta.function_call != ABSENT:
                    self.has_tool_call = True
                    if self.keeps_calls and index == 0:
                        self._keep_calls(choice)

    def _keep_calls(self, choice: _Choice) -> None:
        if choice.delta is None:
            self._whole = choice.message
            return
        for raw in _raw_calls(choice.delta):
            try:
                self._grow(_decode_call_delta(raw))
            except UNREADABLE:
                continue

    def _grow(self, delta: _CallDelta) -> None:
        """Add a delta to its call, or begin another."""
        function = delta.function or delta.custom or _FunctionDelta()
        call = self._growing.get(delta.index)
        if call is None or (function.name and call.is_over_at(delta)):
            call = _GrowingCall(delta.id or "", function.name or "", delta.custom is not None)
            self._growing[delta.index] = call
            self._calls.append(call)
            self.kept_chars += CALL_CHARS
        call.id = call.id or delta.id or ""
        call.name = call.name or function.name or ""
        if piece := function.input if call.is_custom else function.arguments:
            call.pieces.append(piece if isinstance(piece, str) else canonical(piece))
            self.kept_chars += len(call.pieces[-1])

    def answered_turn(self) -> AnsweredTurn | None:
        if not self._has_ended and 0 not in self.open:
            return None
        shown = decode_or_none(self.latest, _decode_answer_id) or _AnswerId()
        if self._whole is not None:
            sent = (decode_or_none(raw, _decode_call) for raw in _raw_calls(self._whole))
            calls = (_tool_call(call) for call in sent if call is not None)
        else:
            grown = (call.tool_call(is_complete=self._has_ended) for call in self._calls)
            calls = (call for call in grown if call is not None)
        return AnsweredTurn.of_calls(id_text(shown.id), tuple(calls))

    def finish(self) -> bytes:
        """Return a chunk for each open choice, with the ids of the chunks before."""
        chunk = decode(self.latest)
        chunk.pop("obfuscation", None)
        ends = (
            {"index": index, **self.last_delta, "logprobs": None, "finish_reason": "stop"}
            for index in sorted(self.open)
        )
        return b"".join(sse_event({**chunk, "choices": [end]}) for end in ends) + DONE

    def fail(self, error: bytes) -> bytes:
        return b"data: %b\n\n" % error + DONE


def _raw_calls(sent: _Delta) -> Sequence[bytes | msgspec.Raw]:
    """Return the calls of a message or delta; a legacy function as the one call."""
    return sent.tool_calls or (b'{"index":0,"function":%b}' % bytes(sent.function_call),)


# Answers


def _takes_text(sent: Json) -> bool:
    output_format = sent.get("response_format")
    if isinstance(output_format, dict) and output_format.get("type", "text") != "text":
        return False
    modalities = sent.get("modalities")
    if isinstance(modalities, list) and modalities != ["text"]:
        return False
    if isinstance(sent.get("function_call"), dict):
        return False
    return not requires_tool(sent.get("tool_choice"))


def requires_tool(choice: object) -> bool:
    """Return whether a `tool_choice` of OpenAI's requires a tool call."""
    if isinstance(choice, dict):
        if choice.get("type") != "allowed_tools":
            return True
        allowed = choice.get("allowed_tools", choice)  # Responses has no wrapper
        return isinstance(allowed, dict) and allowed.get("mode") == "required"
    return choice == "required"


def count_choices(sent: Json) -> int:
    """Return the number of answers that a request wants."""
    n = sent.get("n")
    return n if type(n) is int and 1 < n <= 128 else 1


def _write_body(answer: ModelAnswer) -> Json:
    message: Json = {"role": "assistant", "content": answer.text or None, "refusal": None}
    if answer.calls:
        message["tool_calls"] = _tool_calls(answer)
    choice = {"message": message, "logprobs": None, "finish_reason": _finish_reason(answer)}
    return {
        **head_of(answer, "chatcmpl", "chat.completion"),
        "choices": [{"index": index, **choice} for index in range(count_choices(answer.sent))],
        "usage": usage_counts(answer.usage),
    }


def _write_stream(answer: ModelAnswer) -> Iterator[bytes]:
    choices = (
        {"index": index, "delta": delta, "logprobs": None, "finish_reason": reason}
        for index in range(count_choices(answer.sent))
        for delta, reason in _deltas(answer)
    )
    head = head_of(answer, "chatcmpl", "chat.completion.chunk")
    return write_chunks(answer, head, choices)


def write_chunks(answer: ModelAnswer, head: Json, choices: Iterable[Json]) -> Iterator[bytes]:
    """Yield a stream with one choice in each chunk; with usage where the request wants it."""
    options = answer.sent.get("stream_options")
    has_usage = isinstance(options, dict) and options.get("include_usage") is True
    if has_usage:
        head["usage"] = None
    for choice in choices:
        yield sse_event({**head, "choices": [choice]})
    if has_usage:
        yield sse_event({**head, "choices": [], "usage": usage_counts(answer.usage)})
    yield DONE


def _deltas(answer: ModelAnswer) -> Iterator[tuple[Json, str | None]]:
    yield {"role": "assistant", "content": "", "refusal": None}, None
    for piece in answer.pieces:
        yield {"content": piece}, None
    for index, call in enumerate(_tool_calls(answer)):
        function = call["function"]
        opening = {"index": index, **call, "function": {**function, "arguments": ""}}
        yield {"tool_calls": [opening]}, None
        for part in halves(function["arguments"]):
            yield {"tool_calls": [{"index": index, "function": {"arguments": part}}]}, None
    yield {}, _finish_reason(answer)


def head_of(answer: ModelAnswer, id_prefix: str, kind: str) -> Json:
    """Return the fields of a completion that are the same in all of its chunks."""
    return {
        "id": f"{id_prefix}-{answer.id}",
        "object": kind,
        "created": answer.created_at,
        "model": answer.call.model,
        "system_fingerprint": None,
    }


def _tool_calls(answer: ModelAnswer) -> list[Json]:
    return [
        {
            "id": f"call_{answer.id}_{index}",
            "type": "function",
            "function": {"name": call.name, "arguments": call.arguments},
        }
        for index, call in enumerate(answer.calls)
    ]


def _finish_reason(answer: ModelAnswer) -> str:
    return "tool_calls" if answer.calls else "stop"


def usage_counts(usage: Usage) -> Json:
    """Return the counts in the older of OpenAI's two shapes; without usage, without details."""
    counts: Json = {
        "prompt_tokens": usage.input_tokens,
        "completion_tokens": usage.output_tokens,
        "total_tokens": usage.tokens,
    }
    if usage.tokens:
        counts["prompt_tokens_details"] = {"cached_tokens": usage.cached_tokens}
        counts["completion_tokens_details"] = {"reasoning_tokens": usage.reasoning_tokens}
    return counts


# Errors, nudges and usage


def error_body(refusal: Refusal, _request_id: str, _call: Call | None) -> Json:
    """Return an error in the shape of all of OpenAI's APIs."""
    error = {"message": refusal.message, "type": refusal.kind, "param": None, "code": refusal.code}
    return {"error": error, **refusal.detail_field}


def _splice_nudge(body: bytes, text: str) -> bytes | None:
    messages = find_field(body, "messages")
    return messages and append_element(body, messages, encode({"role": "user", "content": text}))


class ResponsesCounts(msgspec.Struct, gc=False):
    """Counts in the newer of OpenAI's two shapes."""

    input_tokens: Count
    output_tokens: Count
    input_tokens_details: TokenDetails | None = None
    output_tokens_details: TokenDetails | None = None

    def usage(self) -> Usage:
        """Return the counts in neutral form."""
        inputs = self.input_tokens_details or NO_DETAILS
        outputs = self.output_tokens_details or NO_DETAILS
        return Usage(
            self.input_tokens,
            self.output_tokens,
            inputs.cached_tokens or 0,
            outputs.reasoning_tokens or 0,
            inputs.cache_write_tokens or 0,
            inputs.audio_tokens or 0,
            outputs.audio_tokens or 0,
        )


class ChatCounts(ResponsesCounts, gc=False):
    """Counts in the older of OpenAI's two shapes."""

    input_tokens: Count = msgspec.field(name="prompt_tokens")
    output_tokens: Count = msgspec.field(default=0, name="completion_tokens")
    input_tokens_details: TokenDetails | None = optional_field("prompt_tokens_details")
    output_tokens_details: TokenDetails | None = optional_field("completion_tokens_details")


CHAT_USAGE = UsageFormat((ChatCounts,))

DIALECT: Dialect = Dialect(
    name="openai_chat",
    read=read,
    error_body=error_body,
    history=History(read_message, read_role),
    writer=AnswerWriter(_takes_text, _write_body, _write_stream),
    stream_parser=ChatStreamParser,
    splice_nudge=_splice_nudge,
    usage=CHAT_USAGE,
)
