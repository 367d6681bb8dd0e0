"""The real MCP SDK through the gateway: the same tool call again is refused in JSON-RPC."""

from contextlib import asynccontextmanager

import pytest
from mcp import ClientSession, MCPError
from mcp.client.streamable_http import streamable_http_client

from looptrap.testing import Reply

RULE = """
[[policies]]
name = "p"
  [[policies.rules]]
  name = "same-tool"
  watch = "tool"
  threshold = 3
  action = "block"
"""


def tool_server(received):
    """Answer as an MCP server with one tool that always says the same."""
    if received.method != "POST":
        return Reply.status(405, {})
    asked = received.json()
    match asked["method"]:
        case "initialize":
            result = {
                "protocolVersion": asked["params"]["protocolVersion"],
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "fake", "version": "1"},
            }
        case "tools/list":
            tool = {"name": "search", "inputSchema": {"type": "object"}}
            result = {"tools": [tool]}
        case "tools/call":
            result = {"content": [{"type": "text", "text": "nothing found"}]}
        case _:
            return Reply.status(202, b"")
    return Reply.status(200, {"jsonrpc": "2.0", "id": asked["id"], "result": result})


@asynccontextmanager
async def session_at(gateway):
    async with (
        streamable_http_client(f"{gateway.url}/mcp") as (read, write, *_),
        ClientSession(read, write) as session,
    ):
        await session.initialize()
        yield session


def calls(provider):
    return [one for one in provider.requests if b"tools/call" in one.body]


async def test_the_same_tool_call_is_refused_and_the_session_goes_on(serve, provider):
    provider._script = tool_server
    gateway = serve(RULE)
    async with session_at(gateway) as session:
        for _ in range(2):
            answer = await session.call_tool("search", {"q": "pump"})
            assert answer.content[0].text == "nothing found"
        with pytest.raises(MCPError) as caught:
            await session.call_tool("search", {"q": "pump"})
        assert caught.value.error.code == -32029
        assert caught.value.error.data["error"] == "recursive_loop_detected"
        assert caught.value.error.data["hit_count"] == 3
        assert "(recursive_loop_detected): " in str(caught.value)
        other = await session.call_tool("search", {"q": "valve"})
        assert other.content[0].text == "nothing found"
    assert len(calls(provider)) == 3
