"""A model that is stuck, behind a real gateway, as LangChain knows it."""

from contextlib import contextmanager

from langchain_openai import ChatOpenAI
from tests.clients.serving import running_gateway

from looptrap.config import load
from looptrap.testing import Reply

MODEL = {"model": "gpt-5.4-mini", "api_key": "sk-test"}
ASK = Reply.tool_call("find_part", {"number": 5})
QUESTION = {"messages": [("user", "Is part 5 in stock?")]}


def find_part(number: int) -> str:
    """Say whether a part is in stock."""
    return "ERROR: the catalogue is offline"


@contextmanager
def gateway_before(provider, folder, toml=""):
    """Run a gateway in front of a provider that always asks for the same."""
    provider._script = [ASK]
    file = folder / "looptrap.toml"
    file.write_text(toml)
    flags = {"listen": "127.0.0.1:0", "upstream": provider.url, "state": str(folder / "state")}
    with running_gateway(load(file, env={}, flags=flags)) as gateway:
        yield gateway


def model_at(gateway, **options):
    return ChatOpenAI(base_url=f"{gateway.url}/v1", **MODEL, **options)


def is_end(message, reason="loop_detected"):
    """Tell whether a message is how a refused run ends."""
    return message.response_metadata["looptrap"]["reason"] == reason and not message.tool_calls


# Ways to run agents and graphs; each returns the last message


async def run(graph):
    return graph.invoke(QUESTION)["messages"][-1]


async def run_async(graph):
    return (await graph.ainvoke(QUESTION))["messages"][-1]


async def run_streamed(graph):
    *_, last = graph.stream(QUESTION, stream_mode="values")
    return last["messages"][-1]


async def run_streamed_async(graph):
    last = [one async for one in graph.astream(QUESTION, stream_mode="values")][-1]
    return last["messages"][-1]


async def run_by_message(graph):
    *_, (last, _) = graph.stream(QUESTION, stream_mode="messages")
    return last


async def run_by_message_async(graph):
    return [one async for one, _ in graph.astream(QUESTION, stream_mode="messages")][-1]


SYNC = [run, run_streamed, run_by_message]
ASYNC = [run_async, run_streamed_async, run_by_message_async]
