"""The code of a refusal is in what real SDKs show of it: most code looks at `str(error)` only."""

from functools import partial

import anthropic
import openai
import pytest
from google import genai
from google.genai import errors as google_errors

HELLO = [{"role": "user", "content": "Again?"}]

LOOP = """
[[policies]]
name = "p"
  [[policies.rules]]
  name = "same"
  watch = "conversation"
  threshold = 2
  action = "block"
"""
RATE = """
[[policies]]
name = "p"
  [[policies.rates]]
  name = "slow"
  rps = 0.01
  burst = 1
"""
BUDGET = """
[[budgets]]
name = "tiny"
limit_tokens = 1
thresholds = { block = 100 }
"""
KILLED = """
[[kill_switches]]
match = { "header:x-team" = "red" }
reason = "credential leaked"
"""
STORE_AWAY = """
store = "redis://127.0.0.1:9"
on_store_error = "block"
"""

REASONS = {
    "recursive_loop_detected": LOOP,
    "rate_limited": RATE,
    "budget_exceeded": BUDGET,
    "killed": KILLED,
    "store_unavailable": STORE_AWAY,
}


def openai_client(gateway):
    return openai.OpenAI(
        base_url=f"{gateway.url}/v1",
        api_key="sk-test",
        max_retries=0,
        default_headers={"X-Team": "red"},
    )


def chat(gateway, **more):
    with openai_client(gateway) as client:
        list(client.chat.completions.create(model="gpt-5.3", messages=HELLO, **more))


def respond(gateway, **more):
    with openai_client(gateway) as client:
        list(client.responses.create(model="gpt-5.3", input="Again?", **more))


def complete(gateway):
    with openai_client(gateway) as client:
        client.completions.create(model="gpt-5.3", prompt="Again?")


def message(gateway):
    with anthropic.Anthropic(
        base_url=gateway.url, api_key="k", max_retries=0, default_headers={"X-Team": "red"}
    ) as client:
        client.messages.create(model="claude", max_tokens=64, messages=HELLO)


def generate(gateway):
    options = {"base_url": gateway.url, "headers": {"X-Team": "red"}}
    with genai.Client(api_key="k", http_options=options) as client:
        client.models.generate_content(model="gemini", contents="Again?")


CLIENTS = [
    pytest.param(chat, openai.APIError, id="openai chat"),
    pytest.param(partial(chat, stream=True), openai.APIError, id="openai chat, streamed"),
    pytest.param(respond, openai.APIError, id="openai responses"),
    pytest.param(partial(respond, stream=True), openai.APIError, id="openai responses, streamed"),
    pytest.param(complete, openai.APIError, id="openai completions"),
    pytest.param(message, anthropic.APIError, id="anthropic"),
    pytest.param(generate, google_errors.APIError, id="gemini"),
]


@pytest.mark.parametrize("code", REASONS)
@pytest.mark.parametrize(("call", "raised"), CLIENTS)
def test_the_text_of_the_error_names_the_code(serve, call, raised, code):
    gateway = serve(REASONS[code])
    with pytest.raises(raised) as caught:
        twice(call, gateway)
    assert f"({code}): " in str(caught.value)
    assert f"({code}): " in told(caught.value)


def twice(call, gateway):
    """Make a call, and make it again if the first one passes."""
    call(gateway)
    call(gateway)


def told(error):
    """Return the message that the gateway put into the error's own field."""
    if isinstance(error, anthropic.APIError):
        return error.body["error"]["message"]
    return error.message
