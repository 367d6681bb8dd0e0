"""Messages bodies, as Anthropic's clients send them, read into neutral form."""

from __future__ import annotations

import json
from typing import Any

import pytest

from looptrap.dialect.model import Call, Message, Request, ToolCall, ToolResult
from looptrap.dialect.registry import read


def messages(path: str = "/v1/messages", **body: Any) -> Call:
    return read(Request(path=path, body=json.dumps(body).encode()))


def message(role: str, *blocks: Any) -> Message:
    return messages(messages=[{"role": role, "content": list(blocks)}]).messages[0]


TEXT = {"type": "text", "text": "so"}


@pytest.mark.parametrize(
    ("role", "blocks", "expected"),
    [
        pytest.param("user", [TEXT, TEXT], Message("user", "so\nso"), id="text blocks are joined"),
        pytest.param(
            "assistant",
            [
                TEXT,
                {
                    "type": "tool_use",
                    "id": "toolu_1",
                    "name": "search",
                    "input": {"q": 1, "a": "b"},
                },
            ],
            Message("assistant", "so", (ToolCall("toolu_1", "search", '{"a":"b","q":1}'),)),
            id="a tool is called",
        ),
        pytest.param(
            "user",
            [{"type": "tool_result", "tool_use_id": "toolu_1", "content": "42"}],
            Message("tool", results=(ToolResult("toolu_1", "42"),)),
            id="nothing but a result comes from the tool",
        ),
        pytest.param(
            "user",
            [{"type": "tool_result", "tool_use_id": "t", "content": [TEXT, TEXT]}, TEXT],
            Message("user", "so", results=(ToolResult("t", "so\nso"),)),
            id="a result with words beside it comes from the user",
        ),
        pytest.param(
            "user",
            [{"type": "tool_result", "tool_use_id": "t", "content": "no", "is_error": True}],
            Message("tool", results=(ToolResult("t", "no", is_error=True),)),
            id="an error",
        ),
        pytest.param(
            "user",
            [{"type": "tool_result", "tool_use_id": "t"}],
            Message("tool", results=(ToolResult("t", ""),)),
            id="an empty result",
        ),
        pytest.param(
            "assistant",
            [
                {"type": "thinking", "thinking": "hmm", "signature": "EqQB"},
                {"type": "redacted_thinking", "data": "EmwK"},
                TEXT,
            ],
            Message("assistant", "so"),
            id="thoughts are left out",
        ),
        pytest.param(
            "assistant",
            [
                {
                    "type": "server_tool_use",
                    "id": "s",
                    "name": "web_search",
                    "input": {"query": "x"},
                },
                {
                    "type": "web_search_tool_result",
                    "tool_use_id": "s",
                    "content": {
                        "type": "web_search_tool_result_error",
                        "error_code": "max_uses_exceeded",
                    },
                },
            ],
            Message(
                "assistant",
                calls=(ToolCall("s", "web_search", '{"query":"x"}'),),
                results=(ToolResult("s", "max_uses_exceeded", is_error=True),),
            ),
            id="the server's own tool fails",
        ),
        pytest.param("user", ["loose", 5], Message("user", "loose\n5"), id="blocks that are none"),
    ],
)
def test_reads_a_message(role: str, blocks: list[Any], expected: Message) -> None:
    assert message(role, *blocks) == expected


@pytest.mark.parametrize(
    ("system", "expected"),
    [
        pytest.param("Be brief.", [Message("system", "Be brief.")], id="a string"),
        pytest.param([TEXT, TEXT], [Message("system", "so\nso")], id="blocks"),
        pytest.param(None, [], id="null"),
    ],
)
def test_the_system_prompt_leads(system: Any, expected: list[Message]) -> None:
    call = messages(system=system, messages=[{"role": "user", "content": "hi"}])
    assert call.messages == [*expected, Message("user", "hi")]


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        pytest.param({"model": "claude"}, ("claude", False, "", ()), id="only a model"),
        pytest.param(
            {"model": None, "stream": None, "metadata": None, "tools": None},
            ("", False, "", ()),
            id="nulls are as good as absent",
        ),
        pytest.param(
            {
                "model": "claude",
                "stream": True,
                "metadata": {"user_id": "u1"},
                "tools": [
                    {"name": "search", "input_schema": {}},
                    {"type": "web_search_20250305", "name": "web_search"},
                ],
            },
            ("claude", True, "u1", ("search", "web_search")),
            id="everything",
        ),
        pytest.param({"metadata": {"user_id": None}}, ("", False, "", ()), id="no user"),
    ],
)
def test_reads_the_fields_around_the_messages(fields: Any, expected: Any) -> None:
    call = messages(messages=[], **fields)
    assert (call.model, call.stream, call.user, call.tools) == expected
    assert call.generates


@pytest.mark.parametrize(("method", "streams"), [("rawPredict", False), ("streamRawPredict", True)])
def test_vertex_names_the_model_in_the_path(method: str, streams: bool) -> None:
    path = f"/v1/projects/p/locations/l/publishers/anthropic/models/claude-x@20250101:{method}"
    call = messages(path, anthropic_version="vertex-2023-10-16", messages=[])
    assert (call.dialect, call.model, call.stream) == ("anthropic", "claude-x@20250101", streams)


@pytest.mark.parametrize(
    "path",
    [
        "/v1/messages/count_tokens",
        "/v1/projects/p/locations/l/publishers/anthropic/models/count-tokens:rawPredict",
    ],
)
def test_counting_tokens_generates_nothing(path: str) -> None:
    call = messages(path, model="claude", messages=[{"role": "user", "content": "hi"}])
    assert (call.dialect, call.model, call.generates) == ("anthropic", "claude", False)


def test_a_moved_cache_mark_does_not_change_an_image() -> None:
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "A"}}
    marked = image | {"cache_control": {"type": "ephemeral"}}
    assert message("user", image) == message("user", marked)
