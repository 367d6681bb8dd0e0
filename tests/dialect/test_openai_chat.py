"""Chat Completions bodies, as clients send them, read into neutral form."""

from __future__ import annotations

import json
from typing import Any

import pytest

from looptrap.dialect.model import Call, Message, Request, ToolCall, ToolResult
from looptrap.dialect.registry import read

CHAT = "/v1/chat/completions"


def chat(path: str = CHAT, **body: Any) -> Call:
    return read(Request(path=path, body=json.dumps(body).encode()))


def message(**sent: Any) -> Message:
    return chat(model="gpt-5", messages=[sent]).messages[0]


@pytest.mark.parametrize(
    ("sent", "expected"),
    [
        pytest.param(
            {"role": "user", "content": "hi"}, Message("user", "hi"), id="a user says something"
        ),
        pytest.param(
            {"role": "developer", "content": "Be brief."},
            Message("system", "Be brief."),
            id="the developer is the system",
        ),
        pytest.param(
            {
                "role": "user",
                "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}],
            },
            Message("user", "a\nb"),
            id="text parts are joined",
        ),
        pytest.param(
            {"role": "assistant", "content": None, "refusal": "I cannot."},
            Message("assistant", "I cannot."),
            id="a refusal is text",
        ),
        pytest.param(
            {"role": "assistant", "content": [{"type": "refusal", "refusal": "No."}]},
            Message("assistant", "No."),
            id="a refusal part is text",
        ),
        pytest.param(
            {"role": "assistant", "content": "ok", "reasoning_content": "hmm"},
            Message("assistant", "ok"),
            id="reasoning is left out",
        ),
        pytest.param(
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [
                    {
                        "id": "call_1",
                        "type": "function",
                        "function": {"name": "search", "arguments": '{ "q": "x", "a": [1, 2.5] }'},
                    }
                ],
            },
            Message("assistant", "", (ToolCall("call_1", "search", '{"a":[1,2.5],"q":"x"}'),)),
            id="arguments become canonical",
        ),
        pytest.param(
            {
                "role": "assistant",
                "tool_calls": [
                    {
                        "id": "c",
                        "type": "function",
                        "function": {"name": "f", "arguments": '{"q": '},
                    }
                ],
            },
            Message("assistant", "", (ToolCall("c", "f", '{"q": '),)),
            id="broken arguments stay raw text",
        ),
        pytest.param(
            {
                "role": "assistant",
                "tool_calls": [
                    {"id": "c", "type": "function", "function": {"name": "now", "arguments": ""}}
                ],
            },
            Message("assistant", "", (ToolCall("c", "now", "{}"),)),
            id="no arguments at all",
        ),
        pytest.param(
            {
                "role": "assistant",
                "tool_calls": [
                    {"id": "c", "function": {"name": "f", "arguments": {"b": 1, "a": None}}}
                ],
            },
            Message("assistant", "", (ToolCall("c", "f", '{"a":null,"b":1}'),)),
            id="arguments sent as an object",
        ),
        pytest.param(
            {
                "role": "assistant",
                "tool_calls": [
                    {"id": "c", "type": "custom", "custom": {"name": "sql", "input": "select  1"}}
                ],
            },
            Message("assistant", "", (ToolCall("c", "sql", "select  1"),)),
            id="a custom tool takes free text",
        ),
        pytest.param(
            {"role": "tool", "tool_call_id": "call_1", "content": "42"},
            Message("tool", results=(ToolResult("call_1", "42"),)),
            id="a tool answers",
        ),
        pytest.param(
            {
                "role": "tool",
                "tool_call_id": "call_1",
                "content": [{"type": "text", "text": "4"}, {"type": "text", "text": "2"}],
            },
            Message("tool", results=(ToolResult("call_1", "4\n2"),)),
            id="a tool answers in parts",
        ),
        pytest.param(
            {
                "role": "assistant",
                "content": None,
                "function_call": {"name": "f", "arguments": "{}"},
            },
            Message("assistant", "", (ToolCall("", "f", "{}"),)),
            id="a legacy function call",
        ),
        pytest.param(
            {"role": "function", "name": "f", "content": "7"},
            Message("tool", results=(ToolResult("", "7", name="f"),)),
            id="a legacy function answers",
        ),
    ],
)
def test_reads_a_message(sent: dict[str, Any], expected: Message) -> None:
    assert message(**sent) == expected


