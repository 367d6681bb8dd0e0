"""The real Anthropic SDK through the gateway: loops stop, everything else passes untouched."""

import anthropic
import pytest

from looptrap.testing import Reply

MODEL = "claude-opus-4-7"
TOOLS = [{"name": "search", "description": "Search.", "input_schema": {"type": "object"}}]

RULE = """
[[policies]]
name = "p"
  [[policies.rules]]
  name = "same"
  watch = "conversation"
  threshold = 2
  action = "{action}"
"""


@pytest.fixture
def connect():
    """Return a function that makes a client of a gateway."""
    clients = []

    def make(gateway, **options):
        options = options or {"api_key": "sk-ant-test"}
        clients.append(anthropic.Anthropic(base_url=gateway.url, **options))
        return clients[-1]

    yield make
    for client in clients:
        client.close()


@pytest.fixture
def client(gateway, connect):
    return connect(gateway)


def asked(text="Again?", **more):
    return {
        "model": MODEL,
        "max_tokens": 64,
        "messages": [{"role": "user", "content": text}],
        **more,
    }


def ask(client, text="Again?", **more):
    return client.messages.create(**asked(text, **more)).content[0].text


def ask_streamed(client, text="Again?"):
    with client.messages.stream(**asked(text)) as stream:
        return stream.get_final_text()


def ask_with_tools(client, text="Again?"):
    return ask(client, text, tools=TOOLS)


@pytest.mark.parametrize(
    "call", [ask, ask_streamed, ask_with_tools], ids=lambda call: call.__name__
)
def test_a_loop_is_blocked_on_the_sixth_call_with_one_request(client, provider, gateway, call):
    for _ in range(5):
        assert call(client) == "All done."
    before = gateway.app.server.requests
    with pytest.raises(anthropic.RateLimitError) as caught:
        call(client)
    assert gateway.app.server.requests - before == 1  # the SDK did not retry
    assert provider.calls == 5
    error = caught.value
    assert error.type == "rate_limit_error"
    assert error.body["type"] == "error"
    assert "sent 6 times in a row" in error.body["error"]["message"]
    detail = error.body["detail"]
    assert detail["error"] == "recursive_loop_detected"
    assert (detail["hit_count"], detail["cooldown_seconds"]) == (6, 30)
    assert error.request_id
    assert error.request_id == error.body["request_id"]
    headers = error.response.headers
    assert headers["request-id"] == headers["x-request-id"] == error.request_id
    assert headers["x-should-retry"] == "false"
    assert headers["retry-after"] == "30"
    assert headers["x-looptrap-rule"] == "identical-conversation"


CREDENTIALS = ("authorization", "x-api-key")
WITH_API_KEY = {"x-api-key": "sk-ant-1", "Authorization": anthropic.Omit()}


@pytest.mark.parametrize(
    ("options", "sent"),
    [
        pytest.param({}, {"authorization": "Bearer k"}, id="bearer, as the SDK does now"),
        pytest.param(
            {"default_headers": WITH_API_KEY}, {"x-api-key": "sk-ant-1"}, id="x-api-key, as before"
        ),
    ],
)
def test_either_credential_passes_through(gateway, provider, connect, options, sent):
    client = connect(gateway, api_key="k", **options)
    assert ask(client, extra_headers={"anthropic-beta": "new-thing"})
    (received,) = provider.requests
    assert {n: v for n, v in received.headers.items() if n in CREDENTIALS} == sent
    assert received.headers["anthropic-version"]
    assert received.headers["anthropic-beta"] == "new-thing"
    assert received.target == "/v1/messages"
    assert received.json() == asked()


def test_tool_use_passes(client, provider):
    provider._script = [Reply.tool_call("search", {"q": "weather"})]
    (block,) = client.messages.create(**asked(tools=TOOLS)).content
    assert (block.type, block.name, block.input) == ("tool_use", "search", {"q": "weather"})


def test_token_counts_may_repeat(client):
    for _ in range(8):
        messages = [{"role": "user", "content": "same"}]
        assert client.messages.count_tokens(model=MODEL, messages=messages).input_tokens > 0


def test_stop_ends_the_run_with_a_final_message(serve, provider, connect):
    client = connect(serve(RULE.format(action="stop")))
    ask(client)
    answer = client.messages.create(**asked())
    assert answer.stop_reason == "end_turn"
    assert "Looptrap ended this run" in answer.content[0].text
    assert "Looptrap ended this run" in ask_streamed(client)
    with pytest.raises(anthropic.RateLimitError):
        ask(client, tools=TOOLS, tool_choice={"type": "tool", "name": "search"})
    assert provider.calls == 1


def test_nudge_adds_to_the_end_and_leaves_the_beginning_alone(serve, provider, connect):
    client = connect(serve(RULE.format(action="nudge")))
    for _ in range(2):
        ask(client)
    plain, nudged = (one.json() for one in provider.requests)
    assert plain == asked()
    assert nudged["messages"][0]["role"] == "user"
    assert "Again?" in str(nudged["messages"][0])
    assert "different strategy" in str(nudged["messages"][-1])


def test_an_upstream_error_passes_unchanged(client, provider):
    provider._script = [Reply.status(400)]
    with pytest.raises(anthropic.BadRequestError):
        ask(client)


def test_a_provider_that_cannot_be_reached_is_an_error_the_sdk_understands(serve, connect):
    client = connect(serve(upstream="http://127.0.0.1:9"), api_key="k", max_retries=0)
    with pytest.raises(anthropic.InternalServerError) as caught:
        ask(client)
    assert caught.value.status_code == 502
    assert caught.value.type == "api_error"
    assert caught.value.body["detail"]["error"] == "upstream_connect"


async def test_the_async_client_too(gateway, provider):
    async with anthropic.AsyncAnthropic(base_url=gateway.url, api_key="k") as client:
        for _ in range(5):
            await client.messages.create(**asked())
        with pytest.raises(anthropic.RateLimitError):
            await client.messages.create(**asked())
    assert provider.calls == 5
