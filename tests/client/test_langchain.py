"""Agents of LangChain through a real gateway: a refusal is a clean end, anything else is not."""

import subprocess
import sys

import openai
import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware, ModelRetryMiddleware
from langchain.agents.structured_output import ToolStrategy
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver
from pydantic import BaseModel
from tests.client.stuck import (
    ASK,
    ASYNC,
    MODEL,
    QUESTION,
    SYNC,
    find_part,
    gateway_before,
    is_end,
    model_at,
    run,
)

import looptrap
from looptrap.langchain import LooptrapMiddleware
from looptrap.testing import Reply

BUDGET = """
[[budgets]]
name = "tiny"
by = ["caller"]
limit_usd = 0.0001
"""
KILLED = """
[[kill_switches]]
match = { model = "gpt-5.4-mini" }
reason = "maintenance"
"""


@pytest.fixture
def gateway(provider, tmp_path):
    with gateway_before(provider, tmp_path) as gateway:
        yield gateway


def agent_on(model, *others, **options):
    options = {"tools": [find_part], **options}
    return create_agent(model, middleware=[*others, LooptrapMiddleware()], **options)


@pytest.mark.parametrize(
    "options",
    [{}, {"streaming": True}, {"use_responses_api": True}],
    ids=["chat", "chat, streamed", "responses"],
)
@pytest.mark.parametrize("way", [*SYNC, *ASYNC], ids=lambda way: way.__name__)
async def test_a_refusal_is_the_last_message_of_the_run(gateway, provider, way, options):
    last = await way(agent_on(model_at(gateway, **options)))
    assert "find_part" in last.text
    assert is_end(last)
    told = last.response_metadata["looptrap"]
    assert (told["rule"], told["hit_count"], told["cooldown_seconds"]) == ("no-progress", 5, 30)
    assert told["fingerprint"]
    assert provider.calls == 5


@pytest.mark.parametrize(
    ("toml", "reason", "field"),
    [
        pytest.param(BUDGET, "budget_exceeded", ("budget", "tiny"), id="a budget"),
        pytest.param(KILLED, "killed", ("rule", "kill-switch"), id="a kill switch"),
        pytest.param(
            "block_status = 400", "loop_detected", ("rule", "no-progress"), id="another status"
        ),
    ],
)
async def test_the_message_says_why(provider, tmp_path, toml, reason, field):
    with gateway_before(provider, tmp_path, toml) as gateway:
        last = await run(agent_on(model_at(gateway)))
    assert is_end(last, reason)
    assert field in last.response_metadata["looptrap"].items()


@pytest.mark.parametrize("way", [*SYNC, *ASYNC], ids=lambda way: way.__name__)
async def test_a_model_that_is_guarded_in_this_process_ends_its_run_alike(provider, way):
    provider._script = [ASK]
    options = {"base_url": f"{provider.url}/v1", "api_key": "sk-test"}
    with looptrap.guard(openai.OpenAI(**options)) as sync:
        async with looptrap.guard(openai.AsyncOpenAI(**options)) as awaited:
            model = ChatOpenAI(
                **MODEL,
                root_client=sync,
                client=sync.chat.completions,
                root_async_client=awaited,
                async_client=awaited.chat.completions,
            )
            last = await way(agent_on(model))
    assert is_end(last)
    assert last.response_metadata["looptrap"]["rule"] == "no-progress"
    assert provider.calls == 5


async def test_it_is_not_tried_again_by_those_around_it(gateway, provider):
    last = await run(agent_on(model_at(gateway), ModelRetryMiddleware(initial_delay=0)))
    assert is_end(last)
    assert gateway.app.server.requests == 6
    assert provider.calls == 5


class Watching(AgentMiddleware):
    """Another middleware with something to do after the model."""

    def after_model(self, state, runtime):
        return None


class Stock(BaseModel):
    parts: int


@pytest.mark.parametrize("others", [[], [Watching()]], ids=["alone", "with others"])
def test_an_agent_that_owes_a_structured_answer_ends_too(gateway, provider, others):
    provider._script = [Reply.tool_call("Stock", {"parts": "none"})]
    agent = agent_on(model_at(gateway), *others, tools=[], response_format=ToolStrategy(Stock))
    result = agent.invoke(QUESTION)
    assert is_end(result["messages"][-1])
    assert result.get("structured_response") is None
    assert gateway.app.server.requests == provider.calls + 1


def test_a_thread_that_was_ended_can_be_taken_up_again(gateway, provider):
    agent = agent_on(model_at(gateway), checkpointer=InMemorySaver())
    config = {"configurable": {"thread_id": "1"}}
    agent.invoke(QUESTION, config)
    assert is_end(agent.get_state(config).values["messages"][-1])
    provider._script = [Reply.text("Then I do not know.")]
    result = agent.invoke({"messages": [("user", "Answer without looking.")]}, config)
    assert result["messages"][-1].text == "Then I do not know."


def refusing(number: int) -> str:
    """Be a tool that is guarded itself."""
    raise looptrap.LoopDetectedError(
        "Blocked: enough.", hit_count=5, cooldown_seconds=30, fingerprint="1-a", rule="r"
    )


def failing(number: int) -> str:
    """Fail for a reason of its own."""
    raise KeyError(number)


async def invoked(agent):
    return agent.invoke(QUESTION)


async def awaited(agent):
    return await agent.ainvoke(QUESTION)


both = pytest.mark.parametrize("way", [invoked, awaited], ids=["sync", "async"])


@both
async def test_a_tool_that_is_refused_tells_the_model(gateway, provider, way):
    provider._script = [Reply.tool_call("refusing", {"number": 5}), Reply.text("I give up.")]
    *_, result, last = (await way(agent_on(model_at(gateway), tools=[refusing])))["messages"]
    assert (result.text, result.status, result.name) == ("Blocked: enough.", "error", "refusing")
    assert last.text == "I give up."


@both
async def test_what_is_no_refusal_is_raised_as_it_was(gateway, provider, way):
    model = model_at(gateway, max_retries=0)
    provider._script = [Reply.status(429)]
    with pytest.raises(openai.RateLimitError):
        await way(agent_on(model))
    provider._script = [Reply.tool_call("failing", {"number": 5})]
    with pytest.raises(KeyError):
        await way(agent_on(model, tools=[failing]))


WITHOUT = """
import sys

class Gone:
    def find_spec(self, name, path=None, target=None):
        if name == {lacks!r}:
            raise ModuleNotFoundError(name=name)

sys.meta_path.insert(0, Gone())
import looptrap.{door}
"""


@pytest.mark.parametrize(
    ("door", "lacks"), [("langchain", "langchain"), ("langgraph", "langchain_core")]
)
def test_without_the_package_it_says_which_to_install(door, lacks):
    # A process of its own: in this one the packages are loaded long since.
    source = WITHOUT.format(door=door, lacks=lacks)
    done = subprocess.run(
        [sys.executable, "-c", source], capture_output=True, text=True, check=False, timeout=60
    )
    message = f"ImportError: looptrap.{door} needs the package {door}: pip install {door}"
    assert message in done.stderr