@pytest.mark.parametrize(
    ("sent", "expected"),
    [
        pytest.param("hello", Message("", '"hello"'), id="a bare string"),
        pytest.param(None, Message("", "null"), id="null"),
        pytest.param({"content": "x"}, Message("", '{"content":"x"}'), id="no role"),
        pytest.param(
            {"role": "user", "content": 5},
            Message("user", '{"content":5,"role":"user"}'),
            id="content of a wrong type keeps the role",
        ),
        pytest.param({"role": 7}, Message("", '{"role":7}'), id="a role of a wrong type"),
    ],
)
def test_a_malformed_message_does_not_spoil_the_others(sent: Any, expected: Message) -> None:
    hello = {"role": "user", "content": "hi"}
    call = chat(messages=[hello, sent, hello])
    assert call.dialect == "openai_chat"
    assert call.messages == [Message("user", "hi"), expected, Message("user", "hi")]


def test_images_are_told_apart_by_digest_and_never_shown() -> None:
    def picture(url: str) -> str:
        part = {"type": "image_url", "image_url": {"url": url, "detail": "low"}}
        return message(role="user", content=[{"type": "text", "text": "what?"}, part]).text

    one, other = picture("data:image/png;base64,AAAA"), picture("data:image/png;base64,BBBB")
    assert one.startswith("what?\n[image_url ")
    assert "AAAA" not in one
    assert one == picture("data:image/png;base64,AAAA")
    assert one != other


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        pytest.param({"model": "m"}, ("m", False, "", ()), id="only a model"),
        pytest.param(
            {"model": None, "stream": None, "user": None, "tools": None, "functions": None},
            ("", False, "", ()),
            id="nulls are as good as absent",
        ),
        pytest.param(
            {
                "model": "m",
                "stream": True,
                "user": "u1",
                "tools": [
                    {"type": "function", "function": {"name": "search", "parameters": {}}},
                    {"type": "custom", "custom": {"name": "sql"}},
                ],
            },
            ("m", True, "u1", ("search", "sql")),
            id="everything",
        ),
        pytest.param({"user": 17}, ("", False, "17", ()), id="a user id sent as a number"),
        pytest.param(
            {"functions": [{"name": "f"}]}, ("", False, "", ("f",)), id="legacy functions"
        ),
        pytest.param(
            {"tools": ["x", 1, {"function": 3}, {"name": ["f"]}]},
            ("", False, "", ("function",)),
            id="tools that make no sense",
        ),
        pytest.param({"tools": "all"}, ("", False, "", ()), id="tools of a wrong type"),
    ],
)
def test_reads_the_fields_around_the_messages(fields: Any, expected: Any) -> None:
    call = chat(messages=[], **fields)
    assert (call.model, call.stream, call.user, call.tools) == expected
    assert call.generates


def test_azure_names_the_model_in_the_path() -> None:
    path = "/openai/deployments/gpt-prod/chat/completions"
    assert chat(path, messages=[]).model == "gpt-prod"
    assert chat(path, messages=[], model="gpt-5").model == "gpt-5"


@pytest.mark.parametrize(
    ("sent", "text"),
    [
        pytest.param(b'"cut \\ud83d"', "cut \ufffd", id="half an emoji"),
        pytest.param(b'"cut \\udc00 off"', "cut \ufffd off", id="the other half"),
        pytest.param(b'"fine","score":NaN', "fine", id="not a number"),
    ],
)
def test_what_is_nearly_json_does_not_hide_the_conversation(sent: bytes, text: str) -> None:
    body = b'{"messages":[{"role":"tool","tool_call_id":"c","content":%b}]}' % sent
    call = read(Request(path=CHAT, body=body))
    assert call.messages == [Message("tool", results=(ToolResult("c", text),))]


def test_invalid_utf_8_in_a_message_is_read_as_its_json() -> None:
    call = read(Request(path=CHAT, body=b'{"messages":[{"role":"user","content":"\xff"}]}'))
    assert call.messages == [
        Message("user", '{"content":"\N{REPLACEMENT CHARACTER}","role":"user"}')
    ]
