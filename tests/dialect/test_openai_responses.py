"""Responses bodies, as OpenAI's clients send them, read into neutral form."""

from __future__ import annotations

import json
from typing import Any

import pytest

from looptrap.dialect.model import Call, Message, Request, ToolCall, ToolResult
from looptrap.dialect.registry import read


def responses(path: str = "/v1/responses", **body: Any) -> Call:
    return read(Request(path=path, body=json.dumps(body).encode()))


def item(**sent: Any) -> Message:
    return responses(input=[sent]).messages[0]


def called(name: str, arguments: str, *, call_id: str = "c") -> Message:
    return Message("assistant", "", (ToolCall(call_id, name, arguments),))


def answered(text: str, *, is_error: bool = False) -> Message:
    return Message("tool", "", (), (ToolResult("c", text, is_error),))


@pytest.mark.parametrize(
    ("sent", "expected"),
    [
        pytest.param(
            {"role": "user", "content": "hi"}, Message("user", "hi"), id="an easy message"
        ),
        pytest.param(
            {
                "type": "message",
                "id": "msg_1",
                "status": "completed",
                "role": "assistant",
                "content": [{"type": "output_text", "text": "so", "annotations": []}],
            },
            Message("assistant", "so"),
            id="an output message sent back",
        ),
        pytest.param(
            {"role": "developer", "content": [{"type": "input_text", "text": "Be brief."}]},
            Message("system", "Be brief."),
            id="the developer is the system",
        ),
        pytest.param(
            {
                "type": "function_call",
                "id": "fc_1",
                "call_id": "c",
                "name": "search",
                "arguments": '{"q": 1, "a": 2}',
            },
            called("search", '{"a":2,"q":1}'),
            id="a function is called",
        ),
        pytest.param(
            {"type": "function_call_output", "call_id": "c", "output": "42"},
            answered("42"),
            id="a function answers",
        ),
        pytest.param(
            {
                "type": "function_call_output",
                "call_id": "c",
                "output": [
                    {"type": "input_text", "text": "4"},
                    {"type": "input_text", "text": "2"},
                ],
            },
            answered("4\n2"),
            id="a function answers in parts",
        ),
        pytest.param(
            {"type": "custom_tool_call", "call_id": "c", "name": "sql", "input": '{ "a": 1}'},
            called("sql", '{ "a": 1}'),
            id="a custom tool takes free text",
        ),
        pytest.param(
            {"type": "custom_tool_call_output", "call_id": "c", "output": "ok"},
            answered("ok"),
            id="a custom tool answers",
        ),
        pytest.param(
            {
                "type": "computer_call",
                "id": "cu_1",
                "call_id": "c",
                "status": "completed",
                "action": {"type": "click", "x": 1, "button": "left"},
            },
            called("computer", '{"button":"left","type":"click","x":1}'),
            id="a click",
        ),
        pytest.param(
            {"type": "local_shell_call", "id": "c", "action": {"type": "exec", "command": ["ls"]}},
            called("local_shell", '{"command":["ls"],"type":"exec"}'),
            id="a shell command",
        ),
        pytest.param(
            {
                "type": "shell_call_output",
                "call_id": "c",
                "output": [
                    {"stderr": "no", "stdout": "", "outcome": {"type": "exit", "exit_code": 1}}
                ],
            },
            answered('{"outcome":{"exit_code":1,"type":"exit"},"stderr":"no","stdout":""}'),
            id="a shell answers",
        ),
        pytest.param(
            {
                "type": "apply_patch_call_output",
                "call_id": "c",
                "status": "failed",
                "output": "no such file",
            },
            answered("no such file", is_error=True),
            id="a patch fails",
        ),
        pytest.param(
            {
                "type": "mcp_call",
                "id": "c",
                "server_label": "s",
                "name": "roll",
                "arguments": '{"dice": "2d4"}',
                "output": "7",
                "error": None,
            },
            Message(
                "assistant",
                "",
                (ToolCall("c", "roll", '{"dice":"2d4"}'),),
                (ToolResult("c", "7"),),
            ),
            id="a remote tool keeps its result",
        ),
        pytest.param(
            {
                "type": "mcp_call",
                "id": "c",
                "server_label": "s",
                "name": "roll",
                "arguments": "{}",
                "output": None,
                "error": "no dice",
            },
            Message(
                "assistant",
                "",
                (ToolCall("c", "roll", "{}"),),
                (ToolResult("c", "no dice", is_error=True),),
            ),
            id="a remote tool fails",
        ),
        pytest.param(
            {"type": "web_search_call", "id": "c", "action": {"type": "search", "query": "x"}},
            called("web_search", '{"query":"x","type":"search"}'),
            id="a search by the provider",
        ),
        pytest.param(
            {
                "type": "reasoning",
                "id": "rs_1",
                "summary": [{"type": "summary_text", "text": "hmm"}],
                "encrypted_content": "gAAAA",
            },
            Message("assistant"),
            id="thoughts are left out",
        ),
        pytest.param({"type": 5}, Message("", '{"type":5}'), id="a kind of a wrong type"),
        pytest.param(
            {"role": "user", "content": 5},
            Message("user", '{"content":5,"role":"user"}'),
            id="content of a wrong type",
        ),
        pytest.param(
            {"role": 5, "content": "x"}, Message("", '{"content":"x","role":5}'), id="a wrong role"
        ),
    ],
)
def test_reads_an_item(sent: dict[str, Any], expected: Message) -> None:
    assert item(**sent) == expected


