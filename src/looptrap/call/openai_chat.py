"""OpenAI Chat Completions, as OpenAI, Azure, OpenRouter and most others speak it."""

from __future__ import annotations

from functools import partial
from typing import Any

import msgspec

from looptrap.call.content import (
    ABSENT,
    ROLES,
    UNREADABLE,
    arguments,
    flatten,
    identity,
    malformed,
    model_in_path,
    tool_names,
)
from looptrap.call.model import Call, Message, Request, ToolCall, ToolResult


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
