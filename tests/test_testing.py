"""The fake provider, driven by the real SDKs: what passes here would pass at the real thing."""

import http.client
import json
import time
from functools import cached_property
from urllib.parse import urlsplit

import anthropic
import httpx2
import openai
import pytest
from google import genai

from looptrap.testing import FakeProvider, Gate, Reply, Tokens

HELLO = [{"role": "user", "content": "hello"}]
TEXT = "Two plus two is four."
LOOKUP = {"path": "notes.txt", "lines": [1, 2]}
COUNTED = {"stream_options": {"include_usage": True}}


class Sync:
    """The blocking SDKs; every method returns text, tool calls and tokens (input, output)."""

    def __init__(self, url):
        self.openai = openai.OpenAI(base_url=f"{url}/v1", api_key="k", max_retries=0)
        self.anthropic = anthropic.Anthropic(base_url=url, api_key="k", max_retries=0)
        self.google = genai.Client(api_key="k", http_options={"base_url": url})

    def chat(self):
        return chat_answer(self.openai.chat.completions.create(model="m", messages=HELLO))

    def chat_stream(self):
        with self.openai.chat.completions.stream(model="m", messages=HELLO, **COUNTED) as stream:
            return chat_answer(stream.get_final_completion())

    def responses(self):
        return response_answer(self.openai.responses.create(model="m", input="hello"))

    def responses_stream(self):
        with self.openai.responses.stream(model="m", input="hello") as stream:
            return response_answer(stream.get_final_response())

    def messages(self):
        create = self.anthropic.messages.create
        return message_answer(create(model="m", max_tokens=9, messages=HELLO))

    def messages_stream(self):
        create = self.anthropic.messages.stream
        with create(model="m", max_tokens=9, messages=HELLO) as stream:
            return message_answer(stream.get_final_message())

    def gemini(self):
        generate = self.google.models.generate_content
        return gemini_answer([generate(model="m", contents="hello")])

    def gemini_stream(self):
        generate = self.google.models.generate_content_stream
        return gemini_answer(list(generate(model="m", contents="hello")))


class Async:
    """The same of the SDKs for asyncio."""

    def __init__(self, url):
        self.url = url

    # Made when used: to load its certificates costs each of them more than the whole test.

    @cached_property
    def openai(self):
        return openai.AsyncOpenAI(base_url=f"{self.url}/v1", api_key="k", max_retries=0)

    @cached_property
    def anthropic(self):
        return anthropic.AsyncAnthropic(base_url=self.url, api_key="k", max_retries=0)

    @cached_property
    def google(self):
        return genai.Client(api_key="k", http_options={"base_url": self.url}).aio

    async def close(self):
        for name, client in vars(self).items():
            if name == "google":
                await client.aclose()
            elif name != "url":
                await client.close()

    async def chat(self):
        return chat_answer(await self.openai.chat.completions.create(model="m", messages=HELLO))

    async def chat_stream(self):
        create = self.openai.chat.completions.stream
        async with create(model="m", messages=HELLO, **COUNTED) as stream:
            return chat_answer(await stream.get_final_completion())

    async def responses(self):
        return response_answer(await self.openai.responses.create(model="m", input="hello"))

    async def responses_stream(self):
        async with self.openai.responses.stream(model="m", input="hello") as stream:
            return response_answer(await stream.get_final_response())

    async def messages(self):
        create = self.anthropic.messages.create
        return message_answer(await create(model="m", max_tokens=9, messages=HELLO))

    async def messages_stream(self):
        create = self.anthropic.messages.stream
        async with create(model="m", max_tokens=9, messages=HELLO) as stream:
            return message_answer(await stream.get_final_message())

    async def gemini(self):
        generate = self.google.models.generate_content
        return gemini_answer([await generate(model="m", contents="hello")])

    async def gemini_stream(self):
        generate = self.google.models.generate_content_stream
        pieces = [piece async for piece in await generate(model="m", contents="hello")]
        return gemini_answer(pieces)


def chat_answer(answer):
    message = answer.choices[0].message
    calls = [(c.function.name, json.loads(c.function.arguments)) for c in message.tool_calls or ()]
    reason = "tool_calls" if calls else "stop"
    assert answer.choices[0].finish_reason == reason
    return (
        message.content or "",
        calls,
        (answer.usage.prompt_tokens, answer.usage.completion_tokens),
    )


