"""Amazon Bedrock: Converse, and InvokeModel where its body is that of Anthropic Messages.

Answers go back as plain HTTP: Bedrock's clients know no dialect's errors but their own.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import msgspec

from looptrap.dialect import anthropic
from looptrap.dialect.content import (
    ABSENT,
    ROLES,
    UNREADABLE,
    arguments,
    canonical,
    decode,
    digest,
    identity,
    malformed,
    model_in_path,
    raw_message,
)
from looptrap.dialect.model import Call, Message, Request, ToolCall, ToolResult, Usage
from looptrap.dialect.usage import Count


class _Body(msgspec.Struct, gc=False):
    messages: list[msgspec.Raw]
    system: msgspec.Raw = ABSENT
    toolConfig: msgspec.Raw = ABSENT  # noqa: N815


_decode_body = msgspec.json.Decoder(_Body).decode


def read(request: Request, body: bytes) -> Call:
    """Read a Converse body; raises what decoding raises."""
    sent = _decode_body(body)
    raws = sent.messages
    if sent.system != ABSENT:
        raws.insert(0, raw_message(b"system", sent.system))
    return Call(
        request,
        "http",
        model=model_in_path(request.path),
        raws=raws,
        read=read_message,
        read_tools=None if sent.toolConfig is ABSENT else partial(_tools, sent.toolConfig),
    )


def read_invoke(request: Request, body: bytes) -> Call:
    """Read an InvokeModel body for one of Anthropic's models; raises what decoding raises."""
    call = anthropic.read(request, body)
    call.dialect, call.model = "http", model_in_path(request.path)
    return call


def read_message(raw: msgspec.Raw) -> Message:
    """Read one message of the history."""
    try:
        sent = decode(raw)
        role, content = sent.get("role"), sent.get("content")
        if not isinstance(role, str) or not isinstance(content, list):
            return malformed(raw)
        return _message(ROLES.get(role, role), content)
    except (*UNREADABLE, AttributeError):
        return malformed(raw)


def _message(role: str, blocks: list[Any]) -> Message:
    texts: list[str] = []
    calls: list[ToolCall] = []
    results: list[ToolResult] = []
    for block in blocks:
        if not isinstance(block, dict):
            texts.append(canonical(block))
        elif isinstance(used := block.get("toolUse"), dict):
            calls.append(
                ToolCall(
                    identity(used.get("toolUseId")),
                    identity(used.get("name")),
                    arguments(used.get("input")),
                )
            )
        elif isinstance(result := block.get("toolResult"), dict):
            results.append(_tool_result(result))
        elif "reasoningContent" not in block:
            texts.append(_text(block))
    if results and role == "user" and not texts:
        role = "tool"
    return Message(role, "\n".join(texts), tuple(calls), tuple(results))


def _tool_result(sent: dict[str, Any]) -> ToolResult:
    content = sent.get("content")
    blocks = content if isinstance(content, list) else [content]
    return ToolResult(
        identity(sent.get("toolUseId")),
        "\n".join(_text(block) if isinstance(block, dict) else identity(block) for block in blocks),
        is_error=sent.get("status") == "error",
    )


def _text(block: dict[str, Any]) -> str:
    text = block.get("text")
    if isinstance(text, str):
        return text
    if "json" in block:
        return canonical(block["json"])
    return digest(min(block, default="part"), block)


def _tools(config: msgspec.Raw) -> tuple[str, ...]:
    try:
        tools = decode(config)["tools"]
        return tuple(identity(one["toolSpec"]["name"]) for one in tools if "toolSpec" in one)
    except (*UNREADABLE, KeyError, TypeError, IndexError):
        return ()


class BedrockCounts(msgspec.Struct, gc=False, rename="camel"):
    """Counts of Converse."""

    input_tokens: Count
    output_tokens: Count
    cache_read_input_tokens: Count | None = None
    cache_write_input_tokens: Count | None = None

    def usage(self) -> Usage:
        """Return the counts in neutral form."""
        read, written = self.cache_read_input_tokens or 0, self.cache_write_input_tokens or 0
        asked = self.input_tokens + read + written
        return Usage(asked, self.output_tokens, read, cache_write_tokens=written)
