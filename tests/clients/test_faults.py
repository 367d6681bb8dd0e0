"""Real SDKs against a provider that fails: what they get, and how often it was asked.

Both SDKs retry by themselves, twice. Attempts at the provider are never more than the gateway's.
"""

import anthropic
import openai
import pytest
from tests.patience import PATIENCE

from looptrap.testing import FakeProvider, Reply

ATTEMPTS = 3
PLAN = """
[[providers]]
name = "one"
base_url = "{one}"
[[routes]]
provider = "one"
attempts = 3
"""
CHAIN = """
[[providers]]
name = "one"
base_url = "{one}"
[[providers]]
name = "two"
base_url = "{two}"
api_key_env = "KEY_TWO"
[[routes]]
chain = ["one", "two/other-model"]
"""
MESSAGES = [{"role": "user", "content": "Hello?"}]
SOON = {"retry-after-ms": "5"}
OK = Reply.text("Here I am.")


class OpenAI:
    """What a test asks of OpenAI's SDK."""

    module = openai
    in_stream = Reply.sse({"error": {"message": "Overloaded", "code": "server_is_overloaded"}})

    def __init__(self, url):
        self.client = openai.OpenAI(base_url=f"{url}/v1", api_key="sk-caller", timeout=PATIENCE)

    def ask(self):
        answer = self.client.chat.completions.create(model="m", messages=MESSAGES)
        return answer.choices[0].message.content

    def stream(self):
        chunks = self.client.chat.completions.create(model="m", messages=MESSAGES, stream=True)
        for chunk in chunks:
            if chunk.choices and chunk.choices[0].delta.content:
                yield chunk.choices[0].delta.content


class Responses(OpenAI):
    """The same by its newer interface."""

    in_stream = Reply.sse(
        {
            "type": "response.failed",
            "sequence_number": 1,
            "response": {"error": {"code": "server_error", "message": "x"}},
        }
    )

    def ask(self):
        return self.client.responses.create(model="m", input="Hello?").output_text

    def stream(self):
        for event in self.client.responses.create(model="m", input="Hello?", stream=True):
            if event.type == "response.output_text.delta":
                yield event.delta


class Anthropic:
    """What a test asks of Anthropic's SDK."""

    module = anthropic
    in_stream = Reply.sse(
        b"event: error\n",
        {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}},
    )

    def __init__(self, url):
        self.client = anthropic.Anthropic(base_url=url, api_key="sk-caller", timeout=PATIENCE)

    def ask(self):
        answer = self.client.messages.create(model="m", max_tokens=9, messages=MESSAGES)
        return answer.content[0].text

    def stream(self):
        with self.client.messages.stream(model="m", max_tokens=9, messages=MESSAGES) as stream:
            yield from stream.text_stream


SDKS = [OpenAI, Responses, Anthropic]


@pytest.fixture(params=SDKS, ids=lambda sdk: sdk.__name__.lower())
def sdk(request):
    return request.param


@pytest.fixture
def start(serve, request):
    """Start a gateway before providers with these scripts, and a client of it."""
    opened = []

    def begin(sdk, *scripts, plan=None):
        providers = []
        for script in scripts:
            context = FakeProvider.running(script)
            providers.append(context.__enter__())
            opened.append(context)
        urls = dict(zip(("one", "two"), (one.url for one in providers), strict=False))
        toml = plan or (PLAN if len(scripts) == 1 else CHAIN)
        for name, url in urls.items():
            toml = toml.replace("{" + name + "}", url)
        gateway = serve(toml, env={"KEY_TWO": "sk-operator"}, upstream=None)
        gateway.app.attempts.chance = lambda: 0.0
        client = sdk(gateway.url)
        request.addfinalizer(client.client.close)
        return client, *providers

    yield begin
    for context in opened:
        context.__exit__(None, None, None)


@pytest.mark.parametrize(
    ("script", "asked"),
    [
        pytest.param([Reply.status(429, headers=SOON), OK], 2, id="a limit with Retry-After"),
        pytest.param([Reply.status(503), Reply.status(529), OK], 3, id="overload"),
        pytest.param([Reply.drop(), OK], 2, id="it dies before a byte"),
    ],
)
@pytest.mark.parametrize("way", ["ask", "stream"])
def test_the_sdk_does_not_notice_what_passes(start, sdk, script, asked, way):
    client, provider = start(sdk, script)
    assert "".join(getattr(client, way)()) == "Here I am."
    assert len(provider.requests) == asked
    assert {one.headers["x-stainless-retry-count"] for one in provider.requests} == {"0"}


def test_an_error_inside_a_200_is_not_noticed_either(start, sdk):
    client, provider = start(sdk, [sdk.in_stream, OK])
    assert "".join(client.stream()) == "Here I am."
    assert len(provider.requests) == 2


def test_a_provider_that_hangs_is_given_up_for_a_fresh_connection(start, sdk):
    client, provider = start(sdk, [Reply.hang(), OK], plan=PLAN + "attempt_timeout = 0.1\n")
    assert client.ask() == "Here I am."
    assert len(provider.requests) == 2


@pytest.mark.parametrize("way", ["ask", "stream"])
def test_the_next_provider_answers_for_one_that_is_down(start, sdk, way):
    client, down, up = start(sdk, lambda _: Reply.status(500), [OK])
    assert "".join(getattr(client, way)()) == "Here I am."
    assert (len(down.requests), len(up.requests)) == (1, 1)
    assert up.requests[0].call.model == "other-model"
    assert "sk-caller" not in str(up.requests[0].headers)


@pytest.mark.parametrize(
    ("reply", "attempts"),
    [
        pytest.param(Reply.status(500), ATTEMPTS, id="down"),
        pytest.param(Reply.status(429, headers=SOON), ATTEMPTS, id="limited"),
        pytest.param(Reply.drop(), ATTEMPTS, id="dropping"),
        pytest.param(Reply.status(429, headers={"Retry-After": "90"}), 1, id="limited for long"),
        pytest.param(Reply.status(400), 1, id="a bad request"),
        pytest.param(Reply.status(409), 1, id="a conflict, which SDKs would send again"),
    ],
)
def test_retries_of_the_sdk_and_ours_never_multiply(start, sdk, reply, attempts):
    client, provider = start(sdk, lambda _: reply)
    with pytest.raises(sdk.module.APIStatusError) as caught:
        client.ask()
    assert len(provider.requests) == attempts
    assert caught.value.response.headers["x-looptrap-attempts"] == str(attempts)


def test_a_stream_that_dies_is_an_error_of_the_sdks_own_and_is_not_begun_again(start, sdk):
    dropped = Reply.drop(Reply.text("one two three four five"), after_chunks=6)
    client, provider = start(sdk, [dropped, OK])
    said = []
    with pytest.raises(sdk.module.APIError) as caught:
        said += client.stream()  # the generator raises after its last chunk
    assert not isinstance(caught.value, sdk.module.APIConnectionError)
    assert "unfinished" in str(caught.value)
    assert len(provider.requests) == 1


def test_a_provider_that_dies_and_comes_back(start, sdk):
    state = {"is_down": False}

    def script(_received):
        return Reply.drop() if state["is_down"] else OK

    client, provider = start(sdk, script)
    assert client.ask() == "Here I am."
    state["is_down"] = True
    with pytest.raises(sdk.module.APIStatusError):
        client.ask()
    asked = len(provider.requests)
    assert asked <= 1 + ATTEMPTS + 1  # one more for a kept connection that was found dead
    state["is_down"] = False
    assert client.ask() == "Here I am."
    assert len(provider.requests) == asked + 1
