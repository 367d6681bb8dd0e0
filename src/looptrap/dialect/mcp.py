"""MCP over HTTP: one JSON-RPC `tools/call`, recognised by its shape on any path."""

from __future__ import annotations

from contextlib import suppress
from typing import Any, Literal

import msgspec

from looptrap.dialect.content import ABSENT, UNREADABLE, canonical_arguments, malformed_message
from looptrap.dialect.dialect import Dialect
from looptrap.dialect.model import Call, Json, Message, Refusal, Request, ToolCall

_REFUSED = -32029
"""The JSON-RPC code of a refusal, from the range for implementations."""
_FAILURES = {
    "invalid_request_error": -32600,
    "rate_limit_exceeded": -32600,
    "server_error": -32603,
}
"""The JSON-RPC codes of the gateway's own failures, by kind."""


class _Params(msgspec.Struct, gc=False):
    name: str
    arguments: Any = None


class _Body(msgspec.Struct, gc=False):
    jsonrpc: str
    method: Literal["tools/call"]
    params: _Params
    id: msgspec.Raw = ABSENT


_decode_body = msgspec.json.Decoder(_Body).decode


def read(request: Request, body: bytes) -> Call:
    """Read a `tools/call`; raises what decoding raises."""
    _decode_body(body)
    return Call(request, "mcp", raws=[msgspec.Raw(body)], read=read_call)


def read_call(raw: msgspec.Raw) -> Message:
    """Read the tool call as a message of the assistant."""
    try:
        params = _decode_body(raw).params
        call = ToolCall("", params.name, canonical_arguments(params.arguments))
        return Message("assistant", calls=(call,))
    except UNREADABLE:
        return malformed_message(raw)


def _error_body(refusal: Refusal, _request_id: str, call: Call | None) -> Json:
    """Return a JSON-RPC error; its id is null where the call has none, or was not read."""
    rpc_id = ABSENT
    if call is not None:
        with suppress(*UNREADABLE):
            rpc_id = _decode_body(call.raws[0]).id
    code = _FAILURES.get(refusal.kind, _REFUSED)
    error = {"code": code, "message": refusal.message}
    if refusal.detail is not None:
        error["data"] = refusal.detail
    return {"jsonrpc": "2.0", "id": rpc_id, "error": error}


DIALECT: Dialect = Dialect(
    name="mcp",
    read=read,
    error_body=_error_body,
    # A JSON-RPC error has status 200: many MCP clients never read the body of another status.
    refusal_status=200,
)
