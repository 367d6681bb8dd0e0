"""MCP over HTTP: one JSON-RPC `tools/call`, told by its shape on any path."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from looptrap.call.content import UNREADABLE, arguments, malformed
from looptrap.call.model import Call, Message, Request, ToolCall


class _Params(msgspec.Struct, gc=False):
    name: str
    arguments: Any = None


class _Body(msgspec.Struct, gc=False):
    jsonrpc: str
    method: Literal["tools/call"]
    params: _Params


_decode_body = msgspec.json.Decoder(_Body).decode


def read(request: Request, body: bytes) -> Call:
    """Read a `tools/call`; raises what decoding raises. Its JSON-RPC id is not looked at."""
    _decode_body(body)
    return Call(request, "mcp", raws=[msgspec.Raw(body)], read=read_call)


def read_call(raw: msgspec.Raw) -> Message:
    """Read the one tool call as a message of the assistant that made it."""
    try:
        params = _decode_body(raw).params
        return Message("assistant", calls=(ToolCall("", params.name, arguments(params.arguments)),))
    except UNREADABLE:
        return malformed(raw)
