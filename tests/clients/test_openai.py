"""The real OpenAI SDK through the gateway: loops stop, everything else passes untouched."""

import openai
import pytest
from tests.client import kept_history

from looptrap.testing import Reply

TOOLS = [{"type": "function", "function": {"name": "search", "parameters": {"type": "object"}}}]


@pytest.fixture
def client(gateway):
    with openai.OpenAI(base_url=f"{gateway.url}/v1", api_key="sk-test") as client:
        yield client


def ask(client, text="Again?", **more):
    return client.chat.completions.create(
        model="gpt-5.3", messages=[{"role": "user", "content": text}], **more
    )


def ask_streamed(client, text="Again?"):
    chunks = list(ask(client, text, stream=True))
    return "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)


def respond(client, text="Again?"):
    return client.responses.create(model="gpt-5.3", input=text)


def respond_streamed(client, text="Again?"):
    with client.responses.create(model="gpt-5.3", input=text, stream=True) as events:
        return [event.type for event in events]


@pytest.mark.parametrize(
    "call", [ask, ask_streamed, respond, respond_streamed], ids=lambda call: call.__name__
)
def test_a_loop_is_blocked_on_the_sixth_call_with_one_request(client, provider, gateway, call):
    for _ in range(5):
        assert call(client)
    before = gateway.app.server.requests
    with pytest.raises(openai.RateLimitError) as caught:
        call(client)
    assert gateway.app.server.requests - before == 1  # the SDK did not retry
    assert provider.calls == 5
    error = caught.value
    assert error.code == "recursive_loop_detected"
    assert error.type == "loop_detected"
    assert "sent 6 times in a row" in error.message
    detail = error.response.json()["detail"]
    assert detail["error"] == "recursive_loop_detected"
    assert (detail["hit_count"], detail["cooldown_seconds"]) == (6, 30)
    headers = error.response.headers
    assert headers["x-should-retry"] == "false"
    assert headers["retry-after"] == "30"
    assert headers["x-looptrap-verdict"] == "block"
    assert headers["x-looptrap-reason"] == "loop_detected"
    assert headers["x-looptrap-rule"] == "identical-conversation"
    assert headers["x-looptrap-count"] == "6"
    assert headers["x-request-id"]


def test_different_questions_all_pass(client, provider):
    for number in range(20):
        assert ask(client, f"Pump {number}?").choices[0].message.content
    assert provider.calls == 20


def test_allowed_answers_say_so_and_carry_a_request_id(client):
    raw = client.chat.completions.with_raw_response.create(
        model="gpt-5.3", messages=[{"role": "user", "content": "hi"}]
    )
    assert raw.headers["x-looptrap-verdict"] == "allow"
    assert raw.headers["x-request-id"]


def test_what_the_provider_receives_is_what_the_client_sent(client, provider):
    ask(client, "exactly this", extra_headers={"X-Custom": "kept", "X-Looptrap-Session": "s-1"})
    (received,) = provider.requests
    headers = received.headers
    assert received.json()["messages"] == [{"role": "user", "content": "exactly this"}]
    assert headers["authorization"] == "Bearer sk-test"
    assert headers["x-custom"] == "kept"
    assert headers["accept-encoding"] == "identity"
    assert not [name for name in headers if name.startswith("x-looptrap")]


def test_tool_calls_pass(client, provider):
    provider._script = [Reply.tool_call("search", {"q": "weather"})]
    message = ask(client, tools=TOOLS).choices[0].message
    assert message.tool_calls[0].function.name == "search"


def test_a_run_over_previous_response_id_with_equal_tool_outputs_is_not_blocked(client, provider):
    previous = client.responses.create(model="gpt-5.3", input="Start")
    for turn in range(12):
        output = {"type": "function_call_output", "call_id": "c1", "output": "still running"}
        previous = client.responses.create(
            model="gpt-5.3", input=[output], previous_response_id=f"{previous.id}-{turn}"
        )
    assert provider.calls == 13


def test_embeddings_and_model_lists_may_repeat(client):
    for _ in range(8):
        assert client.embeddings.create(model="text-embedding-3-small", input="same").data
        assert client.models.list().data


def test_usage_is_counted(client, gateway):
    answer = ask(client)
    ask_streamed(client, "Another")
    assert gateway.app.tally.input_tokens >= answer.usage.prompt_tokens > 0


def test_an_upstream_error_passes_unchanged(client, provider):
    provider._script = [Reply.status(400, {"error": {"message": "no", "code": "bad"}})]
    with pytest.raises(openai.BadRequestError) as caught:
        ask(client)
    assert caught.value.code == "bad"


STOP = """
[[policies]]
name = "p"
  [[policies.rules]]
  name = "same"
  watch = "conversation"
  threshold = 2
  action = "{action}"
"""