def response_answer(answer):
    items = [item for item in answer.output if item.type == "function_call"]
    calls = [(item.name, json.loads(item.arguments)) for item in items]
    assert answer.status == "completed"
    return answer.output_text, calls, (answer.usage.input_tokens, answer.usage.output_tokens)


def message_answer(answer):
    text = "".join(block.text for block in answer.content if block.type == "text")
    calls = [(block.name, block.input) for block in answer.content if block.type == "tool_use"]
    assert answer.stop_reason == ("tool_use" if calls else "end_turn")
    return text, calls, (answer.usage.input_tokens, answer.usage.output_tokens)


def gemini_answer(pieces):
    parts = [part for piece in pieces for part in piece.candidates[0].content.parts]
    calls = [(p.function_call.name, p.function_call.args) for p in parts if p.function_call]
    counts = pieces[-1].usage_metadata
    assert pieces[-1].candidates[0].finish_reason == "STOP"
    tokens = (counts.prompt_token_count, counts.candidates_token_count)
    return "".join(part.text or "" for part in parts), calls, tokens


CALLS = [name for name in vars(Sync) if not name.startswith("_")]
REPLIES = {
    "text": (Reply.text(TEXT, tokens=Tokens(12, 7)), (TEXT, [], (12, 7))),
    "a tool call": (
        Reply.tool_call("read", LOOKUP, tokens=Tokens(12, 7)),
        ("", [("read", LOOKUP)], (12, 7)),
    ),
    "both": (
        Reply.tool_call("read", LOOKUP, text=TEXT, tokens=Tokens(12, 7)),
        (TEXT, [("read", LOOKUP)], (12, 7)),
    ),
}


@pytest.fixture(scope="module")
def stage():
    """A provider whose reply a test sets, and the blocking SDKs pointed at it."""
    replies = [Reply.text()]
    with FakeProvider.running(lambda received: replies[-1]) as provider:
        sdks = Sync(provider.url)
        yield provider, sdks, replies
        sdks.openai.close()
        sdks.anthropic.close()
        sdks.google.close()


@pytest.mark.parametrize("reply", REPLIES)
@pytest.mark.parametrize("name", CALLS)
def test_the_blocking_sdks_understand_every_answer(stage, name, reply):
    _, sdks, replies = stage
    replies[:], expected = [REPLIES[reply][0]], REPLIES[reply][1]
    assert getattr(sdks, name)() == expected


# What google-genai does to aiohttp is no concern of ours.
@pytest.mark.filterwarnings("ignore:Inheritance class AiohttpClientSession:DeprecationWarning")
@pytest.mark.parametrize("name", CALLS)
async def test_the_sdks_for_asyncio_understand_every_answer(name):
    reply, expected = REPLIES["both"]
    async with FakeProvider([reply]) as provider:
        sdks = Async(provider.url)
        assert await getattr(sdks, name)() == expected
        await sdks.close()


def test_endpoints_without_a_model_have_their_own_answers(stage):
    provider, sdks, replies = stage
    replies[:] = [Reply.text()]
    calls = provider.calls
    vectors = sdks.openai.embeddings.create(model="m", input=["hello", "world"]).data
    assert [len(vector.embedding) for vector in vectors] == [4, 4]
    assert "gpt-5.3-codex" in [model.id for model in sdks.openai.models.list()]
    assert sdks.openai.models.retrieve("mine").id == "mine"
    assert sdks.anthropic.messages.count_tokens(model="m", messages=HELLO).input_tokens > 5
    assert sdks.google.models.count_tokens(model="m", contents="hello").total_tokens > 5
    assert provider.calls == calls


def test_legacy_completions_and_usage_only_when_asked_for(stage):
    _, sdks, replies = stage
    replies[:] = [Reply.text(TEXT)]
    create = sdks.openai.completions.create
    assert create(model="m", prompt="hello").choices[0].text == TEXT
    pieces = list(create(model="m", prompt="hello", stream=True))
    assert "".join(piece.choices[0].text for piece in pieces) == TEXT
    chat = sdks.openai.chat.completions.create(model="m", messages=HELLO, stream=True)
    assert [chunk.usage for chunk in chat if chunk.usage] == []


def post(provider, path="/v1/chat/completions", body=None, **more):
    """Send one request; return status, headers and body of the answer."""
    place = urlsplit(provider.url)
    connection = http.client.HTTPConnection(place.hostname, place.port, timeout=5)
    try:
        body = json.dumps(body or {"model": "m", "messages": HELLO, **more})
        connection.request("POST", path, body, {"X-Team": "a"})
        response = connection.getresponse()
        return response.status, response.headers, response.read()
    finally:
        connection.close()


