"""Gemini's generateContent and streamGenerateContent, at Google's own path or on Vertex.

Google takes field names in camelCase and in snake_case; so do we.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import msgspec

from looptrap.call.content import (
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
    part_text,
    spoken,
    tool_names,
)
from looptrap.call.model import Call, Message, Request, ToolCall, ToolResult


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
            raws.insert(0, spoken(b"system", system))
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


def _field(part: dict[str, Any], *names: str) -> dict[str, Any] | None:
    return next((part[name] for name in names if isinstance(part.get(name), dict)), None)


def _text(part: dict[str, Any]) -> str:
    text = part.get("text")
    if isinstance(text, str):
        return text
    return digest(min((key for key in part if isinstance(part[key], dict)), default="part"), part)


def _tool_call(sent: dict[str, Any]) -> ToolCall:
    return ToolCall(
        identity(sent.get("id")), identity(sent.get("name")), arguments(sent.get("args"))
    )


def _tool_result(sent: dict[str, Any]) -> ToolResult:
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
