"""`stop`: the last message of a run, as real SDKs read it, whole and streamed."""

import json

import pytest
from tests.dialect.answering import anthropic_at, google_at, openai_at

from looptrap.detect.signals.signal import Evidence
from looptrap.dialect.model import Request
from looptrap.dialect.registry import read
from looptrap.policy.action import Action
from looptrap.policy.refusal import final_message
from looptrap.policy.verdict import Verdict

WHAT = "search with the same arguments and result, 5 times in 8 rounds"
STOP = Verdict(
    action=Action.STOP,
    reason="loop_detected",
    rule="no-progress",
    message="Stopped.",
    count=5,
    evidence=(Evidence("repeat", WHAT, 5),),
)
NOW = 1_800_000_000.75
MESSAGES = [{"role": "user", "content": "the secret pump"}]
CONTENTS = [{"role": "user", "parts": [{"text": "the secret pump"}]}]

CHAT, RESPONSES, COMPLETIONS = "/v1/chat/completions", "/v1/responses", "/v1/completions"
ANTHROPIC = "/v1/messages"
GEMINI = "/v1beta/models/gemini-x:generateContent"
GEMINI_STREAM = "/v1beta/models/gemini-x:streamGenerateContent"

PLAIN = {
    CHAT: {"model": "m", "messages": MESSAGES},
    RESPONSES: {"model": "m", "input": "hi"},
    COMPLETIONS: {"model": "m", "prompt": "hi"},
    ANTHROPIC: {"model": "m", "max_tokens": 9, "messages": MESSAGES},
    GEMINI: {"contents": CONTENTS},
}


def stopped(path, body, *, query="", shadow=None):
    call = read(Request(path=path, query=query, body=json.dumps(body).encode()))
    return final_message(call, STOP, shadow=shadow, request_id="req-1", now=NOW)


def respond(call):
    answer = final_message(call, STOP, shadow=None, request_id="req-1", now=NOW)
    assert answer is not None
    return answer


def told(text):
    """Say whether a text tells in plain words what repeats, how often, and who ended the run."""
    return text.startswith("Looptrap ended this run") and WHAT in text and "secret" not in text


# Whole and streamed, through the real SDKs.


async def test_openai_chat_whole():
    async with openai_at(respond) as (client, server):
        answer = await client.chat.completions.create(model="m", messages=MESSAGES)
    (choice,) = answer.choices
    assert told(choice.message.content)
    assert (choice.finish_reason, choice.message.role) == ("stop", "assistant")
    assert choice.message.tool_calls is None
    assert (answer.id, answer.model, answer.created) == ("chatcmpl-req-1", "m", int(NOW))
    assert answer.usage.total_tokens == 0
    assert len(server.calls) == 1


@pytest.mark.parametrize("with_usage", [False, True], ids=["no usage", "usage asked for"])
async def test_openai_chat_streamed(with_usage):
    options = {"stream_options": {"include_usage": True}} if with_usage else {}
    async with openai_at(respond) as (client, _):
        stream = await client.chat.completions.create(
            model="m", messages=MESSAGES, stream=True, **options
        )
        chunks = [chunk async for chunk in stream]
    choices = [choice for chunk in chunks for choice in chunk.choices]
    assert told("".join(choice.delta.content or "" for choice in choices))
    assert choices[0].delta.role == "assistant"
    assert [choice.finish_reason for choice in choices] == [None, None, "stop"]
    assert {(chunk.id, chunk.object, chunk.model) for chunk in chunks} == {
        ("chatcmpl-req-1", "chat.completion.chunk", "m")
    }
    assert [chunk.usage is not None for chunk in chunks] == [False] * 3 + [True] * with_usage
    assert (chunks[-1].choices == []) is with_usage


@pytest.mark.parametrize("path", [CHAT, COMPLETIONS])
def test_an_openai_stream_ends_with_its_usage_and_done(path):
    options = {"stream": True, "stream_options": {"include_usage": True}}
    *events, done, rest = stopped(path, {**PLAIN[path], **options}).body.split(b"\n\n")
    usages = [json.loads(event.removeprefix(b"data: "))["usage"] for event in events]
    assert usages[:-1] == [None] * (len(events) - 1)
    assert usages[-1] == {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}
    assert (done, rest) == (b"data: [DONE]", b"")


