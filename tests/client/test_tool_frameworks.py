"""Frameworks' own decorators above `looptrap.tool`: they read what they did, and are judged."""

import re
from typing import Annotated

import pytest
from agents import RunContextWrapper, function_tool
from agents.tool_context import ToolContext
from langchain.tools import InjectedToolCallId
from langchain.tools import tool as langchain_tool
from langchain_core.messages import AIMessage
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode
from mcp.server.mcpserver import Context, MCPServer
from pydantic_ai import Agent, RunContext
from pydantic_ai.messages import ModelResponse, ToolCallPart
from pydantic_ai.models.function import FunctionModel

import looptrap
from looptrap import LoopDetectedError

REFUSED = (
    "Blocked (recursive_loop_detected): find_part with the same arguments and result,"
    " 5 times in 5 rounds."
)


def find_part(number: int, shelf: str = "A") -> str:
    """Find a part.

    Args:
        number: which one
        shelf: where to look
    """
    return f"part {number} is on no shelf"


async def find_part_later(number: int, shelf: str = "A") -> str:
    """Find a part."""
    return find_part(number, shelf)


SYNC, ASYNC = looptrap.tool(find_part), looptrap.tool(name="find_part")(find_part_later)
TELLING = pytest.mark.parametrize(
    "tool",
    [
        pytest.param(looptrap.tool(tells=True)(find_part), id="sync"),
        pytest.param(looptrap.tool(name="find_part", tells=True)(find_part_later), id="async"),
    ],
)
"""Where a framework keeps the words of an exception from the model."""
BOTH = pytest.mark.parametrize("tool", [SYNC, ASYNC], ids=["sync", "async"])


@pytest.fixture(autouse=True)
def run(request):
    with looptrap.session(request.node.nodeid.encode("ascii", "replace").decode()):
        yield


class TestLangChain:
    @BOTH
    async def test_calls_are_judged(self, tool):
        made = langchain_tool(tool)
        for _ in range(4):
            assert await made.ainvoke({"number": 5}) == find_part(5)
        with pytest.raises(LoopDetectedError, match=re.escape(REFUSED)):
            await made.ainvoke({"number": 5, "shelf": "A"})
        assert await made.ainvoke({"number": 6}) == find_part(6)

    def test_the_schema_is_that_of_the_function(self):
        plain, ours = langchain_tool(find_part), langchain_tool(SYNC)
        assert (ours.name, ours.description) == (plain.name, plain.description)
        assert ours.args == plain.args

    def test_what_it_injects_is_no_argument_of_the_model(self):
        @langchain_tool
        @looptrap.tool
        def note(text: str, call_id: Annotated[str, InjectedToolCallId]) -> str:
            """Note something."""
            return "noted before"

        assert list(note.tool_call_schema.model_json_schema()["properties"]) == ["text"]

        def call(number):
            asked = {"type": "tool_call", "name": "note", "args": {"text": "a"}}
            return note.invoke({**asked, "id": f"call_{number}"})

        for number in range(4):
            assert call(number).content == "noted before"
        with pytest.raises(LoopDetectedError):
            call(4)


class TestLangGraph:
    @staticmethod
    async def call(tools, number):
        graph = (
            StateGraph(MessagesState).add_node("tools", tools).add_edge(START, "tools").compile()
        )
        asked = {"name": "find_part", "args": {"number": 5}, "id": f"call_{number}"}
        said = await graph.ainvoke({"messages": [AIMessage("", tool_calls=[asked])]})
        return said["messages"][-1].content

    @BOTH
    async def test_a_refusal_comes_out_of_the_graph(self, tool):
        tools = ToolNode([langchain_tool("find_part")(tool)])
        for number in range(4):
            assert await self.call(tools, number) == find_part(5)
        with pytest.raises(LoopDetectedError, match=re.escape(REFUSED)):
            await self.call(tools, 4)

    @TELLING
    async def test_or_the_model_is_told(self, tool):
        tools = ToolNode([langchain_tool("find_part")(tool)])
        said = [await self.call(tools, number) for number in range(5)]
        assert said[4].startswith(REFUSED)


