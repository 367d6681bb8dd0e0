"""How the dialect of a request is told, and that nothing makes reading fail."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.dialect.tool_uses import tool_uses

from looptrap.dialect.model import Call, Message, Request, ToolCall, ToolResult
from looptrap.dialect.output_limit import max_output
from looptrap.dialect.registry import is_unreadable, read

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
        ("/v1beta/interactions", INPUT, "gemini_interactions", True),
        ("/v1beta1/projects/p/locations/l/interactions", INPUT, "gemini_interactions", True),
        ("/v1/chat/completions/chatcmpl-1", MESSAGES, "http", False),
        ("/v1/responses/compact", INPUT, "openai_responses", True),
        ("/model/anthropic.claude/converse", MESSAGES, "http", True),
        ("/model/anthropic.claude/converse-stream", MESSAGES, "http", True),
        ("/model/anthropic.claude/invoke", MESSAGES, "http", True),
        ("/v1/threads/t/messages", b'{"role":"user","content":"hi"}', "http", False),
        ("/v1/models", b"", "http", False),
        ("/", b"", "http", False),
        ("", b"", "http", False),
        ("completions", MESSAGES, "openai_chat", True),
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


@pytest.mark.parametrize(
    ("method", "headers"),
    [("post", ()), ("GET", [(b"x-http-method-override", b"POST")])],
    ids=["in lower case", "in a header"],
)
def test_what_a_lenient_server_takes_for_a_post_is_one(method: str, headers: Any) -> None:
    call = read(Request(method, "/v1/chat/completions", headers=headers, body=MESSAGES))
    assert call.generates


SPELLINGS = [
    "/v1/Chat/Completions",
    "/v1/chat/completions/.",
    "/v1/chat/completions/x/..",
    "//v1//chat//completions//",
    "/v1/chat;a=b/completions;c=d",
    "/v1/chat/complet%69ons",
    "/v1/chat%2fcompletions",
    "/v1/chat/completions/%2e",
    "/v1/chat/completions/%252e",
    "/v1/chat/x/%2e%2e/completions",
    "/v1/chat\\completions",
    "/v1/chat/completions%00",
    "/v1/chat/completions%20",
    "/v1/chat/completions%3fa=b",
]


@pytest.mark.parametrize("path", SPELLINGS)
def test_a_path_is_read_however_it_is_spelled(path: str) -> None:
    call = read(Request(path=path, body=MESSAGES))
    assert (call.dialect, call.model, call.is_opaque) == ("openai_chat", "m", False)


@pytest.mark.parametrize(
    ("path", "model"),
    [
        ("/v1beta/models/g:generateContent/.", "g"),
        ("/v1beta//models/g:GenerateContent;x=y", "g"),
        ("/v1beta/models/a%2Fb:generateContent", "a/b"),
    ],
)
def test_a_model_is_found_however_its_path_is_spelled(path: str, model: str) -> None:
    assert read(Request(path=path, body=CONTENTS)).model == model


DEEP = 5_000
TEXT = MESSAGES.decode()
NESTED = b'{"a":' * DEEP + b"1" + b"}" * DEEP


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"\xef\xbb\xbf" + MESSAGES, id="a byte-order mark"),
        *(
            pytest.param(TEXT.encode(encoding), id=encoding)
            for encoding in (
                "utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le", "utf-32-be",
            )
        ),
        pytest.param(MESSAGES[:-1] + b',"user":1e400}', id="a number beyond floats"),
        pytest.param(MESSAGES[:-1] + b',"user":%b}' % (b"9" * 5000), id="a number beyond integers"),
        pytest.param(MESSAGES[:-1] + b',"user":NaN}', id="not a number"),
        pytest.param(MESSAGES[:-1] + b',"x":%b}' % NESTED, id="depth in an unknown field"),
        pytest.param(MESSAGES[:-1] + b',"x":"\n"}', id="a control character"),
        pytest.param(MESSAGES[:-1] + b',"x":"\\ud83d"}', id="half a character"),
        pytest.param(MESSAGES[:-1] + b',"x":"\xff"}', id="a byte that is no UTF-8"),
    ],
)  # fmt: skip
def test_what_a_lenient_decoder_reads_is_read(body: bytes) -> None:
    call = read(Request(path="/v1/chat/completions", body=body))
    assert (call.dialect, call.model, call.is_opaque) == ("openai_chat", "m", False)
    assert [(one.role, one.text) for one in call.messages] == [("user", "hi")]


def test_the_limits_of_a_call_in_another_encoding_are_read_too() -> None:
    body = '{"max_tokens":77,"messages":[]}'.encode("utf-16")
    assert max_output(read(Request(path="/v1/chat/completions", body=body)), 1_000) == 77


def test_the_limits_of_a_call_that_is_nearly_json_are_read_too() -> None:
    body = b'{"max_tokens":77,"messages":[],"x":%b}' % NESTED
    assert max_output(read(Request(path="/v1/chat/completions", body=body)), 1_000) == 77


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
    ],
)
@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/messages", "/v1/responses"])
def test_what_cannot_be_read_is_judged_by_its_bytes(path: str, body: bytes) -> None:
    call, again = (read(Request(path=path, body=body)) for _ in range(2))
    other = read(Request(path=path, body=body + b"!"))
    assert (call.is_opaque, call.generates, is_unreadable(call)) == (True, True, True)
    assert call.messages == again.messages != other.messages
    assert (call.tools, tool_uses(call)) == ((), [])


@pytest.mark.parametrize(
    "path",
    [
        "/v1/batches",
        "/v1/messages/batches",
        "/v1/images/generations",
        "/v1/images/edits",
        "/v1/audio/speech",
        "/v1/audio/transcriptions",
        "/v1/videos",
        "/v1/threads/t/runs",
        "/v1beta/models/g:predict",
        "/v1beta/models/g:batchGenerateContent",
    ],
)
def test_an_endpoint_that_costs_money_and_has_no_reader_is_judged_by_bytes(path: str) -> None:
    call = read(Request(path=path, body=MESSAGES))
    assert (call.dialect, call.is_opaque, call.generates) == ("http", True, True)
    assert not is_unreadable(call)


@pytest.mark.parametrize(
    ("path", "body"),
    [
        pytest.param("/v1/messages/count_tokens", b"{", id="a count costs nothing"),
        pytest.param("/v1/threads/t/messages", MESSAGES, id="a message that is only kept"),
        pytest.param("/messages", b'{"jsonrpc":"2.0","method":"ping","id":1}', id="JSON-RPC"),
        pytest.param("/v1/files", b"\xff", id="a file"),
        pytest.param("/chain/invoke", b'{"input":"hi"}', id="somebody else's invoke"),
    ],
)
def test_what_costs_nothing_stays_plain_http(path: str, body: bytes) -> None:
    call = read(Request(path=path, body=body))
    assert (call.dialect, call.is_opaque, call.generates) == ("http", False, False)


def test_other_shapes_are_usual_where_any_model_can_be_invoked() -> None:
    call = read(Request(path="/model/amazon.titan/invoke", body=b'{"inputText":"hi"}'))
    assert (call.is_opaque, call.generates, is_unreadable(call)) == (True, True, False)


def test_json_rpc_does_not_hide_a_call_of_a_model() -> None:
    body = b'{"jsonrpc":"2.0","method":"ping","messages":{"role":"user"}}'
    assert read(Request(path="/v1/messages", body=body)).is_opaque


def test_a_body_that_was_not_sent_along_is_not_taken_for_an_unreadable_one() -> None:
    assert not read(Request(path="/v1/chat/completions", lacks_body=True)).is_opaque


def test_forms_that_differ_in_their_boundary_only_are_the_same() -> None:
    def form(boundary: bytes) -> Call:
        headers = [(b"content-type", b"multipart/form-data; boundary=" + boundary)]
        body = b"--%b\r\nx\r\n--%b--" % (boundary, boundary)
        return read(Request(path="/v1/audio/transcriptions", headers=headers, body=body))

    assert form(b"abc").messages == form(b"xyz").messages


def test_messages_of_converse_are_read() -> None:
    body = {
        "system": [{"text": "Be brief."}],
        "messages": [
            {"role": "user", "content": [{"text": "Hi"}]},
            {
                "role": "assistant",
                "content": [
                    {"reasoningContent": {"reasoningText": {"text": "hm"}}},
                    {"toolUse": {"toolUseId": "t1", "name": "look", "input": {"b": 1, "a": 2}}},
                ],
            },
            {
                "role": "user",
                "content": [
                    {
                        "toolResult": {
                            "toolUseId": "t1",
                            "content": [{"text": "no"}, {"json": {"x": 1}}],
                            "status": "error",
                        }
                    }
                ],
            },
        ],
        "toolConfig": {"tools": [{"toolSpec": {"name": "look"}}]},
    }
    call = read(Request(path="/model/a.b:1/converse", body=json.dumps(body).encode()))
    assert (call.model, call.tools) == ("a.b:1", ("look",))
    assert call.messages[1:] == [
        Message("user", "Hi"),
        Message("assistant", "", (ToolCall("t1", "look", '{"a":2,"b":1}'),)),
        Message("tool", "", (), (ToolResult("t1", 'no\n{"x":1}', is_error=True),)),
    ]


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
