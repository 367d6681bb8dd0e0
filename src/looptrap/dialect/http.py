"""Plain HTTP: requests that no other dialect reads or answers.

Amazon Bedrock's Converse and InvokeModel are read, but Bedrock's clients know only its own errors.
Some endpoints cost money although their bodies are opaque: judged by their bytes, charged by
their size. All are answered with OpenAI's errors.
"""

from __future__ import annotations

import re
from functools import partial
from hashlib import blake2b
from typing import Any

import msgspec

from looptrap.dialect import anthropic, openai_chat
from looptrap.dialect.content import (
    ABSENT,
    MAX_PATCHED_BYTES,
    ROLES,
    UNREADABLE,
    MessageParts,
    canonical,
    decode,
    decode_or_none,
    id_text,
    malformed_message,
    raw_message,
    read_tool_call,
    untyped_text,
)
from looptrap.dialect.dialect import Count, Dialect, UsageFormat, optional_field
from looptrap.dialect.model import Call, DialectName, Json, Message, Request, ToolResult
from looptrap.dialect.path import model_in_path


def read(request: Request, _body: bytes = b"") -> Call:
    """Return a call without the content of its body."""
    return Call(request, "http")


# Opaque bodies

_BOUNDARY = re.compile(rb'boundary="?([^";,\s]{1,128})', re.IGNORECASE)


class _OpaqueBody(msgspec.Struct, gc=False):
    model: str | None = None


_decode_opaque = msgspec.json.Decoder(_OpaqueBody).decode


def read_opaque(request: Request, dialect: DialectName) -> Call:
    """Return a call with one message: the digest of its body, equal for equal bodies."""
    body, model = request.body, model_in_path(request.path)
    # The boundary of a form is random.
    boundary = _BOUNDARY.search(request.header(b"content-type") or b"")
    if boundary is not None:
        body = body.replace(boundary[1], b"")
    elif len(body) <= MAX_PATCHED_BYTES and (sent := decode_or_none(body, _decode_opaque)):
        model = sent.model or model
    text = f'"[body {blake2b(body, digest_size=16).hexdigest()}]"'
    return Call(
        request,
        dialect,
        model=model,
        is_opaque=True,
        raws=[raw_message(b"user", text.encode())],
        read=openai_chat.read_message,
    )


# Amazon Bedrock


class _ConverseBody(msgspec.Struct, gc=False):
    messages: list[msgspec.Raw]
    system: msgspec.Raw = ABSENT
    toolConfig: msgspec.Raw = ABSENT  # noqa: N815


_decode_converse = msgspec.json.Decoder(_ConverseBody).decode


def read_converse(request: Request, body: bytes) -> Call:
    """Read a Converse body; raises what decoding raises."""
    sent = _decode_converse(body)
    raws = sent.messages
    if sent.system != ABSENT:
        raws.insert(0, raw_message(b"system", sent.system))
    return Call(
        request,
        "http",
        model=model_in_path(request.path),
        raws=raws,
        read=read_message,
        read_tools=None if sent.toolConfig is ABSENT else partial(_tool_names, sent.toolConfig),
    )


def read_invoke(request: Request, body: bytes) -> Call:
    """Read an InvokeModel body for one of Anthropic's models; raises what decoding raises."""
    call = anthropic.read(request, body)
    call.dialect, call.model = "http", model_in_path(request.path)
    return call


def read_message(raw: msgspec.Raw) -> Message:
    """Read one message of a Converse history."""
    try:
        sent = decode(raw)
        role, content = sent.get("role"), sent.get("content")
        if not isinstance(role, str) or not isinstance(content, list):
            return malformed_message(raw)
        return _message(ROLES.get(role, role), content)
    except (*UNREADABLE, AttributeError):
        return malformed_message(raw)


def _message(role: str, blocks: list[Any]) -> Message:
    parts = MessageParts()
    for block in blocks:
        if not isinstance(block, dict):
            parts.texts.append(canonical(block))
        elif isinstance(call := block.get("toolUse"), dict):
            parts.calls.append(read_tool_call(call, "toolUseId", "input"))
        elif isinstance(result := block.get("toolResult"), dict):
            parts.results.append(_tool_result(result))
        elif "reasoningContent" not in block:
            parts.texts.append(_text(block))
    return parts.message(role)


def _tool_result(sent: Json) -> ToolResult:
    content = sent.get("content")
    blocks = content if isinstance(content, list) else [content]
    return ToolResult(
        id_text(sent.get("toolUseId")),
        "\n".join(_text(block) if isinstance(block, dict) else id_text(block) for block in blocks),
        is_error=sent.get("status") == "error",
    )


def _text(block: Json) -> str:
    return canonical(block["json"]) if "json" in block else untyped_text(block)


def _tool_names(config: msgspec.Raw) -> tuple[str, ...]:
    try:
        tools = decode(config)["tools"]
        return tuple(id_text(tool["toolSpec"]["name"]) for tool in tools if "toolSpec" in tool)
    except (*UNREADABLE, KeyError, TypeError, IndexError):
        return ()


class BedrockCounts(anthropic.AnthropicCounts, gc=False):
    """Converse's counts: Anthropic's by other names."""

    input_tokens: Count = msgspec.field(name="inputTokens")
    output_tokens: Count = msgspec.field(name="outputTokens")
    cache_read_input_tokens: Count | None = optional_field("cacheReadInputTokens")
    cache_creation_input_tokens: Count | None = optional_field("cacheWriteInputTokens")


DIALECT: Dialect = Dialect(
    name="http",
    read=read,
    error_body=openai_chat.error_body,
    # Images and transcripts report usage in the shape of responses.
    usage=UsageFormat((openai_chat.ResponsesCounts, BedrockCounts)),
)
