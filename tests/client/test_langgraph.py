"""Graphs of LangGraph through a real gateway: a node that is refused ends them cleanly."""

from typing import Annotated, TypedDict

import openai
import pytest
from langchain_core.runnables import RunnableConfig
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.graph.message import add_messages
from langgraph.prebuilt import ToolNode, tools_condition
from tests.client.stuck import ASYNC, SYNC, find_part, gateway_before, is_end, model_at, run

from looptrap.langgraph import ending
from looptrap.testing import Reply


@pytest.fixture
def model(provider, tmp_path):
    with gateway_before(provider, tmp_path) as gateway:
        yield model_at(gateway, max_retries=0).bind_tools([find_part])


class Chat(TypedDict):
    """A state that calls its messages otherwise."""

    history: Annotated[list, add_messages]


def graph_of(node, key="messages", schema=MessagesState):
    graph = StateGraph(schema)
    graph.add_node("model", node)
    graph.add_node("tools", ToolNode([find_part], messages_key=key))
    graph.add_edge(START, "model")
    graph.add_conditional_edges(
        "model", lambda state: tools_condition(state, key), ["tools", "__end__"]
    )
    graph.add_edge("tools", "model")
    return graph.compile()


@pytest.mark.parametrize("way", SYNC, ids=lambda way: way.__name__)
async def test_a_graph_ends_where_its_model_is_refused(model, provider, way):
    @ending
    def node(state: MessagesState, config: RunnableConfig) -> dict:
        return {"messages": [model.invoke(state["messages"], config)]}

    assert is_end(await way(graph_of(node)))
    assert provider.calls == 5


class Node:
    """A node that is an object."""

    def __init__(self, model):
        self.model = model

    async def __call__(self, state: MessagesState) -> dict:
        return {"messages": [await self.model.ainvoke(state["messages"])]}


@pytest.mark.parametrize("is_object", [False, True], ids=["function", "object"])
@pytest.mark.parametrize("way", ASYNC, ids=lambda way: way.__name__)
async def test_a_graph_with_nodes_that_are_awaited_ends_too(model, provider, way, is_object):
    async def node(state: MessagesState) -> dict:
        return await Node(model)(state)

    assert is_end(await way(graph_of(ending(Node(model) if is_object else node))))
    assert provider.calls == 5


def test_the_messages_may_have_another_name(model, provider):
    def node(state: Chat) -> dict:
        return {"history": [model.invoke(state["history"])]}

    graph = graph_of(ending(node, messages_key="history"), "history", Chat)
    result = graph.invoke({"history": [("user", "Is part 5 in stock?")]})
    assert is_end(result["history"][-1])
    assert provider.calls == 5


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
async def test_what_is_no_refusal_is_raised_as_it_was(model, provider, is_async):
    provider._script = [Reply.status(429)]

    def node(state: MessagesState) -> dict:
        return {"messages": [model.invoke(state["messages"])]}

    with pytest.raises(openai.RateLimitError):
        await (ASYNC[0] if is_async else run)(graph_of(ending(Node(model) if is_async else node)))


def generating(state):
    yield {}


async def generating_async(state):
    yield {}


@pytest.mark.parametrize(
    "node", [generating, generating_async, "model"], ids=["a generator", "an async one", "a name"]
)
def test_what_it_cannot_wrap_it_does_not_take(node):
    with pytest.raises(TypeError, match=r"ending: .* is no function"):
        ending(node)