def test_references_differ_by_what_they_refer_to() -> None:
    one = item(type="item_reference", id="msg_1")
    assert one == item(id="msg_1")
    assert one != item(id="msg_2")
    assert one.text.startswith("[item_reference ")


def test_a_person_approving_a_call_has_spoken() -> None:
    approval = item(type="mcp_approval_response", approval_request_id="mcpr_1", approve=True)
    assert approval.role == "user"


def test_screenshots_are_told_apart_by_digest() -> None:
    def screenshot(data: str) -> str:
        output = {"type": "computer_screenshot", "image_url": f"data:image/png;base64,{data}"}
        return item(type="computer_call_output", call_id="c", output=output).results[0].text

    assert screenshot("A") == screenshot("A") != screenshot("B")


def test_a_string_is_what_the_user_says() -> None:
    call = responses(input='say "hi"\n', instructions="Be brief.")
    assert call.messages == [Message("system", "Be brief."), Message("user", 'say "hi"\n')]


def test_a_stored_prompt_speaks_as_the_system() -> None:
    def prompt(name: str) -> list[Message]:
        return responses(prompt={"id": "pmpt_1", "variables": {"name": name}}).messages

    (message,) = prompt("Ada")
    assert message.role == "system"
    assert prompt("Ada") != prompt("Bob")


REASONING = {"type": "reasoning", "id": "rs", "summary": []}
SAYS = {"role": "assistant", "content": "Let me look."}
CALLS_A = {"type": "function_call", "call_id": "a", "name": "f", "arguments": "{}"}
CALLS_B = {"type": "function_call", "call_id": "b", "name": "g", "arguments": "{}"}
GETS_A = {"type": "function_call_output", "call_id": "a", "output": "1"}
GETS_B = {"type": "function_call_output", "call_id": "b", "output": "2"}
USES_REMOTE = {"type": "mcp_call", "id": "m", "name": "h", "arguments": "{}", "output": "3"}


def test_one_turn_scattered_over_items_is_one_message() -> None:
    call = responses(input=[REASONING, SAYS, CALLS_A, CALLS_B, GETS_A, GETS_B])
    turn = Message(
        "assistant", "Let me look.", (ToolCall("a", "f", "{}"), ToolCall("b", "g", "{}"))
    )
    results = [Message("tool", "", (), (ToolResult(i, t),)) for i, t in (("a", "1"), ("b", "2"))]
    assert call.messages == [turn, *results]
    assert call.tail(3) == call.messages


def test_a_result_ends_the_turn() -> None:
    call = responses(input=[USES_REMOTE, REASONING, USES_REMOTE, SAYS])
    assert [len(message.calls) for message in call.messages] == [1, 1, 0]
    assert call.messages[-1].text == "Let me look."


@pytest.mark.parametrize(
    ("fields", "chain"),
    [
        pytest.param({"previous_response_id": "resp_1"}, "resp_1", id="a response"),
        pytest.param({"conversation": "conv_1"}, "conv_1", id="a conversation"),
        pytest.param({"conversation": {"id": "conv_1"}}, "conv_1", id="a conversation's object"),
        pytest.param({"previous_response_id": None, "conversation": None}, "", id="nulls"),
        pytest.param({}, "", id="nothing"),
    ],
)
def test_knows_the_chain_it_continues(fields: dict[str, Any], chain: str) -> None:
    assert responses(input="hi", **fields).chain == chain


def test_reads_the_fields_around_the_items() -> None:
    tools = [{"type": "function", "name": "search", "parameters": {}}, {"type": "web_search"}]
    call = responses(model="gpt-5", input=[], stream=True, user="u1", tools=tools)
    assert (call.model, call.stream, call.user) == ("gpt-5", True, "u1")
    assert call.tools == ("search", "web_search")
    assert call.generates


def test_a_built_in_tool_is_called_without_its_version() -> None:
    kinds = ["computer_use_preview", "web_search_preview_2025_03_11", "local_shell"]
    call = responses(input="hi", tools=[{"type": kind} for kind in kinds])
    assert {"computer", "web_search", "local_shell"} <= set(call.tools)


@pytest.mark.parametrize(
    "body", [{}, {"input": 5}, {"input": None}, {"input": {"role": "user"}}, {"prompt": None}]
)
def test_a_body_without_input_is_not_read(body: dict[str, Any]) -> None:
    call = responses(model="gpt-5", **body)
    assert (call.dialect, call.model, call.is_opaque) == ("openai_responses", "gpt-5", True)


def test_counting_tokens_generates_nothing() -> None:
    call = responses("/v1/responses/input_tokens", model="gpt-5", input="hi")
    assert (call.dialect, call.model, call.generates) == ("openai_responses", "gpt-5", False)