async def test_openai_chat_through_the_sdks_own_accumulator():
    async with (
        openai_at(respond) as (client, _),
        client.chat.completions.stream(model="m", messages=MESSAGES) as stream,
    ):
        final = await stream.get_final_completion()
    assert told(final.choices[0].message.content)
    assert final.choices[0].finish_reason == "stop"


async def test_openai_chat_answers_as_many_choices_as_were_asked_for():
    async with openai_at(respond) as (client, _):
        whole = await client.chat.completions.create(model="m", messages=MESSAGES, n=3)
        stream = await client.chat.completions.create(
            model="m", messages=MESSAGES, n=3, stream=True
        )
        streamed = [choice async for chunk in stream for choice in chunk.choices]
    assert [choice.index for choice in whole.choices] == [0, 1, 2]
    ended = [choice.index for choice in streamed if choice.finish_reason == "stop"]
    assert ended == [0, 1, 2]


@pytest.mark.parametrize("n", [None, 0, -4, 1, 10**9, True, "3"])
def test_an_impossible_number_of_choices_is_one(n):
    body = json.loads(stopped(CHAT, {**PLAIN[CHAT], "n": n}).body)
    assert len(body["choices"]) == 1


async def test_openai_responses_whole():
    async with openai_at(respond) as (client, _):
        answer = await client.responses.create(
            model="m", input="hi", previous_response_id="resp_before"
        )
    assert told(answer.output_text)
    assert (answer.id, answer.status, answer.model) == ("resp_req-1", "completed", "m")
    assert answer.output[0].role == "assistant"
    assert answer.previous_response_id == "resp_before"
    assert answer.usage.total_tokens == 0
    assert answer.error is None


async def test_openai_responses_streamed():
    async with openai_at(respond) as (client, _):
        stream = await client.responses.create(model="m", input="hi", stream=True)
        events = [event async for event in stream]
    assert [event.type.removeprefix("response.") for event in events] == [
        "created",
        "in_progress",
        "output_item.added",
        "content_part.added",
        "output_text.delta",
        "output_text.done",
        "content_part.done",
        "output_item.done",
        "completed",
    ]
    assert [event.sequence_number for event in events] == list(range(9))
    assert told(events[4].delta)
    assert told(events[5].text)
    assert events[0].response.status == "in_progress"
    assert told(events[-1].response.output_text)
    assert events[-1].response.status == "completed"


async def test_openai_responses_through_the_sdks_own_accumulator():
    async with (
        openai_at(respond) as (client, _),
        client.responses.stream(model="m", input="hi") as stream,
    ):
        final = await stream.get_final_response()
    assert told(final.output_text)


async def test_openai_completions_whole():
    async with openai_at(respond) as (client, _):
        answer = await client.completions.create(model="m", prompt=["a", "b"], n=2)
    assert [choice.index for choice in answer.choices] == [0, 1, 2, 3]
    assert all(told(choice.text) for choice in answer.choices)
    assert {choice.finish_reason for choice in answer.choices} == {"stop"}
    assert answer.usage.total_tokens == 0


async def test_openai_completions_streamed():
    async with openai_at(respond) as (client, _):
        stream = await client.completions.create(
            model="m", prompt="hi", stream=True, stream_options={"include_usage": True}
        )
        chunks = [chunk async for chunk in stream]
    assert told("".join(choice.text for chunk in chunks for choice in chunk.choices))
    assert [choice.finish_reason for choice in chunks[0].choices] == ["stop"]
    assert chunks[-1].usage.total_tokens == 0


async def test_anthropic_whole():
    async with anthropic_at(respond) as (client, server):
        answer = await client.messages.create(model="m", max_tokens=9, messages=MESSAGES)
    (block,) = answer.content
    assert told(block.text)
    assert (answer.id, answer.model, answer.role) == ("msg_req-1", "m", "assistant")
    assert answer.stop_reason == "end_turn"
    assert (answer.usage.input_tokens, answer.usage.output_tokens) == (0, 0)
    assert len(server.calls) == 1


