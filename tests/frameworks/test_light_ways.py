"""What the pages of frameworks say beside their examples: other ways to be stopped."""

import openai
import pytest
from agents import Agent, OpenAIProvider, RunConfig, Runner, function_tool
from google import genai
from google.genai import types
from google.genai.errors import ClientError
from pydantic_ai import Agent as PydanticAgent
from pydantic_ai import ModelRateLimitError
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.providers import openai as pydantic_openai
from tests.clients.serving import running_gateway
from tests.frameworks.scene import ANSWER, PASSED, honest, stuck

import looptrap
from looptrap.config import load
from looptrap.testing import FakeProvider

QUESTION = "Are all parts in stock?"


def find_part(number: int) -> str:
    """Say whether a part is in stock."""
    return "ERROR: the catalogue is offline" if number == 5 else f"part {number}: in stock"


@pytest.fixture
def provider():
    with FakeProvider.running(stuck) as provider:
        yield provider


@pytest.fixture
async def client(provider):
    async with looptrap.guard(
        openai.AsyncOpenAI(base_url=f"{provider.url}/v1", api_key="sk-test")
    ) as client:
        yield client


# Guarded in the process


async def whole(*args, **options):
    await Runner.run(*args, **options)


async def streamed(*args, **options):
    async for _ in Runner.run_streamed(*args, **options).stream_events():
        pass


@pytest.mark.parametrize("uses_responses", [True, False], ids=["responses", "chat"])
@pytest.mark.parametrize("way", [whole, streamed], ids=lambda way: way.__name__)
async def test_openai_agents_stop_without_a_gateway(client, provider, way, uses_responses):
    models = OpenAIProvider(openai_client=client, use_responses=uses_responses)
    config = RunConfig(model_provider=models, tracing_disabled=True)
    agent = Agent(name="Stock", model="gpt-5.4-mini", tools=[function_tool(find_part)])
    with pytest.raises(looptrap.LoopDetectedError) as caught:
        await way(agent, QUESTION, max_turns=50, run_config=config)
    assert isinstance(caught.value, openai.RateLimitError)
    assert provider.calls == PASSED


@pytest.mark.parametrize(
    "model", [OpenAIResponsesModel, OpenAIChatModel], ids=["responses", "chat"]
)
async def test_pydantic_ai_stops_without_a_gateway(client, provider, model):
    through = pydantic_openai.OpenAIProvider(openai_client=client)
    agent = PydanticAgent(model("gpt-5.4-mini", provider=through), tools=[find_part])
    with pytest.raises(ModelRateLimitError) as caught:
        await agent.run(QUESTION)
    assert isinstance(caught.value.__cause__, looptrap.LoopDetectedError)
    assert provider.calls == PASSED


# Google's own loop, and its own retries


@pytest.fixture
def serve(provider, tmp_path):
    """Return a function that runs a gateway, and gives it with a chat that calls functions."""
    stack = []

    def start(toml="", **http):
        (tmp_path / "looptrap.toml").write_text(toml)
        flags = {"listen": "127.0.0.1:0", "upstream": provider.url}
        flags["state"] = str(tmp_path / "state")
        context = running_gateway(load(tmp_path / "looptrap.toml", env={}, flags=flags))
        gateway = context.__enter__()
        client = genai.Client(api_key="test", http_options={"base_url": gateway.url, **http})
        stack.extend((context, client))
        config = types.GenerateContentConfig(tools=[find_part])
        return gateway, client.chats.create(model="gemini-3.1-pro", config=config)

    yield start
    for context in reversed(stack):
        context.__exit__(None, None, None)


def test_a_chat_of_google_that_calls_functions_itself_is_stopped(serve, provider):
    _, chat = serve()
    with pytest.raises(ClientError, match="find_part"):
        chat.send_message(QUESTION)
    assert provider.calls == PASSED


def test_an_honest_one_never_notices(serve, provider):
    provider._script = honest()
    gateway, chat = serve()
    assert chat.send_message(QUESTION).text == ANSWER
    assert list(gateway.app.tally.verdicts.elements()) == ["allow"] * 4


@pytest.mark.parametrize(
    ("toml", "requests"),
    [
        pytest.param("", PASSED + 3, id="a 429 is sent again, whatever it says"),
        pytest.param("block_status = 400", PASSED + 1, id="a 400 is not"),
    ],
)
def test_retries_of_google_are_its_own(serve, provider, toml, requests):
    retrying = types.HttpRetryOptions(attempts=3, initial_delay=0.0, max_delay=0.001, jitter=0.0)
    gateway, chat = serve(toml, retry_options=retrying)
    with pytest.raises(ClientError, match="find_part"):
        chat.send_message(QUESTION)
    assert gateway.app.server.requests == requests
    assert provider.calls == PASSED
