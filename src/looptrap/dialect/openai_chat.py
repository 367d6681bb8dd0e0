"""OpenAI Chat Completions, as OpenAI, Azure, OpenRouter and most others speak it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
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
    tool_names,
)
from looptrap.dialect.dialect import Dialect, FakeAnswer, FinalMessage, History, Streaming
from looptrap.dialect.fake_answer import CREATED_AT, ModelAnswer, Tokens, halves
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
from looptrap.dialect.stream import DONE, StreamParser, events, sse_event
from looptrap.dialect.usage import Count, CountedAnswer, TokenDetails, openai_usage, usage_finder


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


class _Custom(msgspec.Struct, gc=False):
    name: str = ""
    input: str = ""


class _ToolCall(msgspec.Struct, gc=False):
    id: str | None = None
    function: _Function | None = None
    custom: _Custom | None = None


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
    offered = sent.tools if sent.tools is not ABSENT else sent.functions
    return Call(
        request,
        "openai_chat",
        model=sent.model or model_in_path(request.path),
        stream=sent.stream is True,
        user=identity(sent.user),
        raws=sent.messages,
        read=read_message,
        peek=read_role,
        read_tools=None if offered is ABSENT else partial(tool_names, offered),
    )


def read_role(raw: msgspec.Raw) -> str:
    """Read only who speaks."""
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
        return malformed(raw)


def _tool_call(sent: _ToolCall) -> ToolCall:
    if sent.function is not None:
        return ToolCall(sent.id or "", sent.function.name, arguments(sent.function.arguments))
    if sent.custom is not None:
        return ToolCall(sent.id or "", sent.custom.name, sent.custom.input)
    return ToolCall(sent.id or "", "", "{}")


# Passing answers


class _Said(msgspec.Struct, gc=False):
    content: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    tool_calls: list[msgspec.Raw] | None = None


class _Choice(msgspec.Struct, gc=False):
    index: int = 0
    delta: _Said | None = None
    message: _Said | None = None
    text: str | None = None
    finish_reason: str | None = None


class _Chunk(msgspec.Struct, gc=False):
    choices: list[_Choice] = []


class ChatStreamParser(StreamParser):
    """Parses the choices of a completion."""

    __slots__ = ("calling", "open")

    event = _Chunk

    def __init__(self) -> None:
        super().__init__()
        self.open: set[int] = set()
        """The choices that have begun and not ended."""
        self.calling = False
        """Whether a choice wants a tool: a call must not be cut in half."""

    @property
    def can_end(self) -> bool:
        return bool(self.open) and not self.calling

    def parse(self, events: list[_Chunk]) -> None:
        for event in events:
            for choice in event.choices:
                index = choice.index
                if choice.finish_reason is None:
                    self.open.add(index)
                else:
                    self.open.discard(index)
                said = choice.delta or choice.message
                if said is None:
                    self.text(index).pieces.append(choice.text or "")
                    continue
                if said.content:
                    self.text(index).pieces.append(said.content)
                elif thought := said.reasoning_content or said.reasoning:
                    self.text((index, "thought")).pieces.append(thought)
                if said.tool_calls:
                    self.calling = True


def _finish_stream(parser: ChatStreamParser) -> bytes:
    return close_choices(parser, {"delta": {}})


def fail_stream(_parser: ChatStreamParser, body: bytes) -> bytes:
    """Return an error among the chunks."""
    return b"data: %b\n\n" % body + DONE


def close_choices(parser: ChatStreamParser, said: Json) -> bytes:
    """Return chunks that name the answer as the ones before, and say that a choice has ended."""
    chunk = msgspec.json.decode(parser.latest)
    chunk.pop("obfuscation", None)
    ends = [
        {"index": index, **said, "logprobs": None, "finish_reason": "stop"}
        for index in sorted(parser.open)
    ]
    return events({**chunk, "choices": [end]} for end in ends) + DONE


# Final messages

NO_TOKENS = {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}


def _takes_text(sent: Json) -> bool:
    wanted = sent.get("response_format")
    if isinstance(wanted, dict) and wanted.get("type", "text") != "text":
        return False
    modalities = sent.get("modalities")
    if isinstance(modalities, list) and modalities != ["text"]:
        return False
    return not (
        demands_tool(sent.get("tool_choice")) or isinstance(sent.get("function_call"), dict)
    )


def demands_tool(choice: object) -> bool:
    """Say whether a `tool_choice` of OpenAI's leaves the model no other way than a tool call."""
    if isinstance(choice, dict):
        if choice.get("type") != "allowed_tools":
            return True
        allowed = choice.get("allowed_tools", choice)  # Responses has no wrapper
        return isinstance(allowed, dict) and allowed.get("mode") == "required"
    return choice == "required"


