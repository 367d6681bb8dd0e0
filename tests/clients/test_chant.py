"""Real SDKs whose answer goes in circles: it ends, and ends well."""

import anthropic
import openai
import pytest
from google import genai
from google.genai import errors, types
from tests.wire.fake_client import PATIENCE

from looptrap.testing import Reply

RULE = """
[[policies]]
name = "p"
  [[policies.rules]]
  name = "chanting"
  watch = "chant"
  threshold = 6
  action = "{action}"
"""
UNIT = "I am sorry, I cannot find that file. Let me try once more. "
FOREVER = UNIT * 2_000
HELLO = [{"role": "user", "content": "Where is it?"}]


@pytest.fixture
def chanting(serve, provider):
    """Return a function that starts a gateway in front of a provider that goes on and on."""
    provider._script = [Reply.text(FOREVER)]
    return lambda action: serve(RULE.format(action=action))


def is_cut(text):
    """Say whether a text is the model's own from its start, and far from its end."""
    return FOREVER.startswith(text) and 1_600 < len(text) < 20_000


def openai_at(gateway, *, strict=True):
    return openai.OpenAI(
        base_url=f"{gateway.url}/v1",
        api_key="sk-test",
        timeout=PATIENCE,
        _strict_response_validation=strict,
    )


def test_a_chat_completion_is_stopped_as_if_it_had_finished(chanting, provider):
    with openai_at(chanting("stop")) as client:
        chunks = list(client.chat.completions.create(model="gpt-5.3", messages=HELLO, stream=True))
        assert is_cut("".join(chunk.choices[0].delta.content or "" for chunk in chunks))
        assert chunks[-1].choices[0].finish_reason == "stop"
        assert len({(chunk.id, chunk.model, chunk.created) for chunk in chunks}) == 1


def test_the_helper_for_chat_completions_sees_the_end(chanting):
    with (
        openai_at(chanting("stop")) as client,
        client.chat.completions.stream(model="gpt-5.3", messages=HELLO) as stream,
    ):
        final = stream.get_final_completion()
    assert is_cut(final.choices[0].message.content)
    assert final.choices[0].finish_reason == "stop"


def test_a_legacy_completion_is_stopped_as_if_it_had_finished(chanting):
    # The SDK's own type has no chunk that is not the last.
    with openai_at(chanting("stop"), strict=False) as client:
        chunks = list(client.completions.create(model="m", prompt="Where?", stream=True))
    assert is_cut("".join(chunk.choices[0].text for chunk in chunks))
    assert chunks[-1].choices[0].finish_reason == "stop"


def test_a_response_is_stopped_as_if_it_had_finished(chanting):
    with (
        openai_at(chanting("stop")) as client,
        client.responses.stream(model="gpt-5.3", input="Where is it?") as stream,
    ):
        events = list(stream)
        final = stream.get_final_response()
    assert final.status == "completed"
    assert is_cut(final.output_text)
    assert [event.type for event in events[-4:]] == [
        "response.output_text.done",
        "response.content_part.done",
        "response.output_item.done",
        "response.completed",
    ]
    numbers = [event.sequence_number for event in events]
    assert numbers == list(range(len(events)))


def test_a_message_is_stopped_as_if_it_had_finished(chanting):
    gateway = chanting("stop")
    with (
        anthropic.Anthropic(base_url=gateway.url, api_key="k", timeout=PATIENCE) as client,
        client.messages.stream(model="claude", max_tokens=64, messages=HELLO) as stream,
    ):
        final = stream.get_final_message()
    assert is_cut(final.content[0].text)
    assert final.stop_reason == "end_turn"
    assert final.usage.output_tokens >= len(final.content[0].text) // 4


def test_a_candidate_is_stopped_as_if_it_had_finished(chanting):
    gateway = chanting("stop")
    with genai.Client(api_key="k", http_options={"base_url": gateway.url}) as client:
        chunks = list(client.models.generate_content_stream(model="gemini", contents="Where?"))
    assert is_cut("".join(chunk.text or "" for chunk in chunks))
    assert chunks[-1].candidates[0].finish_reason == types.FinishReason.STOP


def chat(gateway):
    with openai_at(gateway) as client:
        list(client.chat.completions.create(model="gpt-5.3", messages=HELLO, stream=True))


def respond(gateway):
    with openai_at(gateway) as client:
        list(client.responses.create(model="gpt-5.3", input="Where is it?", stream=True))


@pytest.mark.parametrize("call", [chat, respond], ids=lambda call: call.__name__)
def test_a_block_is_an_error_amid_the_stream_for_openai(chanting, provider, call):
    gateway = chanting("block")
    with pytest.raises(openai.APIError) as caught:
        call(gateway)
    assert caught.value.code == "recursive_loop_detected"
    assert caught.value.type == "loop_detected"
    assert "times in a row" in caught.value.message
    assert "(recursive_loop_detected): " in str(caught.value)
    assert provider.calls == 1


def test_a_block_is_an_error_amid_the_stream_for_anthropic(chanting, provider):
    gateway = chanting("block")
    with (
        anthropic.Anthropic(base_url=gateway.url, api_key="k") as client,
        pytest.raises(anthropic.APIStatusError) as caught,
        client.messages.stream(model="claude", max_tokens=64, messages=HELLO) as stream,
    ):
        stream.until_done()
    assert caught.value.body["error"]["type"] == "rate_limit_error"
    assert caught.value.body["detail"]["rule"] == "chanting"
    assert provider.calls == 1


def test_a_block_is_an_error_amid_the_stream_for_google(chanting, provider):
    gateway = chanting("block")
    with (
        genai.Client(api_key="k", http_options={"base_url": gateway.url}) as client,
        pytest.raises(errors.ClientError) as caught,
    ):
        list(client.models.generate_content_stream(model="gemini", contents="Where?"))
    assert (caught.value.code, caught.value.status) == (429, "RESOURCE_EXHAUSTED")
    assert provider.calls == 1