async def test_anthropic_streamed():
    async with anthropic_at(respond) as (client, _):
        stream = await client.messages.create(
            model="m", max_tokens=9, messages=MESSAGES, stream=True
        )
        events = [event async for event in stream]
    assert [event.type for event in events] == [
        "message_start",
        "content_block_start",
        "content_block_delta",
        "content_block_stop",
        "message_delta",
        "message_stop",
    ]
    assert told(events[2].delta.text)
    assert events[0].message.stop_reason is None
    assert events[4].delta.stop_reason == "end_turn"


async def test_anthropic_through_the_sdks_own_accumulator():
    async with (
        anthropic_at(respond) as (client, _),
        client.messages.stream(model="m", max_tokens=9, messages=MESSAGES) as stream,
    ):
        final = await stream.get_final_message()
    assert told(final.content[0].text)
    assert final.stop_reason == "end_turn"


@pytest.mark.filterwarnings("ignore:Inheritance class Aiohttp:DeprecationWarning")
async def test_gemini_whole_and_streamed():
    async with google_at(respond) as (client, server):
        whole = await client.models.generate_content(model="gemini-x", contents="hi")
        stream = await client.models.generate_content_stream(model="gemini-x", contents="hi")
        chunks = [chunk async for chunk in stream]
    for answer in (whole, *chunks):
        assert told(answer.text)
        assert answer.candidates[0].finish_reason == "STOP"
        assert answer.usage_metadata.total_token_count == 0
        assert (answer.model_version, answer.response_id) == ("gemini-x", "req-1")
    assert len(chunks) == 1
    assert [call.stream for call in server.calls] == [False, True]


def test_a_gemini_stream_without_sse_is_a_json_array():
    answer = stopped(GEMINI_STREAM, PLAIN[GEMINI])
    (response,) = json.loads(answer.body)
    assert told(response["candidates"][0]["content"]["parts"][0]["text"])
    assert dict(answer.headers)[b"Content-Type"] == b"application/json"


def test_a_gemini_stream_with_sse_is_events():
    answer = stopped(GEMINI_STREAM, PLAIN[GEMINI], query="key=k&alt=sse")
    assert answer.body.startswith(b"data: {")
    assert dict(answer.headers)[b"Content-Type"].startswith(b"text/event-stream")


# Headers.


@pytest.mark.parametrize("path", PLAIN)
def test_the_answer_is_a_200_that_says_what_was_decided(path):
    shadow = Verdict(action=Action.BLOCK, reason="loop_detected", rule="other")
    answer = stopped(path, PLAIN[path], shadow=shadow)
    headers = dict(answer.headers)
    assert answer.status == 200
    assert headers[b"X-Looptrap-Verdict"] == b"stop"
    assert headers[b"X-Looptrap-Rule"] == b"no-progress"
    assert headers[b"X-Looptrap-Shadow"] == b"block"
    assert headers[b"X-Request-Id"] == b"req-1"
    assert headers[b"Content-Type"] == b"application/json"


@pytest.mark.parametrize("path", [CHAT, RESPONSES, COMPLETIONS, ANTHROPIC])
def test_a_stream_is_an_event_stream(path):
    headers = dict(stopped(path, {**PLAIN[path], "stream": True}).headers)
    assert headers[b"Content-Type"] == b"text/event-stream; charset=utf-8"


# Where plain text is no answer.

SCHEMA = {"type": "json_schema", "json_schema": {"name": "n", "schema": {}}}
NAMED = {"type": "function", "function": {"name": "f"}}

