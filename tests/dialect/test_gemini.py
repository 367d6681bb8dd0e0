"""generateContent bodies, as Google's clients send them, read into neutral form."""

from __future__ import annotations

import json
from typing import Any

import pytest

from looptrap.dialect.model import Call, Message, Request, ToolCall, ToolResult
from looptrap.dialect.registry import read

PATH = "/v1beta/models/gemini-3-pro:generateContent"


def generate(path: str = PATH, **body: Any) -> Call:
    return read(Request(path=path, body=json.dumps(body).encode()))


def content(sent: Any) -> Message:
    return generate(contents=[sent]).messages[0]


def response(**response: Any) -> dict[str, Any]:
    return {"functionResponse": {"name": "f", "response": response}}


def result(text: str, *, is_error: bool = False) -> Message:
    return Message("tool", results=(ToolResult("", text, is_error, "f"),))


@pytest.mark.parametrize(
    ("sent", "expected"),
    [
        pytest.param(
            {"role": "user", "parts": [{"text": "a"}, {"text": "b"}]},
            Message("user", "a\nb"),
            id="text parts are joined",
        ),
        pytest.param({"parts": [{"text": "a"}]}, Message("user", "a"), id="no role is a user's"),
        pytest.param("a", Message("user", "a"), id="a bare string"),
        pytest.param({"text": "a"}, Message("user", "a"), id="a bare part"),
        pytest.param(
            {"role": "model", "parts": [{"text": "a"}]},
            Message("assistant", "a"),
            id="the model is the assistant",
        ),
        pytest.param(
            {"role": "model", "parts": [{"text": "hmm", "thought": True}, {"text": "a"}]},
            Message("assistant", "a"),
            id="thoughts are left out",
        ),
        pytest.param(
            {
                "role": "model",
                "parts": [
                    {
                        "functionCall": {"name": "f", "args": {"q": 1, "a": 2}},
                        "thoughtSignature": "x",
                    }
                ],
            },
            Message("assistant", "", (ToolCall("", "f", '{"a":2,"q":1}'),)),
            id="a function is called",
        ),
        pytest.param(
            {"role": "model", "parts": [{"function_call": {"id": "1", "name": "f"}}]},
            Message("assistant", "", (ToolCall("1", "f", "{}"),)),
            id="in snake case, without arguments",
        ),
        pytest.param({"role": "user", "parts": [response(output="4")]}, result("4"), id="output"),
        pytest.param(
            {"role": "function", "parts": [response(result="4")]}, result("4"), id="result"
        ),
        pytest.param(
            {"role": "user", "parts": [response(z=1, a=[2])]},
            result('{"a":[2],"z":1}'),
            id="object",
        ),
        pytest.param(
            {"role": "user", "parts": [response(error="no")]},
            result("no", is_error=True),
            id="an error",
        ),
        pytest.param(
            {"role": "user", "parts": [response(output="4", error=None)]},
            result('{"error":null,"output":"4"}'),
            id="no error",
        ),
        pytest.param(
            {"parts": [{"function_response": {"name": "f", "id": "1", "response": {}}}]},
            Message("tool", results=(ToolResult("1", "{}", name="f"),)),
            id="a response in snake case",
        ),
        pytest.param(
            {"role": "user", "parts": [response(output="4"), {"text": "go on"}]},
            Message("user", "go on", results=(ToolResult("", "4", name="f"),)),
            id="a result with words beside it comes from the user",
        ),
        pytest.param({"role": "user", "parts": None}, Message("user"), id="no parts"),
        pytest.param(
            {"role": "user", "parts": 5},
            Message("user", '{"parts":5,"role":"user"}'),
            id="bad parts",
        ),
        pytest.param(5, Message("", "5"), id="a number"),
    ],
)
def test_reads_a_content(sent: Any, expected: Message) -> None:
    assert content(sent) == expected


def test_images_are_told_apart_by_digest() -> None:
    def image(data: str) -> str:
        return content({"parts": [{"inlineData": {"mimeType": "image/png", "data": data}}]}).text

    assert image("A").startswith("[inlineData ")
    assert image("A") == image("A") != image("B")


def test_images_in_a_result_are_told_apart_by_digest() -> None:
    def text(data: str) -> str:
        part = response(output="see")
        part["functionResponse"]["parts"] = [{"inlineData": {"data": data}}]
        return content({"parts": [part]}).results[0].text

    assert text("A").startswith("see\n[parts ")
    assert text("A") == text("A") != text("B")


@pytest.mark.parametrize("field", ["systemInstruction", "system_instruction"])
@pytest.mark.parametrize(
    "instruction",
    [
        pytest.param({"parts": [{"text": "Be brief."}]}, id="a content"),
        pytest.param(
            {"role": "user", "parts": [{"text": "Be brief."}]}, id="a content with a role"
        ),
        pytest.param({"text": "Be brief."}, id="a part"),
        pytest.param("Be brief.", id="a string"),
    ],
)
def test_the_system_instruction_leads(field: str, instruction: Any) -> None:
    call = generate(**{field: instruction}, contents=[{"parts": [{"text": "hi"}]}])
    assert call.messages == [Message("system", "Be brief."), Message("user", "hi")]


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (PATH, ("gemini-3-pro", False, True)),
        ("/v1beta/models/gemini-3-pro:streamGenerateContent", ("gemini-3-pro", True, True)),
        ("/v1beta/models/gemini-3-pro:countTokens", ("gemini-3-pro", False, False)),
        ("/v1beta/models/gemini-3-pro%3AgenerateContent", ("gemini-3-pro", False, True)),
        (
            "/v1/projects/p/locations/l/publishers/google/models/g:generateContent",
            ("g", False, True),
        ),
        ("/v1/projects/p/locations/l/endpoints/17:streamGenerateContent", ("17", True, True)),
    ],
)
def test_the_path_tells_model_and_streaming(path: str, expected: tuple[str, bool, bool]) -> None:
    call = generate(path, contents=[])
    assert call.dialect == "gemini"
    assert (call.model, call.stream, call.generates) == expected


def test_reads_the_tools_offered() -> None:
    tools = [
        {"functionDeclarations": [{"name": "a"}, {"name": "b"}]},
        {"function_declarations": [{"name": "c"}]},
        {"googleSearch": {}},
    ]
    assert generate(contents=[], tools=tools).tools == ("a", "b", "c", "googleSearch")


def test_cached_content_is_history_the_call_continues() -> None:
    assert generate(contents=[], cachedContent="cachedContents/1").chain == "cachedContents/1"