def number_of_choices(sent: Json) -> int:
    """Return how many answers the request asks for."""
    n = sent.get("n")
    return n if type(n) is int and 1 < n <= 128 else 1


def wants_usage(sent: Json) -> bool:
    """Say whether a stream is to end with its usage."""
    options = sent.get("stream_options")
    return isinstance(options, dict) and options.get("include_usage") is True


def _final_body(call: Call, sent: Json, text: str, request_id: str, now: float) -> bytes:
    message = {"role": "assistant", "content": text, "refusal": None}
    choices = [
        {"index": index, "message": message, "logprobs": None, "finish_reason": "stop"}
        for index in range(number_of_choices(sent))
    ]
    head = _final_head(call, "chat.completion", request_id, now)
    return encode({**head, "choices": choices, "usage": NO_TOKENS})


def _final_stream(call: Call, sent: Json, text: str, request_id: str, now: float) -> bytes:
    head = _final_head(call, "chat.completion.chunk", request_id, now)
    choices = [
        {"index": index, "delta": delta, "logprobs": None, "finish_reason": reason}
        for index in range(number_of_choices(sent))
        for delta, reason in (
            ({"role": "assistant", "content": "", "refusal": None}, None),
            ({"content": text}, None),
            ({}, "stop"),
        )
    ]
    return final_chunks(head, choices, sent)


def final_chunks(head: Json, choices: Iterable[Json], sent: Json) -> bytes:
    """Return a stream of one choice a chunk, with usage where the request asked for it."""
    with_usage = wants_usage(sent)
    if with_usage:
        head["usage"] = None
    chunks = [{**head, "choices": [choice]} for choice in choices]
    if with_usage:
        chunks.append({**head, "choices": [], "usage": NO_TOKENS})
    return events(chunks) + DONE


def _final_head(call: Call, kind: str, request_id: str, now: float) -> Json:
    return {
        "id": f"chatcmpl-{request_id}",
        "object": kind,
        "created": int(now),
        "model": call.model,
        "system_fingerprint": None,
    }


# Errors, nudges and usage


def error_body(refusal: Refusal, _request_id: str, _call: Call | None) -> Json:
    """Return an error as all of OpenAI's APIs shape it."""
    error = {"message": refusal.message, "type": refusal.kind, "param": None, "code": refusal.code}
    return {"error": error, "detail": refusal.detail}


def _splice_nudge(body: bytes, text: str) -> bytes | None:
    messages = find_field(body, "messages")
    return messages and append_element(body, messages, encode({"role": "user", "content": text}))


class ChatCounts(msgspec.Struct, gc=False):
    """Counts in the older of OpenAI's two shapes."""

    prompt_tokens: Count
    completion_tokens: Count | None = None
    prompt_tokens_details: TokenDetails | None = None
    completion_tokens_details: TokenDetails | None = None

    def usage(self) -> Usage:
        """Return the counts in neutral form."""
        return openai_usage(
            self.prompt_tokens,
            self.completion_tokens or 0,
            self.prompt_tokens_details,
            self.completion_tokens_details,
        )


counted_answer = CountedAnswer[ChatCounts]
find_usage = usage_finder(ChatCounts)


# Fake answers