def test_stop_ends_the_run_with_a_final_message(serve, provider):
    gateway = serve(STOP.format(action="stop"))
    with openai.OpenAI(base_url=f"{gateway.url}/v1", api_key="sk-test") as client:
        ask(client)
        answer = ask(client)
        assert answer.choices[0].finish_reason == "stop"
        said = answer.choices[0].message.content
        assert "Looptrap ended this run (recursive_loop_detected)" in said
        assert "Looptrap ended this run" in ask_streamed(client)
        with pytest.raises(openai.RateLimitError):
            ask(client, response_format={"type": "json_object"})
    assert provider.calls == 1


def test_nudge_adds_a_message_at_the_end_and_passes(serve, provider):
    gateway = serve(STOP.format(action="nudge"))
    with openai.OpenAI(base_url=f"{gateway.url}/v1", api_key="sk-test") as client:
        for _ in range(5):
            ask(client)
    sent = [received.json()["messages"] for received in provider.requests]
    assert [len(messages) for messages in sent] == [1, 2, 1, 1, 2]  # once in three rounds
    assert sent[1][0] == {"role": "user", "content": "Again?"}
    assert "different strategy" in sent[1][-1]["content"]


def test_throttle_holds_a_call_back(serve, provider):
    gateway = serve(STOP.format(action="throttle"))
    with openai.OpenAI(base_url=f"{gateway.url}/v1", api_key="sk-test") as client:
        ask(client)
        raw = client.chat.completions.with_raw_response.create(
            model="gpt-5.3", messages=[{"role": "user", "content": "Again?"}]
        )
    assert raw.headers["x-looptrap-verdict"] == "throttle"
    assert raw.headers["x-looptrap-delay-ms"] == "200"
    assert raw.elapsed.total_seconds() >= 0.2


def test_shadow_says_what_would_have_happened(serve, provider):
    gateway = serve(
        STOP.format(action="block").replace('name = "p"', 'name = "p"\nmode = "shadow"')
    )
    with openai.OpenAI(base_url=f"{gateway.url}/v1", api_key="sk-test") as client:
        ask(client)
        raw = client.chat.completions.with_raw_response.create(
            model="gpt-5.3", messages=[{"role": "user", "content": "Again?"}]
        )
    assert raw.headers["x-looptrap-verdict"] == "allow"
    assert raw.headers["x-looptrap-shadow"] == "block"
    assert provider.calls == 2


@pytest.mark.parametrize("status", [400, 403, 422])
def test_the_status_of_a_block_can_be_chosen(serve, provider, status):
    gateway = serve(f"block_status = {status}\n" + STOP.format(action="block"))
    with openai.OpenAI(base_url=f"{gateway.url}/v1", api_key="sk-test") as client:
        ask(client)
        with pytest.raises(openai.APIStatusError) as caught:
            ask(client)
    assert caught.value.status_code == status
    assert caught.value.code == "recursive_loop_detected"


def test_a_provider_that_cannot_be_reached_is_a_502_the_sdk_understands(serve):
    gateway = serve(upstream="http://127.0.0.1:9")
    with (
        openai.OpenAI(base_url=f"{gateway.url}/v1", api_key="k", max_retries=0) as client,
        pytest.raises(openai.InternalServerError) as caught,
    ):
        ask(client)
    assert caught.value.status_code == 502
    assert caught.value.code == "upstream_connect"


async def test_the_async_client_too(gateway, provider):
    async with openai.AsyncOpenAI(base_url=f"{gateway.url}/v1", api_key="sk-test") as client:
        for _ in range(5):
            await client.chat.completions.create(
                model="gpt-5.3", messages=[{"role": "user", "content": "x"}]
            )
        with pytest.raises(openai.RateLimitError):
            await client.chat.completions.create(
                model="gpt-5.3", messages=[{"role": "user", "content": "x"}]
            )
    assert provider.calls == 5


def run_agent(client, calls):
    """Ask for a tool, give it the same answer each time, and note every call that was made."""
    messages = [{"role": "user", "content": "Where is order 5?"}]
    tools = [{"type": "function", "function": {"name": "find_order", "parameters": {}}}]
    while len(calls) < 50:
        answer = client.chat.completions.create(model="m", messages=messages, tools=tools)
        said = answer.choices[0].message
        calls.append(said.tool_calls[0].id)
        messages.append(said.model_dump(exclude_none=True))
        messages.append({"role": "tool", "tool_call_id": calls[-1], "content": "in Rome"})


def test_an_agent_that_repeats_itself_is_stopped_by_its_own_history(client, provider):
    provider._script = [Reply.tool_call("find_order", {"number": 5})]
    calls = []
    with pytest.raises(openai.RateLimitError) as caught:
        run_agent(client, calls)
    assert len(calls) == provider.calls == 5
    assert caught.value.response.headers["x-looptrap-rule"] == "no-progress"
    assert caught.value.code == "recursive_loop_detected"


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
async def test_an_agent_whose_history_the_provider_keeps_is_refused(client, provider, stream):
    provider._script = [kept_history.READ]
    answers, error = await kept_history.run(client, stream=stream)
    assert isinstance(error, openai.RateLimitError)
    assert (answers, error.response.headers["x-looptrap-rule"]) == (5, "no-progress")
    assert "5 times in 5 rounds; the provider keeps the history" in error.message
