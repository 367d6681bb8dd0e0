"""What every dialect must do alike: one conversation reads the same in all, and nothing raises."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass
from typing import Any, get_args

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.dialect.tool_uses import tool_uses

from looptrap.dialect.answer import answer_reader, close_stream
from looptrap.dialect.content import encode
from looptrap.dialect.dialect import Dialect, ModelAnswer
from looptrap.dialect.model import (
    Call,
    DialectName,
    Message,
    Refusal,
    Request,
    ToolCall,
    ToolResult,
    Usage,
)
from looptrap.dialect.registry import DIALECTS, ENDINGS, read
from looptrap.dialect.usage_meter import UsageReader, usage_of

CITY = {"unit": "C", "city": "Paris"}
DAYS = {"city": "Paris", "days": [1, 2]}


@dataclass(frozen=True)
class Conversation:
    """One conversation, and one turn with two calls at once, as a dialect writes them."""

    path: str
    conversation: dict[str, Any]
    parallel: dict[str, Any]


def chat_call(call_id: str, name: str, arguments: Any) -> dict[str, Any]:
    function = {"name": name, "arguments": json.dumps(arguments)}
    return {"id": call_id, "type": "function", "function": function}


CHAT = Conversation(
    "/v1/chat/completions",
    {
        "model": "m",
        "user": "u",
        "tools": [{"type": "function", "function": {"name": "weather"}}],
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "How warm is it?"},
            {
                "role": "assistant",
                "content": "Let me look.",
                "tool_calls": [chat_call("call_1", "weather", CITY)],
            },
            {"role": "tool", "tool_call_id": "call_1", "content": "18 degrees"},
            {"role": "assistant", "content": "18."},
            {"role": "user", "content": [{"type": "text", "text": "Thanks."}]},
        ],
    },
    {
        "messages": [
            {
                "role": "assistant",
                "tool_calls": [
                    chat_call("call_1", "weather", CITY),
                    chat_call("call_2", "forecast", DAYS),
                ],
            },
            {"role": "tool", "tool_call_id": "call_2", "content": "rain"},
            {"role": "tool", "tool_call_id": "call_1", "content": "18 degrees"},
        ]
    },
)


def item_call(call_id: str, name: str, arguments: Any) -> dict[str, Any]:
    text = json.dumps(arguments, indent=1)
    return {"type": "function_call", "call_id": call_id, "name": name, "arguments": text}


def item_output(call_id: str, output: str) -> dict[str, Any]:
    return {"type": "function_call_output", "call_id": call_id, "output": output}


RESPONSES = Conversation(
    "/v1/responses",
    {
        "model": "m",
        "user": "u",
        "instructions": "Be brief.",
        "tools": [{"type": "function", "name": "weather"}],
        "input": [
            {"role": "user", "content": "How warm is it?"},
            {"type": "reasoning", "id": "rs_1", "summary": []},
            {"role": "assistant", "content": [{"type": "output_text", "text": "Let me look."}]},
            item_call("call_a", "weather", CITY),
            item_output("call_a", "18 degrees"),
            {"role": "assistant", "content": "18."},
            {"role": "user", "content": [{"type": "input_text", "text": "Thanks."}]},
        ],
    },
    {
        "input": [
            item_call("call_a", "weather", CITY),
            item_call("call_b", "forecast", DAYS),
            item_output("call_b", "rain"),
            item_output("call_a", "18 degrees"),
        ]
    },
)


def tool_use(call_id: str, name: str, arguments: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": call_id, "name": name, "input": arguments}


def tool_result(call_id: str, content: Any) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": call_id, "content": content}


ANTHROPIC = Conversation(
    "/v1/messages",
    {
        "model": "m",
        "metadata": {"user_id": "u"},
        "system": [{"type": "text", "text": "Be brief."}],
        "tools": [{"name": "weather", "input_schema": {}}],
        "messages": [
            {"role": "user", "content": "How warm is it?"},
            {
                "role": "assistant",
                "content": [
                    {"type": "thinking", "thinking": "Hm.", "signature": "x"},
                    {"type": "text", "text": "Let me look."},
                    tool_use("toolu_1", "weather", CITY),
                ],
            },
            {"role": "user", "content": [tool_result("toolu_1", "18 degrees")]},
            {"role": "assistant", "content": "18."},
            {"role": "user", "content": [{"type": "text", "text": "Thanks."}]},
        ],
    },
    {
        "messages": [
            {
                "role": "assistant",
                "content": [
                    tool_use("toolu_1", "weather", CITY),
                    tool_use("toolu_2", "forecast", DAYS),
                ],
            },
            {
                "role": "user",
                "content": [
                    tool_result("toolu_2", "rain"),
                    tool_result("toolu_1", [{"type": "text", "text": "18 degrees"}]),
                ],
            },
        ]
    },
)


def function_call(name: str, arguments: Any) -> dict[str, Any]:
    return {"functionCall": {"name": name, "args": arguments}}


def function_response(name: str, output: str) -> dict[str, Any]:
    return {"functionResponse": {"name": name, "response": {"output": output}}}


GEMINI = Conversation(
    "/v1beta/models/m:generateContent",
    {
        "systemInstruction": {"parts": [{"text": "Be brief."}]},
        "tools": [{"functionDeclarations": [{"name": "weather"}]}],
        "contents": [
            {"role": "user", "parts": [{"text": "How warm is it?"}]},
            {"role": "model", "parts": [{"text": "Let me look."}, function_call("weather", CITY)]},
            {"role": "user", "parts": [function_response("weather", "18 degrees")]},
            {"role": "model", "parts": [{"text": "18."}]},
            {"role": "user", "parts": [{"text": "Thanks."}]},
        ],
    },
    {
        "contents": [
            {
                "role": "model",
                "parts": [function_call("weather", CITY), function_call("forecast", DAYS)],
            },
            {
                "role": "user",
                "parts": [
                    function_response("forecast", "rain"),
                    function_response("weather", "18 degrees"),
                ],
            },
        ]
    },
)


def step_call(call_id: str, name: str, arguments: Any) -> dict[str, Any]:
    return {"type": "function_call", "id": call_id, "name": name, "arguments": arguments}


def step_result(call_id: str, result: Any) -> dict[str, Any]:
    return {"type": "function_result", "call_id": call_id, "result": result}


def said(kind: str, text: str) -> dict[str, Any]:
    return {"type": kind, "content": [{"type": "text", "text": text}]}


INTERACTIONS = Conversation(
    "/v1beta/interactions",
    {
        "model": "m",
        "system_instruction": "Be brief.",
        "tools": [{"type": "function", "name": "weather"}],
        "input": [
            said("user_input", "How warm is it?"),
            {"type": "thought", "signature": "x"},
            said("model_output", "Let me look."),
            step_call("c1", "weather", CITY),
            step_result("c1", "18 degrees"),
            said("model_output", "18."),
            said("user_input", "Thanks."),
        ],
    },
    {
        "model": "m",
        "input": [
            step_call("c1", "weather", CITY),
            step_call("c2", "forecast", DAYS),
            step_result("c2", "rain"),
            step_result("c1", [{"type": "text", "text": "18 degrees"}]),
        ],
    },
)

CONVERSATIONS = {
    "openai_chat": CHAT,
    "openai_responses": RESPONSES,
    "anthropic": ANTHROPIC,
    "gemini": GEMINI,
    "gemini_interactions": INTERACTIONS,
}
each_dialect = pytest.mark.parametrize(
    ("name", "dialect"), [pytest.param(name, one, id=name) for name, one in CONVERSATIONS.items()]
)

WEATHER = '{"city":"Paris","unit":"C"}'
FORECAST = '{"city":"Paris","days":[1,2]}'


def sent(path: str, body: Any) -> Call:
    return read(Request(path=path, body=json.dumps(body).encode()))


def without_ids(message: Message) -> Message:
    return Message(
        message.role,
        message.text,
        tuple(ToolCall("", call.name, call.arguments) for call in message.calls),
        tuple(ToolResult("", result.text, result.is_error) for result in message.results),
    )


def look_at(call: Call) -> tuple[Any, ...]:
    """Look at everything a call shows, from all sides."""
    backwards = list(call.backwards())
    tails = [call.tail(count) for count in range(4)]
    assert backwards == call.messages[::-1]
    assert tails == [call.messages[-count:] if count else [] for count in range(4)]
    assert tails == [call.tail(count) for count in range(4)]
    seen = (call.dialect, call.model, call.stream, call.user, call.chain, call.generates)
    return (*seen, call.messages, call.tools, tool_uses(call))


@each_dialect
def test_one_conversation_reads_the_same(name: str, dialect: Conversation) -> None:
    call = sent(dialect.path, dialect.conversation)
    assert call.dialect == name
    assert [without_ids(message) for message in call.messages] == [
        Message("system", "Be brief."),
        Message("user", "How warm is it?"),
        Message("assistant", "Let me look.", (ToolCall("", "weather", WEATHER),)),
        Message("tool", results=(ToolResult("", "18 degrees"),)),
        Message("assistant", "18."),
        Message("user", "Thanks."),
    ]
    assert (call.model, call.tools, call.stream, call.generates) == ("m", ("weather",), False, True)
    assert call.user == ("" if name.startswith("gemini") else "u")


@each_dialect
def test_results_find_the_calls_of_one_turn(name: str, dialect: Conversation) -> None:
    uses = tool_uses(sent(dialect.path, dialect.parallel))
    assert [
        (use.call.name, use.call.arguments, use.result and use.result.text) for use in uses
    ] == [
        ("weather", WEATHER, "18 degrees"),
        ("forecast", FORECAST, "rain"),
    ]


@each_dialect
def test_a_turn_is_one_message(name: str, dialect: Conversation) -> None:
    first = sent(dialect.path, dialect.parallel).messages[0]
    assert (first.role, len(first.calls)) == ("assistant", 2)


def test_mcp_writes_the_same_call() -> None:
    params = {"name": "weather", "arguments": CITY}
    body = {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params}
    assert sent("/mcp", body).tail(1)[0].calls == (ToolCall("", "weather", WEATHER),)


def shuffled(value: Any, chance: random.Random) -> Any:
    if isinstance(value, dict):
        keys = chance.sample(list(value), len(value))
        return {key: shuffled(value[key], chance) for key in keys}
    return [shuffled(one, chance) for one in value] if isinstance(value, list) else value


@each_dialect
@given(seed=st.integers(), indent=st.sampled_from([None, 0, 3]))
def test_key_order_and_spacing_never_matter(
    name: str, dialect: Conversation, seed: int, indent: int | None
) -> None:
    chance = random.Random(seed)
    for body in (dialect.conversation, dialect.parallel):
        other = json.dumps(shuffled(body, chance), indent=indent).encode()
        assert look_at(read(Request(path=dialect.path, body=other))) == look_at(
            sent(dialect.path, body)
        )


@each_dialect
@given(data=st.data())
def test_a_damaged_body_never_raises(name: str, dialect: Conversation, data: st.DataObject) -> None:
    body = bytearray(msgspec.json.encode(dialect.conversation))
    for _ in range(data.draw(st.integers(0, 4))):
        body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.sampled_from([len(body), data.draw(st.integers(0, len(body)))]))
    look_at(read(Request(path=dialect.path, body=bytes(body[:cut]))))


PATHS = [*(f"/v1/x{end}" if end[0] == ":" else f"/v1/{end}" for end in ENDINGS), "/mcp"]

FIELDS = """
    action args arguments cache_control call_id content contents conversation custom error function
    functionCall functionDeclarations functionResponse function_call id input instructions is_error
    jsonrpc messages metadata method model name output outputs params parts prompt refusal response
    role stream system systemInstruction text thought tool_call_id tool_calls tool_use_id tools type
    user user_id