def failure_of(call, *arguments):
    """Return what the call raises."""
    with pytest.raises(Exception) as caught:
        call(*arguments)
    return caught.value


def said(answer):
    return json.loads(answer[2])["choices"][0]["message"]["content"]


def test_tokens_are_a_quarter_of_the_bytes_unless_given():
    with FakeProvider.running() as provider:
        usage = json.loads(post(provider)[2])["usage"]
        assert usage["prompt_tokens"] == len(provider.requests[0].body) // 4
        assert usage["completion_tokens"] == len("All done.") // 4


def test_a_list_is_used_in_turn_and_its_last_reply_again_and_again():
    with FakeProvider.running([Reply.text("one"), Reply.text("two")]) as provider:
        post(provider, "/v1/embeddings", {"model": "m", "input": "x"})
        assert [said(post(provider)) for _ in range(4)] == ["one", "two", "two", "two"]
        assert (provider.calls, len(provider.requests)) == (4, 5)


def test_a_function_sees_the_request_and_may_leave_the_answer_to_the_provider():
    def script(received):
        return Reply.text("shouted") if received.call.messages[-1].text == "HELLO" else None

    with FakeProvider.running(script) as provider:
        loud = [{"role": "user", "content": "HELLO"}]
        assert said(post(provider, messages=loud)) == "shouted"
        assert said(post(provider)) == "All done."
        first = provider.requests[0]
    assert (first.method, first.target) == ("POST", "/v1/chat/completions")
    assert first.headers["x-team"] == "a"
    assert first.json()["messages"] == loud
    assert first.call.model == "m"


@pytest.mark.parametrize(
    ("path", "shape"),
    [
        ("/v1/chat/completions", lambda body: body["error"]["type"] == "rate_limit_exceeded"),
        ("/v1/messages", lambda body: body["error"]["type"] == "rate_limit_error"),
        (
            "/v1beta/models/m:generateContent",
            lambda body: body["error"]["status"] == "RESOURCE_EXHAUSTED",
        ),
    ],
    ids=["openai", "anthropic", "gemini"],
)
def test_a_status_without_a_body_has_the_error_of_the_dialect(path, shape):
    body = {"model": "m", "max_tokens": 1, "messages": HELLO, "contents": []}
    with FakeProvider.running([Reply.status(429, headers={"Retry-After": "3"})]) as provider:
        status, headers, answer = post(provider, path, body)
    assert (status, headers["Retry-After"]) == (429, "3")
    assert shape(json.loads(answer))


def test_a_status_with_a_body_is_sent_as_given():
    script = [Reply.status(529, {"a": 1}), Reply.status(200, b"<p>", {"Content-Type": "text/html"})]
    with FakeProvider.running(script) as provider:
        assert post(provider)[::2] == (529, b'{"a":1}')
        status, headers, body = post(provider)
    assert (status, headers["Content-Type"], body) == (200, "text/html", b"<p>")


def test_the_sdk_retries_what_it_should():
    script = [Reply.status(500, headers={"Retry-After-Ms": "1"}), Reply.text("at last")]
    with FakeProvider.running(script) as provider:
        client = openai.OpenAI(base_url=f"{provider.url}/v1", api_key="k", max_retries=1)
        answer = client.chat.completions.create(model="m", messages=HELLO)
        client.close()
        assert answer.choices[0].message.content == "at last"
        assert provider.calls == 2


def test_nothing_is_found_where_no_dialect_is_spoken():
    with FakeProvider.running() as provider:
        assert post(provider, "/elsewhere", {"a": 1})[0] == 404


def test_gemini_streams_an_array_unless_asked_for_events():
    path, body = "/v1beta/models/m:streamGenerateContent", {"contents": []}
    with FakeProvider.running([Reply.text("two words")]) as provider:
        pieces = json.loads(post(provider, path, body)[2])
    texts = [piece["candidates"][0]["content"]["parts"][0]["text"] for piece in pieces]
    assert texts == ["two ", "words", ""]


# Answers that do not come as they should


def test_raw_bytes_need_not_be_http():
    with FakeProvider.running([Reply.raw(b"garbage\r\n\r\n")]) as provider:
        failure = failure_of(post, provider)
    assert isinstance(failure, http.client.BadStatusLine)
    assert provider.disconnects == 0


def test_a_connection_dropped_before_a_byte():
    with FakeProvider.running([Reply.drop()]) as provider:
        failure = failure_of(post, provider)
    assert isinstance(failure, http.client.RemoteDisconnected)


