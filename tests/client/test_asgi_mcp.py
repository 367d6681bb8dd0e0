"""An MCP server behind the middleware, on a real socket, with the real MCP client."""

import asyncio
from contextlib import asynccontextmanager

import pytest
import uvicorn
from mcp import ClientSession, MCPError
from mcp.client.streamable_http import streamable_http_client
from mcp.server.mcpserver import MCPServer

from looptrap.asgi import LoopMiddleware

WAIT = 20


class Parts:
    """An MCP server with one tool, and how often that was really called."""

    def __init__(self, **how):
        self.asked = []
        server = MCPServer("parts")

        @server.tool()
        def find_part(number: int) -> str:
            """Find a part."""
            self.asked.append(number)
            return f"part {number} is on no shelf"

        self.app = server.streamable_http_app(**how)


@asynccontextmanager
async def served(app):
    """Serve an application on a port of its own; give its URL."""
    settings = uvicorn.Config(
        app, port=0, log_level="error", lifespan="on", ws="none", timeout_graceful_shutdown=2
    )
    server = uvicorn.Server(settings)
    running = asyncio.create_task(server.serve())
    async with asyncio.timeout(WAIT):
        while not server.started:
            assert not running.done()
            await asyncio.sleep(0.01)
    port = server.servers[0].sockets[0].getsockname()[1]
    try:
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        server.should_exit = True
        await asyncio.wait_for(running, WAIT)


@asynccontextmanager
async def session_at(url):
    async with (
        streamable_http_client(url) as (read, write, *_),
        ClientSession(read, write) as session,
    ):
        await session.initialize()
        yield session


HOW = pytest.mark.parametrize(
    "how",
    [{}, {"json_response": True}, {"stateless_http": True}],
    ids=["streams", "JSON", "stateless"],
)


@HOW
async def test_a_looping_tool_call_is_refused_and_the_session_goes_on(how):
    parts = Parts(**how)
    middleware = LoopMiddleware(parts.app)
    async with asyncio.timeout(3 * WAIT), served(middleware) as url, session_at(url) as session:
        for _ in range(19):
            answer = await session.call_tool("find_part", {"number": 5})
            assert answer.content[0].text == "part 5 is on no shelf"
        with pytest.raises(MCPError) as caught:
            await session.call_tool("find_part", {"number": 5})
        assert caught.value.error.code == -32029
        assert caught.value.error.data["hit_count"] == 20
        other = await session.call_tool("find_part", {"number": 6})
        assert other.content[0].text == "part 6 is on no shelf"
    assert parts.asked == [5] * 19 + [6]
    assert middleware.guard.tally.rules["service", "same-tool-call", "warn"] == 14


@HOW
async def test_honest_sessions_pass_without_a_warning(how):
    parts = Parts(**how)
    middleware = LoopMiddleware(parts.app)
    async with asyncio.timeout(3 * WAIT), served(middleware) as url:
        for _ in range(8):
            async with session_at(url) as session:
                assert [tool.name for tool in (await session.list_tools()).tools] == ["find_part"]
                for number in (1, 2, 3):
                    await session.call_tool("find_part", {"number": number})
    assert parts.asked == [1, 2, 3] * 8
    # Without sessions all of them are one caller, who asked for each part eight times.
    warned = {("service", "same-tool-call", "warn")} if "stateless_http" in how else set()
    assert set(middleware.guard.tally.rules) == warned


async def test_without_the_middleware_nothing_stops_it():
    parts = Parts()
    async with asyncio.timeout(3 * WAIT), served(parts.app) as url, session_at(url) as session:
        for _ in range(25):
            await session.call_tool("find_part", {"number": 5})
    assert len(parts.asked) == 25
