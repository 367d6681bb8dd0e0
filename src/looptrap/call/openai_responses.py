"""OpenAI Responses: a string, or a flat list of items in which calls and results stand alone."""

from __future__ import annotations

from functools import partial
from typing import Any

import msgspec

from looptrap.call.content import (
    ABSENT,
    ROLES,
    THOUGHT,
    UNREADABLE,
    arguments,
    decode,
    digest,
    flatten,
    identity,
    malformed,
    model_in_path,
    spoken,
    tool_names,
)
from looptrap.call.model import Call, Message, Request, ToolCall, ToolResult


class _Body(msgspec.Struct, gc=False):
    input: list[msgspec.Raw] | str | None = None
    model: str | None = None
    stream: Any = None
    user: Any = None
    instructions: msgspec.Raw = ABSENT
    prompt: msgspec.Raw = ABSENT
    previous_response_id: str | None = None
    conversation: Any = None
    tools: msgspec.Raw = ABSENT


_decode_body = msgspec.json.Decoder(_Body).decode


def read(request: Request, body: bytes) -> Call:
    """Read a Responses body; raises what decoding raises."""
    sent = _decode_body(body)
    raws = sent.input
    if isinstance(raws, str):
        raws = [spoken(b"user", msgspec.json.encode(raws))]
    elif raws is None:
        if sent.prompt == ABSENT:
            raise msgspec.ValidationError("neither `input` nor `prompt`")
        raws = []
    # A stored prompt is a system message too: its id and variables are what the model is told.
    for leading in (sent.prompt, sent.instructions):
        if leading != ABSENT:
            raws.insert(0, spoken(b"system", leading))
    conversation = sent.conversation
    if isinstance(conversation, dict):
        conversation = conversation.get("id")
    return Call(
        request,
        "openai_responses",
        model=sent.model or model_in_path(request.path),
        stream=sent.stream is True,
        user=identity(sent.user),
        chain=sent.previous_response_id or identity(conversation),
        raws=raws,
        read=read_item,
        scattered=True,
        read_tools=None if sent.tools is ABSENT else partial(tool_names, sent.tools),
    )


def read_item(raw: msgspec.Raw) -> Message:
    """Read one item: a message, a call, a result, or something else the API keeps in between."""
    try:
        item = decode(raw)
        if not isinstance(item, dict):
            return malformed(raw)
        kind = item.pop("type", None) or ("message" if "role" in item else "item_reference")
        if not isinstance(kind, str):
            return malformed(raw)
        if kind == "message":
            return _message(item, raw)
        if kind.endswith("_output"):
            return Message("tool", "", (), (_output(item),))
        if kind.endswith("_call"):
            return _call(kind, item)
        if kind in THOUGHT:
            return Message("assistant")
        if kind != "item_reference":
            item.pop("id", None)  # new in each answer, whatever else the item says
        # An approval is a person's yes or no to a call of a remote tool.
        return Message("user" if kind == "mcp_approval_response" else "", digest(kind, item))
    except UNREADABLE:
        return malformed(raw)


def _message(item: dict[str, Any], raw: msgspec.Raw) -> Message:
    role, content = item.get("role"), item.get("content")
    if not isinstance(role, str) or isinstance(content, int | float):
        return malformed(raw)
    return Message(ROLES.get(role, role), flatten(content))


def _call(kind: str, item: dict[str, Any]) -> Message:
    """Read a call; the API's own tools keep what came of it in the same item."""
    call_id = identity(item.get("call_id") or item.get("id"))
    name = identity(item.get("name")) or kind.removesuffix("_call")
    call = ToolCall(call_id, name, _arguments(item))
    error = item.get("error")
    output = error or item.get("output") or item.get("outputs") or item.get("results")
    if not output:
        return Message("assistant", "", (call,))
    result = ToolResult(call_id, flatten(output), is_error=bool(error))
    return Message("assistant", "", (call,), (result,))


def _arguments(item: dict[str, Any]) -> str:
    for field in ("input", "code"):
        if isinstance(item.get(field), str):
            return str(item[field])  # free text, which may look like JSON and is none
    for field in ("arguments", "action", "actions", "operation", "queries"):
        if item.get(field) is not None:
            return arguments(item[field])
    return "{}"


def _output(item: dict[str, Any]) -> ToolResult:
    for field in ("output", "result", "tools"):
        if item.get(field) is not None:
            content = item[field]
            break
    else:
        content = None
    return ToolResult(
        identity(item.get("call_id") or item.get("id")),
        flatten(content),
        is_error=item.get("status") == "failed",
        name=identity(item.get("name")),
    )