@pytest.mark.parametrize("count", [0, 1, 10, 100])
def test_a_connection_dropped_after_some_bytes(count):
    with FakeProvider.running([Reply.drop(after_bytes=count)]) as provider:
        failure = failure_of(post, provider)
    assert isinstance(failure, http.client.IncompleteRead)
    assert len(failure.partial) == count


def test_a_stream_dropped_after_some_chunks():
    script = [Reply.drop(Reply.text("one two three"), after_chunks=3)]
    with FakeProvider.running(script) as provider:
        client = openai.OpenAI(base_url=f"{provider.url}/v1", api_key="k", max_retries=0)
        stream = client.chat.completions.create(model="m", messages=HELLO, stream=True)
        heard = [next(stream).choices[0].delta.content for _ in range(3)]
        failure = failure_of(next, stream)
        client.close()
    assert isinstance(failure, openai.APIConnectionError)
    assert heard == ["", "one ", "two "]


def test_an_answer_that_never_comes():
    with FakeProvider.running([Reply.hang()]) as provider:
        client = openai.OpenAI(
            base_url=f"{provider.url}/v1", api_key="k", max_retries=0, timeout=0.2
        )
        with pytest.raises(openai.APITimeoutError):
            client.chat.completions.create(model="m", messages=HELLO)
        client.close()


async def test_a_stream_waits_at_its_gate():
    gate = Gate()
    script = [Reply.pause(gate, Reply.text("one two three"), after_chunks=2)]
    async with FakeProvider(script) as provider:
        client = openai.AsyncOpenAI(base_url=f"{provider.url}/v1", api_key="k", max_retries=0)
        stream = await client.chat.completions.create(model="m", messages=HELLO, stream=True)
        heard = []
        async for chunk in stream:
            heard.append(chunk.choices[0].delta.content)
            if len(heard) == 2:
                await gate.reached.wait()
                gate.open()
        await client.close()
    assert heard == ["", "one ", "two ", "three", None]


def test_events_of_ones_own_with_gates_between_them():
    gate = Gate()
    script = [Reply.sse({"n": 1}, gate, b"data: [DONE]\n\n")]
    with (
        FakeProvider.running(script) as provider,
        httpx2.stream("POST", f"{provider.url}/v1/anything", json={}, timeout=5) as response,
    ):
        lines = response.iter_lines()
        assert next(lines) == 'data: {"n":1}'
        gate.reached.wait_blocking()
        gate.open()
        assert [line for line in lines if line] == ["data: [DONE]"]


async def test_a_gate_tells_that_its_client_went_away():
    gate = Gate()
    async with FakeProvider([Reply.pause(gate, after_chunks=1)]) as provider:
        client = openai.AsyncOpenAI(base_url=f"{provider.url}/v1", api_key="k", max_retries=0)
        stream = await client.chat.completions.create(model="m", messages=HELLO, stream=True)
        await gate.reached.wait()
        await stream.close()
        await client.close()
        await gate.abandoned.wait()
        assert provider.disconnects == 1


def test_a_signal_that_never_comes_fails_who_waits():
    with pytest.raises(TimeoutError):
        Gate().reached.wait_blocking(timeout=0)


@pytest.mark.parametrize("body", [{}, {"stream": True}], ids=["whole", "streamed"])
def test_leaving_does_not_wait_for_answers_that_hang(body):
    started = time.monotonic()
    with FakeProvider.running([Reply.hang(after_chunks=0)]) as provider:
        place = urlsplit(provider.url)
        connection = http.client.HTTPConnection(place.hostname, place.port, timeout=5)
        connection.request(
            "POST", "/v1/chat/completions", json.dumps({"model": "m", "messages": HELLO, **body})
        )
        assert connection.getresponse().status == 200
    connection.close()
    assert time.monotonic() - started < 4


def test_a_script_that_fails_fails_the_test():
    def script(received):
        raise LookupError("no such scene")

    with (
        pytest.raises(LookupError, match="no such scene"),
        FakeProvider.running(script) as provider,
    ):
        assert post(provider)[0] == 500


def test_an_answer_that_cannot_be_sent_fails_the_test():
    script = [Reply.pause(Gate(), Reply.status(200, {}, {"X-Bad": "a\nb"}), after_chunks=9)]
    with pytest.raises(ValueError, match="line break"), FakeProvider.running(script) as provider:
        assert isinstance(failure_of(post, provider), http.client.HTTPException | OSError)
