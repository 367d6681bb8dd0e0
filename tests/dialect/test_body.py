"""Calls inside a process: keyword arguments of real SDKs, told by their shape."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import anthropic.types
import openai
import openai.types.chat
import pytest

from looptrap.dialect.body import read_body
from looptrap.dialect.model import Message, ToolCall
from looptrap.errors import CallError

HI = {"role": "user", "content": "hi"}
TEXT = {"role": "user", "content": [{"type": "text", "text": "hi"}]}
IMAGE = {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}
USE = {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "f", "input": {}}]}
RESULT = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t"}]}
SYSTEM = {"role": "system", "content": "Be brief."}


@pytest.mark.parametrize(
    ("body", "dialect"),
    [
        pytest.param({"messages": [HI]}, "openai_chat", id="plain messages"),
        pytest.param({"messages": [HI], "max_tokens": 9}, "openai_chat", id="a limit alone"),
        pytest.param({"messages": [TEXT]}, "openai_chat", id="blocks alone"),
        pytest.param({"messages": [TEXT], "max_tokens": 9}, "anthropic", id="blocks and a limit"),
        pytest.param(
            {"messages": [SYSTEM, TEXT], "max_tokens": 9}, "openai_chat", id="a system message"
        ),
        pytest.param({"messages": [IMAGE], "max_tokens": 9}, "openai_chat", id="an image's URL"),
        pytest.param({"messages": [HI], "system": "x"}, "anthropic", id="a system prompt"),
        pytest.param({"messages": [HI, USE]}, "anthropic", id="a tool_use"),
        pytest.param({"messages": [HI, RESULT]}, "anthropic", id="a tool_result"),
        pytest.param({"messages": [HI], "anthropic_version": "x"}, "anthropic", id="a version"),
        pytest.param({"input": "hi"}, "openai_responses", id="input"),
        pytest.param({"input": "hi", "agent": {"name": "a"}}, "openai_responses", id="an agent"),
        pytest.param(
            {"model": "g", "input": "hi", "previous_interaction_id": "v1_1"},
            "gemini_interactions",
            id="an interaction",
        ),
        pytest.param({"prompt": {"id": "p"}}, "openai_responses", id="a stored prompt"),
        pytest.param({"prompt": "hi"}, "openai_completions", id="prompt"),
        pytest.param({"model": "g", "contents": "hi"}, "gemini", id="contents"),
        pytest.param(
            {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "f"}},
            "mcp",
            id="JSON-RPC",
        ),
        pytest.param({"messages": 5}, "openai_chat", id="messages of a wrong type"),
        pytest.param({"url": "x"}, "http", id="something else"),
        pytest.param({}, "http", id="nothing"),
        pytest.param(b'{"input": "hi"}', "openai_responses", id="bytes"),
    ],
)
def test_the_shape_tells_the_dialect(body: Any, dialect: str) -> None:
    assert read_body(body).dialect == dialect


def test_a_path_overrules_the_shape() -> None:
    assert read_body({"messages": [HI]}, "/v1/messages").dialect == "anthropic"
    assert read_body({"input": "hi"}, "/v1/embeddings").dialect == "openai_embeddings"


def test_says_who_calls() -> None:
    request = read_body({"messages": []}, caller="c", project="p", session="s").request
    assert (request.caller, request.project, request.session) == ("c", "p", "s")


def test_openai_objects_in_a_history() -> None:
    answer = openai.types.chat.ChatCompletionMessage.model_validate(
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
            ],
        }
    )
    call = read_body({"model": "m", "messages": (HI, answer), "tools": openai.omit, "timeout": 3})
    assert call.messages == [
        Message("user", "hi"),
        Message("assistant", "", (ToolCall("c", "f", "{}"),)),
    ]
    assert call.tools == ()


def test_anthropic_objects_in_a_history() -> None:
    block = anthropic.types.ToolUseBlock(type="tool_use", id="t", name="f", input={"b": 1, "a": 2})
    call = read_body({"messages": [HI, {"role": "assistant", "content": [block]}]})
    assert call.dialect == "anthropic"
    assert call.messages[1].calls == (ToolCall("t", "f", '{"a":2,"b":1}'),)


def search(query: str) -> str:
    return query


def test_google_keeps_half_of_the_body_in_its_config() -> None:
    config = {"system_instruction": "Be brief.", "tools": [search]}
    call = read_body({"model": "models/g", "contents": ["hi", {"text": "you"}], "config": config})
    assert call.messages == [
        Message("system", "Be brief."),
        Message("user", "hi"),
        Message("user", "you"),
    ]
    assert (call.model, call.tools) == ("models/g", ("search",))


@dataclass
class Note:
    role: str
    content: str


def test_other_objects_that_json_can_hold() -> None:
    messages = [Note("user", "a"), MappingProxyType({"role": "user", "content": "b"})]
    assert [one.text for one in read_body({"messages": messages}).messages] == ["a", "b"]


def test_an_extra_body_is_sent_too() -> None:
    assert read_body({"messages": [], "extra_body": {"user": "u"}}).user == "u"


ITSELF: list[Any] = []
ITSELF.append(ITSELF)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        pytest.param({"messages": [object()]}, "messages: .* type object", id="an object"),
        pytest.param({"user": "\ud800"}, "user: .*surrogates", id="a lone surrogate"),
        pytest.param({"messages": ITSELF}, "messages: .*holds itself", id="a list in itself"),
        pytest.param({"messages": (one for one in ())}, "type generator", id="a generator"),
        pytest.param({"contents": [], "config": object()}, "config: ", id="an odd configuration"),
        pytest.param(b"[]", "JSON object", id="bytes of a list"),
        pytest.param(b"{", "JSON object", id="bytes cut off"),
        pytest.param([HI], "not list", id="a list"),
        pytest.param("hi", "not str", id="a string"),
    ],
)
def test_what_cannot_be_read_is_refused_with_its_place(body: Any, message: str) -> None:
    with pytest.raises(CallError, match=message):
        read_body(body)