class TestOpenAIAgents:
    @staticmethod
    async def call(tool, arguments, number):
        context = ToolContext(None, tool_name=tool.name, tool_call_id=f"call_{number}",
                              tool_arguments=arguments)  # fmt: skip
        return await tool.on_invoke_tool(context, arguments)

    @TELLING
    async def test_calls_are_judged_and_the_model_is_told(self, tool):
        made = function_tool(tool)
        for number in range(4):
            assert await self.call(made, '{"number": 5}', number) == find_part(5)
        assert REFUSED in await self.call(made, '{"number": 5, "shelf": "A"}', 4)
        assert await self.call(made, '{"number": 6}', 5) == find_part(6)

    @BOTH
    async def test_a_run_that_shows_exceptions_ends_with_ours(self, tool):
        made = function_tool(failure_error_function=None)(tool)
        for number in range(4):
            await self.call(made, '{"number": 5}', number)
        with pytest.raises(LoopDetectedError, match=re.escape(REFUSED)):
            await self.call(made, '{"number": 5}', 4)

    def test_the_schema_is_that_of_the_function(self):
        plain, ours = function_tool(find_part), function_tool(SYNC)
        assert (ours.name, ours.description) == (plain.name, plain.description)
        assert ours.params_json_schema == plain.params_json_schema

    async def test_its_context_is_no_argument_of_the_model(self):
        @function_tool
        @looptrap.tool(tells=True)
        def find_part(context: RunContextWrapper[None], number: int) -> str:
            """Find a part."""
            return "on no shelf"

        assert list(find_part.params_json_schema["properties"]) == ["number"]
        said = [await self.call(find_part, '{"number": 5}', number) for number in range(5)]
        assert said[:4] == ["on no shelf"] * 4
        assert REFUSED in said[4]


class TestPydanticAi:
    @staticmethod
    def stuck(messages, info):
        return ModelResponse([ToolCallPart("find_part", {"number": 5})])

    @BOTH
    async def test_a_stuck_agent_ends_with_our_exception(self, tool):
        agent = Agent(FunctionModel(self.stuck))
        agent.tool_plain(name="find_part")(tool)
        with pytest.raises(LoopDetectedError, match=re.escape(REFUSED)):
            await agent.run("Where is part 5?")

    async def test_its_context_is_no_argument_of_the_model(self):
        seen = []

        def model(messages, info):
            seen.extend(info.function_tools)
            return self.stuck(messages, info)

        agent = Agent(FunctionModel(model))

        @agent.tool
        @looptrap.tool
        def find_part(context: RunContext[None], number: int) -> str:
            """Find a part."""
            return "on no shelf"

        with pytest.raises(LoopDetectedError, match=re.escape(REFUSED)):
            await agent.run("Where is part 5?")
        assert list(seen[0].parameters_json_schema["properties"]) == ["number"]
        assert len(seen) == 5


class TestMcp:
    @TELLING
    async def test_calls_are_judged_and_the_model_is_told(self, tool):
        server = MCPServer("parts")
        server.tool(name="find_part")(tool)
        said = [await server.call_tool("find_part", {"number": 5}) for _ in range(5)]
        texts = [answer.content[0].text for answer in said]
        assert texts[:4] == [find_part(5)] * 4
        assert texts[4].startswith(REFUSED)

    async def test_the_schema_is_that_of_the_function(self):
        plain, ours = MCPServer("plain"), MCPServer("ours")
        plain.tool()(find_part)
        ours.tool()(SYNC)
        (one,), (other,) = await plain.list_tools(), await ours.list_tools()
        assert one == other

    async def test_its_context_is_no_argument_of_the_model(self):
        server = MCPServer("parts")

        @server.tool()
        @looptrap.tool
        def find_part(number: int, context: Context) -> str:
            """Find a part."""
            return "on no shelf"

        (listed,) = await server.list_tools()
        assert list(listed.input_schema["properties"]) == ["number"]