DEMANDS = [
    (CHAT, {"response_format": {"type": "json_object"}}),
    (CHAT, {"response_format": SCHEMA}),
    (CHAT, {"tool_choice": "required"}),
    (CHAT, {"tool_choice": NAMED}),
    (
        CHAT,
        {"tool_choice": {"type": "allowed_tools", "allowed_tools": {"mode": "required"}}},
    ),
    (CHAT, {"function_call": {"name": "f"}}),
    (CHAT, {"modalities": ["text", "audio"]}),
    (RESPONSES, {"text": {"format": {"type": "json_schema", "name": "n", "schema": {}}}}),
    (RESPONSES, {"text": {"format": {"type": "json_object"}}}),
    (RESPONSES, {"tool_choice": "required"}),
    (RESPONSES, {"tool_choice": {"type": "function", "name": "f"}}),
    (RESPONSES, {"tool_choice": {"type": "allowed_tools", "mode": "required", "tools": []}}),
    (ANTHROPIC, {"tool_choice": {"type": "any"}}),
    (ANTHROPIC, {"tool_choice": {"type": "tool", "name": "f"}}),
    (ANTHROPIC, {"output_config": {"format": {"type": "json_schema", "schema": {}}}}),
    (ANTHROPIC, {"output_format": {"type": "json_schema", "schema": {}}}),
    (ANTHROPIC, {"messages": [*MESSAGES, {"role": "assistant", "content": "{"}]}),
    (GEMINI, {"generationConfig": {"responseMimeType": "application/json"}}),
    (GEMINI, {"generation_config": {"response_mime_type": "application/json"}}),
    (GEMINI, {"generationConfig": {"responseSchema": {"type": "OBJECT"}}}),
    (GEMINI, {"generationConfig": {"responseModalities": ["AUDIO"]}}),
    (GEMINI, {"toolConfig": {"functionCallingConfig": {"mode": "ANY"}}}),
]


@pytest.mark.parametrize(("path", "demand"), DEMANDS, ids=lambda value: json.dumps(value)[:70])
def test_a_demand_for_json_or_a_tool_call_cannot_be_met(path, demand):
    assert stopped(path, {**PLAIN[path], **demand}) is None


HARMLESS = [
    (CHAT, {"response_format": {"type": "text"}, "tool_choice": "auto", "modalities": ["text"]}),
    (CHAT, {"response_format": None, "tool_choice": None, "stream_options": None}),
    (CHAT, {"tool_choice": "none", "function_call": "auto"}),
    (CHAT, {"tool_choice": {"type": "allowed_tools", "allowed_tools": {"mode": "auto"}}}),
    (RESPONSES, {"text": {"format": {"type": "text"}}, "tool_choice": "auto"}),
    (RESPONSES, {"text": None, "tool_choice": {"type": "allowed_tools", "mode": "auto"}}),
    (ANTHROPIC, {"tool_choice": {"type": "auto"}, "output_config": {"effort": "low"}}),
    (GEMINI, {"generationConfig": {"responseMimeType": "text/plain"}, "toolConfig": None}),
    (GEMINI, {"toolConfig": {"functionCallingConfig": {"mode": "AUTO"}}}),
]


@pytest.mark.parametrize(("path", "sent"), HARMLESS, ids=lambda value: json.dumps(value)[:70])
def test_anything_else_is_answered(path, sent):
    assert stopped(path, {**PLAIN[path], **sent}) is not None


@pytest.mark.parametrize(
    ("path", "body"),
    [
        pytest.param("/v1/embeddings", {"model": "m", "input": "hi"}, id="embeddings"),
        pytest.param("/v1/messages/count_tokens", PLAIN[ANTHROPIC], id="a token count"),
        pytest.param("/anything", {"q": 1}, id="plain HTTP"),
        pytest.param(
            "/mcp",
            {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "f"}},
            id="MCP",
        ),
    ],
)
def test_what_writes_no_message_has_no_last_one(path, body):
    assert stopped(path, body) is None


@pytest.mark.parametrize(
    "extra",
    [
        pytest.param(b'"\\ud83d"', id="half an emoji"),
        pytest.param(b"NaN", id="NaN"),
        pytest.param(b"9" * 5000, id="a number of many digits"),
        pytest.param(b"[" * 5000 + b"]" * 5000, id="nested deeply"),
    ],
)
def test_odd_json_is_answered(extra):
    body = b'{"model":"m","messages":[{"role":"user","content":"hi"}],"x":' + extra + b"}"
    call = read(Request(path=CHAT, body=body))
    assert final_message(call, STOP, shadow=None, request_id="r", now=NOW) is not None


def test_a_body_that_cannot_be_read_has_no_last_message():
    call = read(Request(path=CHAT, body=b'{"model":"m","messages":{}}'))
    assert final_message(call, STOP, shadow=None, request_id="r", now=NOW) is None
