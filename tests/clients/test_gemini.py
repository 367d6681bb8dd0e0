"""Google's real SDK through the gateway: loops stop, everything else passes untouched."""

import pytest
from google import genai
from google.genai import errors, types

from looptrap.testing import Reply

MODEL = "gemini-3.1-pro"
SEARCH = types.Tool(
    function_declarations=[types.FunctionDeclaration(name="search", description="Search.")]
)
BY_HAND = types.AutomaticFunctionCallingConfig(disable=True)

RULE = """
[[policies]]
name = "p"
  [[policies.rules]]
  name = "same"
  watch = "conversation"
  threshold = 2
  action = "{action}"
"""


def connect(gateway, **more):
    return genai.Client(api_key="goog-test", http_options={"base_url": gateway.url, **more})


@pytest.fixture
def client(gateway):
    with connect(gateway) as client:
        yield client


def ask(client, text="Again?", config=None):
    return client.models.generate_content(model=MODEL, contents=text, config=config).text


def ask_streamed(client, text="Again?"):
    chunks = client.models.generate_content_stream(model=MODEL, contents=text)
    return "".join(chunk.text or "" for chunk in chunks)


def ask_with_tools(client, text="Again?"):
    config = types.GenerateContentConfig(tools=[SEARCH], automatic_function_calling=BY_HAND)
    return ask(client, text, config)


@pytest.mark.parametrize(
    "call", [ask, ask_streamed, ask_with_tools], ids=lambda call: call.__name__
)
def test_a_loop_is_blocked_on_the_sixth_call_with_one_request(client, provider, gateway, call):
    for _ in range(5):
        assert call(client) == "All done."
    before = gateway.app.server.requests
    with pytest.raises(errors.ClientError) as caught:
        call(client)
    assert gateway.app.server.requests - before == 1  # the SDK did not retry
    assert provider.calls == 5
    error = caught.value
    assert (error.code, error.status) == (429, "RESOURCE_EXHAUSTED")
    assert "sent 6 times in a row" in error.message
    assert error.details["detail"]["error"] == "recursive_loop_detected"
    assert error.details["error"]["details"][0]["reason"] == "RECURSIVE_LOOP_DETECTED"
    headers = error.response.headers
    assert headers["x-looptrap-verdict"] == "block"
    assert headers["x-request-id"]


@pytest.mark.parametrize("version", ["v1beta", "v1", "v1alpha"])
def test_the_call_arrives_as_it_was_sent(gateway, provider, version):
    with connect(gateway, api_version=version) as client:
        assert ask(client, "exactly this") == "All done."
    (received,) = provider.requests
    assert received.target == f"/{version}/models/{MODEL}:generateContent"
    assert received.headers["x-goog-api-key"] == "goog-test"
    assert received.json()["contents"][0]["parts"] == [{"text": "exactly this"}]


def test_function_calls_pass(client, provider):
    provider._script = [Reply.tool_call("search", {"q": "weather"})]
    config = types.GenerateContentConfig(tools=[SEARCH], automatic_function_calling=BY_HAND)
    answer = client.models.generate_content(model=MODEL, contents="Again?", config=config)
    (wanted,) = answer.function_calls
    assert (wanted.name, wanted.args) == ("search", {"q": "weather"})


def test_token_counts_may_repeat(client):
    for _ in range(8):
        assert client.models.count_tokens(model=MODEL, contents="same").total_tokens > 0


def test_stop_ends_the_run_with_a_final_message(serve, provider):
    with connect(serve(RULE.format(action="stop"))) as client:
        ask(client)
        answer = client.models.generate_content(model=MODEL, contents="Again?")
        assert answer.candidates[0].finish_reason == types.FinishReason.STOP
        assert "Looptrap ended this run" in answer.text
        assert "Looptrap ended this run" in ask_streamed(client)
        config = types.GenerateContentConfig(response_mime_type="application/json")
        with pytest.raises(errors.ClientError):
            ask(client, config=config)
    assert provider.calls == 1


def test_nudge_adds_to_the_end_and_leaves_the_beginning_alone(serve, provider):
    with connect(serve(RULE.format(action="nudge"))) as client:
        for _ in range(2):
            ask(client)
    plain, nudged = (one.json()["contents"] for one in provider.requests)
    assert nudged[0]["parts"][0] == plain[0]["parts"][0] == {"text": "Again?"}
    assert "different strategy" in str(nudged[-1])


def test_an_upstream_error_passes_unchanged(client, provider):
    provider._script = [Reply.status(400)]
    with pytest.raises(errors.ClientError) as caught:
        ask(client)
    assert caught.value.code == 400
    assert "detail" not in caught.value.details


def test_a_provider_that_cannot_be_reached_is_an_error_the_sdk_understands(serve):
    with (
        connect(serve(upstream="http://127.0.0.1:9")) as client,
        pytest.raises(errors.ServerError) as caught,
    ):
        ask(client)
    assert (caught.value.code, caught.value.status) == (502, "UNAVAILABLE")


@pytest.mark.filterwarnings("ignore:Inheritance class AiohttpClientSession")  # of the SDK
async def test_the_async_client_too(gateway, provider):
    async with connect(gateway).aio as client:
        for _ in range(5):
            await client.models.generate_content(model=MODEL, contents="x")
        with pytest.raises(errors.ClientError):
            await client.models.generate_content(model=MODEL, contents="x")
    assert provider.calls == 5