def _fake_body(answer: ModelAnswer, _call: Call) -> Json:
    message: Json = {
        "role": "assistant",
        "content": answer.text or None,
        "refusal": None,
        "annotations": [],
    }
    if answer.calls:
        message["tool_calls"] = _fake_calls(answer)
    return {
        "id": f"chatcmpl-{answer.number}",
        "object": "chat.completion",
        "created": CREATED_AT,
        "model": answer.model,
        "choices": [
            {
                "index": 0,
                "message": message,
                "logprobs": None,
                "finish_reason": _fake_reason(answer),
            }
        ],
        "usage": fake_usage(answer.tokens),
        "service_tier": "default",
    }


def _fake_stream(answer: ModelAnswer, call: Call) -> Iterator[bytes]:
    """Return the answer event by event; usage only where the request asked for it."""
    counted = wants_usage(decode(call.request.body))
    opening = {"role": "assistant", "content": "", "refusal": None}
    yield _fake_chunk(answer, counted, opening)
    for word in answer.words():
        yield _fake_chunk(answer, counted, {"content": word})
    for index, used in enumerate(_fake_calls(answer)):
        function = used["function"]
        head = {**used, "function": {**function, "arguments": ""}}
        yield _fake_chunk(answer, counted, {"tool_calls": [{"index": index, **head}]})
        for part in halves(function["arguments"]):
            delta = {"index": index, "function": {"arguments": part}}
            yield _fake_chunk(answer, counted, {"tool_calls": [delta]})
    yield _fake_chunk(answer, counted, {}, _fake_reason(answer))
    if counted:
        usage = fake_usage(answer.tokens)
        yield sse_event({**_fake_envelope(answer), "choices": [], "usage": usage})
    yield DONE


def fake_usage(tokens: Tokens) -> Json:
    """Return the counts in the older of OpenAI's two shapes."""
    return {
        "prompt_tokens": tokens.input,
        "completion_tokens": tokens.output,
        "total_tokens": tokens.input + tokens.output,
        "prompt_tokens_details": {"cached_tokens": tokens.cached, "audio_tokens": 0},
        "completion_tokens_details": {
            "reasoning_tokens": tokens.reasoning,
            "audio_tokens": 0,
            "accepted_prediction_tokens": 0,
            "rejected_prediction_tokens": 0,
        },
    }


def fake_error(status: int) -> Json:
    """Return OpenAI's error body."""
    kinds = {401: "invalid_request_error", 429: "rate_limit_exceeded"}
    kind = kinds.get(status, "server_error" if status >= 500 else "invalid_request_error")
    message = f"The fake provider was told to answer {status}."
    return {"error": {"message": message, "type": kind, "param": None, "code": None}}


def _fake_envelope(answer: ModelAnswer) -> Json:
    return {
        "id": f"chatcmpl-{answer.number}",
        "object": "chat.completion.chunk",
        "created": CREATED_AT,
        "model": answer.model,
        "service_tier": "default",
    }


def _fake_chunk(
    answer: ModelAnswer, counted: bool, delta: Json, reason: str | None = None
) -> bytes:
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": reason}
    # OpenAI sends a null in every chunk but the last to those who asked for usage.
    usage_field = {"usage": None} if counted else {}
    return sse_event({**_fake_envelope(answer), "choices": [choice], **usage_field})


def _fake_calls(answer: ModelAnswer) -> list[Json]:
    return [
        {
            "id": f"call_{answer.number}_{index}",
            "type": "function",
            "function": {"name": call.name, "arguments": encode(call.arguments).decode()},
        }
        for index, call in enumerate(answer.calls)
    ]


def _fake_reason(answer: ModelAnswer) -> str:
    return "tool_calls" if answer.calls else "stop"


DIALECT = Dialect(
    name="openai_chat",
    read=read,
    error_body=error_body,
    history=History(read_message, read_role),
    final_message=FinalMessage(_takes_text, _final_body, _final_stream),
    streaming=Streaming(ChatStreamParser, _finish_stream, fail_stream),
    splice_nudge=_splice_nudge,
    counted_answer=counted_answer,
    find_usage=find_usage,
    fake=FakeAnswer(_fake_body, _fake_stream),
    fake_error=fake_error,
)
