"""MCP over HTTP: one JSON-RPC `tools/call`, recognised by its shape on any path."""

from __future__ import annotations

from contextlib import suppress
from typing import Any, Literal

import msgspec

from looptrap.dialect.content import UNREADABLE, arguments, malformed
from looptrap.dialect.dialect import Dialect
from looptrap.dialect.model import Call, Json, Message, Refusal, Request, ToolCall
from looptrap.dialect.openai_chat import fake_error


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


_REFUSED = -32029
"""A refusal's JSON-RPC code, from the range left to implementations."""
_INVALID_REQUEST = -32600
_INTERNAL_ERROR = -32603
_CODES = {
    "invalid_request_error": _INVALID_REQUEST,
    "rate_limit_exceeded": _INVALID_REQUEST,
    "server_error": _INTERNAL_ERROR,
}
"""The codes of the gateway's own failures, by their kind."""

_NO_ID = msgspec.Raw(b"null")


class _Identified(msgspec.Struct, gc=False):
    id: msgspec.Raw = _NO_ID


_decode_identified = msgspec.json.Decoder(_Identified).decode


def _error_body(refusal: Refusal, _request_id: str, call: Call | None) -> Json:
    """Return a JSON-RPC error; its id is null where the client sent none, or was not read."""
    rpc_id = _NO_ID
    if call is not None:
        with suppress(*UNREADABLE):
            rpc_id = _decode_identified(call.raws[0]).id
    code = _CODES.get(refusal.kind, _REFUSED)
    error = {"code": code, "message": refusal.message, "data": refusal.detail}
    return {"jsonrpc": "2.0", "id": rpc_id, "error": error}


DIALECT = Dialect(
    name="mcp",
    read=read,
    error_body=_error_body,
    # JSON-RPC errors travel under 200: many MCP clients never read the body of another status.
    refusal_status=200,
    fake_error=fake_error,
)
