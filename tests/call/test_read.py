"""How the dialect of a request is told, and that nothing makes reading fail."""

from __future__ import annotations

import json

import pytest

from looptrap.call.model import Request
from looptrap.call.read import read

MESSAGES = b'{"model":"m","messages":[{"role":"user","content":"hi"}]}'
PROMPT = b'{"model":"m","prompt":"hi"}'
INPUT = b'{"model":"m","input":"hi"}'
CONTENTS = b'{"contents":[{"parts":[{"text":"hi"}]}]}'


@pytest.mark.parametrize(
    ("path", "body", "dialect", "generates"),
    [
        ("/v1/chat/completions", MESSAGES, "openai_chat", True),
        ("/chat/completions", MESSAGES, "openai_chat", True),
        ("/v1/chat/completions/", MESSAGES, "openai_chat", True),
        ("/api/v1/chat/completions", MESSAGES, "openai_chat", True),
        ("/openai/deployments/x/chat/completions", MESSAGES, "openai_chat", True),
        ("/v1/completions", PROMPT, "openai_completions", True),
        ("/v1/responses", INPUT, "openai_responses", True),
        ("/openai/v1/responses", INPUT, "openai_responses", True),
        ("/v1/responses/input_tokens", INPUT, "openai_responses", False),
        ("/v1/embeddings", INPUT, "openai_embeddings", False),
        ("/v1/messages", MESSAGES, "anthropic", True),
        ("/anthropic/v1/messages", MESSAGES, "anthropic", True),
        ("/v1/messages/count_tokens", MESSAGES, "anthropic", False),
        ("/v1/x/models/claude:rawPredict", MESSAGES, "anthropic", True),
        ("/v1/x/models/claude:streamRawPredict", MESSAGES, "anthropic", True),
        ("/v1beta/models/g:generateContent", CONTENTS, "gemini", True),
        ("/v1beta/models/g:streamGenerateContent", CONTENTS, "gemini", True),
        ("/v1beta/models/g:countTokens", CONTENTS, "gemini", False),
        ("/v1/chat/completions/chatcmpl-1", MESSAGES, "http", False),
        ("/v1/messages/batches", MESSAGES, "http", False),
        ("/v1/threads/t/messages", b'{"role":"user","content":"hi"}', "http", False),
        ("/v1/models", b"", "http", False),
        ("/", b"", "http", False),
        ("", b"", "http", False),
        ("completions", MESSAGES, "openai_chat", True),
        ("/v1beta/models/g:predict", CONTENTS, "http", False),
    ],
)
def test_the_end_of_the_path_and_the_shape_tell(
    path: str, body: bytes, dialect: str, generates: bool
) -> None:
    call = read(Request(path=path, body=body))
    assert (call.dialect, call.generates) == (dialect, generates)


@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT", "DELETE", "OPTIONS"])
def test_only_a_post_generates(method: str) -> None:
    call = read(Request(method=method, path="/v1/chat/completions", body=MESSAGES))
    assert (call.dialect, call.generates) == ("http", False)


DEEP = 5_000


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b'{"messages":[', id="cut off"),
        pytest.param(b"[]", id="a list"),
        pytest.param(b"null", id="null"),
        pytest.param(b'"messages"', id="a string"),
        pytest.param(b"{}", id="an empty object"),
        pytest.param(b'{"messages":{}}', id="messages of a wrong type"),
        pytest.param(b'{"messages":null}', id="messages that are null"),
        pytest.param(b'{"messages":[],"model":5}', id="a model of a wrong type"),
        pytest.param(b'{"messages":[]}}', id="something after the end"),
        pytest.param(b"\xff\xfe", id="no text at all"),
        pytest.param(b"\x1f\x8b\x08", id="compressed"),
        pytest.param(b"[" * DEEP + b"]" * DEEP, id="thousands of nested arrays"),
        pytest.param(
            b'{"messages":[' + b"[" * DEEP + b"]" * DEEP + b"]}", id="nested arrays for a message"
        ),
        pytest.param(
            b'{"messages":[],"x":' + b'{"a":' * DEEP + b"1" + b"}" * DEEP + b"}",
            id="nested objects beside the messages",
        ),
    ],
)
@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/messages"])
def test_what_fits_no_dialect_is_plain_http(path: str, body: bytes) -> None:
    call = read(Request(path=path, body=body))
    assert (call.dialect, call.generates) == ("http", False)
    assert (call.messages, call.tail(3), call.tools, call.tool_uses()) == ([], [], (), [])


ARGUMENTS = [
    pytest.param('{"a":1,"a":2}', '{"a":2}', id="a key twice"),
    pytest.param("123456789012345678901234567890", "123456789012345678901234567890", id="big"),
    pytest.param("1e999", "1e999", id="beyond floats"),
    pytest.param('{"a":NaN}', '{"a":NaN}', id="not a number"),
    pytest.param('"\\ud800"', '"\\ud800"', id="a lone surrogate"),
    pytest.param("[" * DEEP, "[" * DEEP, id="deep and broken"),
    pytest.param("[" * DEEP + "]" * DEEP, "[" * DEEP + "]" * DEEP, id="deep"),
    pytest.param(" \n", "{}", id="blank"),
]


@pytest.mark.parametrize(("sent", "expected"), ARGUMENTS)
def test_no_arguments_are_too_odd(sent: str, expected: str) -> None:
    function = {"name": "f", "arguments": sent}
    message = {"role": "assistant", "tool_calls": [{"id": "c", "function": function}]}
    body = json.dumps({"messages": [message]}).encode()
    (read_message,) = read(Request(path="/v1/chat/completions", body=body)).messages
    assert read_message.calls[0].arguments == expected
