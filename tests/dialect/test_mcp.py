"""MCP's tools/call, told by the shape of its body on any path."""

from __future__ import annotations

import json
from typing import Any

import pytest

from looptrap.dialect.model import Message, Request, ToolCall
from looptrap.dialect.registry import read

PARAMS = {"name": "search", "arguments": {"q": 1, "a": 2}}


def rpc(**fields: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": PARAMS} | fields


def dialect(body: Any, **request: Any) -> str:
    return read(Request(**{"path": "/mcp", "body": json.dumps(body).encode()} | request)).dialect


@pytest.mark.parametrize("path", ["/mcp", "/", "/servers/a/mcp", "/messages", "/messages/"])
def test_a_tool_call_is_known_on_any_path(path: str) -> None:
    call = read(Request(path=path, body=json.dumps(rpc()).encode()))
    assert call.dialect == "mcp"
    assert not call.generates
    assert call.messages == [Message("assistant", calls=(ToolCall("", "search", '{"a":2,"q":1}'),))]


@pytest.mark.parametrize("other", [2, "b7", None])
def test_the_json_rpc_id_says_nothing(other: Any) -> None:
    one, two = (read(Request(body=json.dumps(rpc(id=i)).encode())) for i in (1, other))
    assert one.messages == two.messages


def test_escaped_slashes_are_read() -> None:
    body = json.dumps(rpc()).replace("/", "\\/").encode()
    assert read(Request(path="/mcp", body=body)).dialect == "mcp"


def test_a_call_without_arguments() -> None:
    call = read(Request(body=json.dumps(rpc(params={"name": "now"})).encode()))
    assert call.messages[0].calls == (ToolCall("", "now", "{}"),)


@pytest.mark.parametrize(
    "body",
    [
        pytest.param([rpc()], id="a batch"),
        pytest.param(rpc(method="tools/list"), id="another method"),
        pytest.param({"method": "tools/call", "params": PARAMS}, id="no JSON-RPC"),
        pytest.param({"jsonrpc": "2.0", "method": "tools/call"}, id="no params"),
        pytest.param("jsonrpc", id="a string"),
        pytest.param(rpc(params={"arguments": {}}), id="no name"),
        pytest.param(rpc(params=[1]), id="params by position"),
    ],
)
def test_anything_else_is_plain_http(body: Any) -> None:
    assert dialect(body) == "http"


def test_only_a_post_calls_a_tool() -> None:
    assert dialect(rpc(), method="GET") == "http"