"""
VALUES_OF_FIELDS = """
    assistant custom_tool_call function function_call_output image item_reference mcp_call message
    model reasoning refusal text thinking tool tool_result tool_use tools/call user web_search_call
"""
WORDS = st.sampled_from([*FIELDS.split(), *VALUES_OF_FIELDS.split()])
LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | WORDS
VALUES = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(WORDS | st.text(max_size=3), inner, max_size=5)
    ),
    max_leaves=12,
)


@given(path=st.sampled_from(PATHS), body=VALUES)
def test_no_json_makes_reading_raise(path: str, body: Any) -> None:
    look_at(sent(path, body))


@given(path=st.sampled_from(PATHS) | st.text(), body=st.binary())
def test_no_bytes_make_reading_raise(path: str, body: bytes) -> None:
    look_at(read(Request(path=path, body=body)))


@given(
    path=st.sampled_from(PATHS),
    field=st.sampled_from(["messages", "input", "contents", "prompt"]),
    messages=st.lists(VALUES | st.dictionaries(WORDS, VALUES, max_size=6), max_size=4),
    around=st.dictionaries(WORDS, VALUES, max_size=3),
)
def test_no_message_makes_reading_raise(
    path: str, field: str, messages: list[Any], around: dict[str, Any]
) -> None:
    look_at(sent(path, around | {field: messages}))


@each_dialect
@given(data=st.data())
def test_a_damaged_conversation_keeps_its_other_messages(
    name: str, dialect: Conversation, data: st.DataObject
) -> None:
    field = next(key for key in ("messages", "input", "contents") if key in dialect.conversation)
    good = dialect.conversation[field]
    body = dialect.conversation | {field: [good[0], data.draw(VALUES), good[-1]]}
    call = sent(dialect.path, body)
    assert call.dialect == name
    look_at(call)
    assert call.messages[-1] == Message("user", "Thanks.")


# The verbs: what every dialect in which a model answers can do

GENERATING = [pytest.param(one, id=one.name) for one in DIALECTS.values() if one.writer is not None]
each_generating = pytest.mark.parametrize("dialect", GENERATING)

TEXT = "Twelve words are said here so that there is a text to parse."
INCLUDE_USAGE = {"stream_options": {"include_usage": True}}


def answer(dialect: Dialect) -> ModelAnswer:
    call = Call(Request(query="alt=sse"), dialect.name, model="m", generates=True)
    pieces = [f"{word} " for word in TEXT.split()]
    return ModelAnswer(call, INCLUDE_USAGE, "1", 1_750_000_000, pieces, usage=Usage(12, 34))


def streamed(dialect: Dialect) -> list[bytes]:
    assert dialect.writer is not None
    return list(dialect.writer.stream(answer(dialect)))


def test_every_dialect_is_registered_under_its_name() -> None:
    assert set(DIALECTS) == set(get_args(DialectName))
    assert all(one.name == name for name, one in DIALECTS.items())


@each_generating
def test_a_model_s_dialect_has_every_verb(dialect: Dialect) -> None:
    assert dialect.history is not None
    assert dialect.writer is not None
    assert dialect.stream_parser is not None
    assert dialect.usage is not None
    assert dialect.usage.whole_answer is not None
    # A legacy completion is one text: there is no message to put after it.
    assert (dialect.splice_nudge is None) == (dialect.name == "openai_completions")


@each_generating
def test_usage_is_read_as_it_is_written_whole_and_streamed(dialect: Dialect) -> None:
    assert dialect.writer is not None
    body = encode(dialect.writer.body(answer(dialect)))
    assert usage_of(dialect.name, body) == Usage(12, 34)
    reader = UsageReader(dialect.name, stream=True)
    for chunk in streamed(dialect):
        reader.feed(chunk)
    assert reader.finish() == Usage(12, 34)


@each_generating
@pytest.mark.parametrize("error", [None, b'{"error":{"message":"No."}}'], ids=["finish", "fail"])
def test_a_stream_that_has_begun_is_parsed_and_can_be_ended(
    dialect: Dialect, error: bytes | None
) -> None:
    reader = answer_reader(dialect.name, stream=True)
    assert reader is not None
    chunks = streamed(dialect)
    half = next(at for at, chunk in enumerate(chunks) if b"said " in chunk) + 1
    for chunk in chunks[:half]:
        reader.feed(chunk)
    reader.read()
    end = close_stream(reader, error, "why")
    assert end is not None
    assert end.endswith(b"\n\n")
    assert [text.look() for text in reader.parser.texts.values()] == ["Twelve words are said "]


@pytest.mark.parametrize("dialect", DIALECTS.values(), ids=DIALECTS)
def test_an_error_says_its_message_and_its_detail(dialect: Dialect) -> None:
    refusal = Refusal(429, "loop", "loop_detected", "Stop that.", {"rule": "repeat"})
    body = dialect.error_body(refusal, "req_1", None)
    assert body["error"]["message"] == "Stop that."
    assert body.get("detail", body["error"].get("data")) == {"rule": "repeat"}
