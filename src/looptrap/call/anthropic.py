"""Anthropic Messages, at Anthropic's own path or hosted on Vertex."""

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
    part_text,
    spoken,
    tool_names,
)
from looptrap.call.model import Call, Message, Request, ToolCall, ToolResult


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
        raws.insert(0, spoken(b"system", sent.system))
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


def _tool_call(block: dict[str, Any]) -> ToolCall:
    return ToolCall(
        identity(block.get("id")), identity(block.get("name")), arguments(block.get("input"))
    )


def _tool_result(block: dict[str, Any]) -> ToolResult:
    call_id, content = identity(block.get("tool_use_id")), block.get("content")
    # The server's own tools tell of a failure by a code in place of their content.
    if isinstance(content, dict) and "error_code" in content:
        return ToolResult(call_id, identity(content["error_code"]), is_error=True)
    return ToolResult(call_id, flatten(content), is_error=block.get("is_error") is True)
