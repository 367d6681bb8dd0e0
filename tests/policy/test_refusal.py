"""Refusals and failures: the error shapes, the headers, and what real SDKs make of them."""

import json
from functools import partial

import anthropic
import openai
import pytest
from google.genai import errors as google_errors
from mcp.client.client import Client as McpClient
from mcp.shared.exceptions import MCPError
from tests.dialect.answering import answering, anthropic_at, google_at, openai_at

from looptrap.detect.signals.signal import Evidence
from looptrap.dialect.answer import Answer, failure
from looptrap.dialect.model import Request
from looptrap.dialect.registry import read
from looptrap.policy.action import Action
from looptrap.policy.refusal import refusal
from looptrap.policy.verdict import Verdict

SECRET = "the colour of the secret pump"
MESSAGE = (
    "Blocked (recursive_loop_detected): identical request sent 6 times in 60 seconds."
    " Change the approach, or stop."
)

LOOP = Verdict(
    action=Action.BLOCK,
    reason="loop_detected",
    policy="agents",
    rule="identical-conversation",
    message=MESSAGE,
    count=6,
    fingerprint="v1.abcdef",
    cooldown_left=29.2,
    evidence=(Evidence("conversation", "identical request sent 6 times in 60 seconds", 6),),
)
KILLED = Verdict(
    action=Action.BLOCK, reason="killed", rule="kill-switch", message="Blocked (killed): off."
)
DETAIL = {
    "error": "recursive_loop_detected",
    "message": MESSAGE,
    "fingerprint": "v1.abcdef",
    "hit_count": 6,
    "cooldown_seconds": 30,
    "rule": "identical-conversation",
    "evidence": [
        {
            "signal": "conversation",
            "what": "identical request sent 6 times in 60 seconds",
            "count": 6,
            "ago": 0,
            "confidence": 1.0,
        }
    ],
}

MESSAGES = [{"role": "user", "content": SECRET}]
BODIES = {
    "openai_chat": ("/v1/chat/completions", {"model": "m", "messages": MESSAGES}),
    "openai_responses": ("/v1/responses", {"model": "m", "input": SECRET}),
    "openai_completions": ("/v1/completions", {"model": "m", "prompt": SECRET}),
    "openai_embeddings": ("/v1/embeddings", {"model": "m", "input": SECRET}),
    "anthropic": ("/v1/messages", {"model": "m", "max_tokens": 9, "messages": MESSAGES}),
    "gemini": ("/v1beta/models/m:generateContent", {"contents": [{"parts": [{"text": SECRET}]}]}),
    "gemini_interactions": ("/v1beta/interactions", {"model": "m", "input": SECRET}),
    "mcp": (
        "/mcp",
        {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {"name": SECRET}},
    ),
    "http": ("/search", {"q": SECRET}),
}
OPENAI_SHAPED = sorted(BODIES.keys() - {"anthropic", "gemini", "gemini_interactions", "mcp"})


def call_of(dialect):
    path, body = BODIES[dialect]
    call = read(Request(path=path, body=json.dumps(body).encode()))
    assert call.dialect == dialect
    return call


def refused(dialect, verdict=LOOP, *, shadow=None, block_status=429):
    return refusal(
        call_of(dialect), verdict, shadow=shadow, request_id="req-1", block_status=block_status
    )


def shape(answer):
    return json.loads(answer.body)


@pytest.mark.parametrize("dialect", OPENAI_SHAPED)
def test_openai_and_plain_http_read_error_and_detail(dialect):
    answer = refused(dialect)
    assert answer.status == 429
    assert shape(answer) == {
        "error": {
            "message": MESSAGE,
            "type": "loop_detected",
            "param": None,
            "code": "recursive_loop_detected",
        },
        "detail": DETAIL,
    }


def test_anthropic_reads_its_own_error_with_the_same_detail():
    assert shape(refused("anthropic")) == {
        "type": "error",
        "error": {
            "type": "rate_limit_error",
            "message": MESSAGE,
            "details": {"error_code": "recursive_loop_detected"},
        },
        "detail": DETAIL,
        "request_id": "req-1",
    }


def test_gemini_reads_googles_error_with_the_same_detail():
    body = shape(refused("gemini"))
    assert body["error"]["code"] == 429
    assert body["error"]["status"] == "RESOURCE_EXHAUSTED"
    assert body["error"]["message"] == MESSAGE
    (info,) = body["error"]["details"]
    assert info["reason"] == "RECURSIVE_LOOP_DETECTED"
    assert body["detail"] == DETAIL


def test_mcp_reads_a_json_rpc_error_with_the_detail_as_data():
    answer = refused("mcp")
    assert answer.status == 200
    body = shape(answer)
    assert (body["jsonrpc"], body["id"]) == ("2.0", 7)
    assert body["error"]["message"] == MESSAGE
    assert body["error"]["data"] == DETAIL


ERROR = {"message": MESSAGE, "type": "loop_detected", "param": None}


@pytest.mark.parametrize(
    ("dialect", "agent", "body"),
    [
        pytest.param(
            "gemini", b"GeminiCLI/0.61.0",
            {"error": {"code": 400, "message": MESSAGE, "status": "INVALID_ARGUMENT"}},
            id="Gemini CLI",
        ),
        pytest.param(
            "anthropic", b"claude-cli/0.24.4",
            {
                "type": "error",
                "error": {
                    "type": "invalid_request_error",
                    "message": MESSAGE,
                    "details": {"error_code": "recursive_loop_detected"},
                },
                "request_id": "req-1",
            },
            id="Qwen Code",
        ),
        pytest.param(
            "openai_chat", b"opencode/1.18.33",
            {"error": ERROR | {"code": "recursive_loop_detected"}},
            id="opencode",
        ),
        pytest.param(
            "openai_chat", b"codex_exec/0.169.0",
            {"error": ERROR | {"code": "invalid_prompt"}, "detail": DETAIL},
            id="Codex shows the message only",
        ),
        pytest.param(
            "mcp", b"opencode/1.18.33",
            {"jsonrpc": "2.0", "id": 7, "error": {"code": -32029, "message": MESSAGE}},
            id="tools of opencode",
        ),
    ],
)  # fmt: skip
def test_an_agent_that_shows_or_searches_the_whole_body_gets_a_short_one(dialect, agent, body):
    path, sent = BODIES[dialect]
    headers = [(b"user-agent", agent)]
    call = read(Request(path=path, headers=headers, body=json.dumps(sent).encode()))
    answer = refusal(call, LOOP, shadow=None, request_id="req-1", block_status="auto")
    assert shape(answer) == body


@pytest.mark.parametrize("sent_id", ["seven", 7, 2**70, None], ids=["text", "int", "huge", "null"])
def test_a_json_rpc_id_comes_back_as_it_was_sent(sent_id):
    sent = {"jsonrpc": "2.0", "method": "tools/call", "id": sent_id, "params": {"name": "search"}}
    call = read(Request(path="/mcp", body=json.dumps(sent).encode()))
    answer = refusal(call, LOOP, shadow=None, request_id="r", block_status=429)
    assert shape(answer)["id"] == sent_id


@pytest.mark.parametrize("dialect", BODIES)
def test_nothing_of_the_prompt_is_in_a_refusal(dialect):
    answer = refused(dialect)
    assert SECRET.encode() not in answer.body + b"".join(b"".join(h) for h in answer.headers)


@pytest.mark.parametrize("dialect", BODIES)
def test_headers_say_the_verdict_and_keep_sdks_from_retrying(dialect):
    headers = dict(refused(dialect).headers)
    assert headers[b"X-Looptrap-Verdict"] == b"block"
    assert headers[b"X-Looptrap-Reason"] == b"loop_detected"
    assert headers[b"X-Looptrap-Rule"] == b"identical-conversation"
    assert headers[b"X-Looptrap-Count"] == b"6"
    assert headers[b"Retry-After"] == b"30"
    assert headers[b"x-should-retry"] == b"false"
    assert headers[b"Content-Type"] == b"application/json"
    assert headers[b"X-Request-Id"] == b"req-1"
    assert headers.get(b"request-id") == (b"req-1" if dialect == "anthropic" else None)


@pytest.mark.parametrize("action", [Action.STOP, Action.THROTTLE], ids=["stop", "throttle"])
def test_a_milder_verdict_that_must_refuse_becomes_a_block(action):
    milder = Verdict(
        action=action,
        reason="loop_detected",
        rule="r",
        message="Slowed down: it repeats.",
        count=4,
        evidence=LOOP.evidence,
    )
    answer = refused("openai_chat", milder)
    assert dict(answer.headers)[b"X-Looptrap-Verdict"] == b"block"
    assert dict(answer.headers)[b"x-should-retry"] == b"false"
    message = shape(answer)["error"]["message"]
    assert message.startswith("Blocked (recursive_loop_detected): identical request sent 6 times")


def test_what_shadow_mode_would_have_done_is_in_the_headers_too():
    shadow = Verdict(action=Action.WARN, reason="loop_detected", rule="other")
    assert dict(refused("openai_chat", shadow=shadow).headers)[b"X-Looptrap-Shadow"] == b"warn"


@pytest.mark.parametrize(
    ("verdict", "block_status", "status", "anthropic_type", "google_status"),
    [
        pytest.param(LOOP, 400, 400, "invalid_request_error", "INVALID_ARGUMENT", id="as 400"),
        pytest.param(LOOP, 403, 403, "permission_error", "PERMISSION_DENIED", id="as 403"),
        pytest.param(LOOP, 422, 422, "invalid_request_error", "INVALID_ARGUMENT", id="as 422"),
        pytest.param(LOOP, 429, 429, "rate_limit_error", "RESOURCE_EXHAUSTED", id="as 429"),
        pytest.param(KILLED, 429, 403, "permission_error", "PERMISSION_DENIED", id="killed"),
    ],
)
def test_the_status_is_the_configured_one_but_a_kill_is_always_403(
    verdict, block_status, status, anthropic_type, google_status
):
    answers = [
        refused(dialect, verdict, block_status=block_status)
        for dialect in ("openai_chat", "anthropic", "gemini")
    ]
    assert [answer.status for answer in answers] == [status] * 3
    assert shape(answers[1])["error"]["type"] == anthropic_type
    assert shape(answers[2])["error"]["status"] == google_status


@pytest.mark.parametrize("dialect", ["openai_chat", "anthropic", "gemini", "http"])
def test_a_kill_says_so(dialect):
    body = shape(refused(dialect, KILLED))
    assert body["detail"]["error"] == "killed"
    assert body["error"]["message"] == "Blocked (killed): off."


FAILURES = [
    (401, "invalid_request_error", "authentication_error", "UNAUTHENTICATED"),
    (404, "invalid_request_error", "not_found_error", "NOT_FOUND"),
    (413, "invalid_request_error", "request_too_large", "INVALID_ARGUMENT"),
    (429, "rate_limit_exceeded", "rate_limit_error", "RESOURCE_EXHAUSTED"),
    (500, "server_error", "api_error", "INTERNAL"),
    (502, "server_error", "api_error", "UNAVAILABLE"),
    (503, "server_error", "overloaded_error", "UNAVAILABLE"),
    (504, "server_error", "timeout_error", "DEADLINE_EXCEEDED"),
]


@pytest.mark.parametrize(("status", "openai_type", "anthropic_type", "google_status"), FAILURES)
def test_a_failure_speaks_the_dialect(status, openai_type, anthropic_type, google_status):
    fail = partial(failure, status=status, code="some_code", message="No.", request_id="req-1")
    for dialect in OPENAI_SHAPED:
        assert shape(fail(dialect)) == {
            "error": {"message": "No.", "type": openai_type, "param": None, "code": "some_code"},
            "detail": {"error": "some_code", "message": "No."},
        }
    assert shape(fail("anthropic"))["error"]["type"] == anthropic_type
    assert shape(fail("anthropic"))["request_id"] == "req-1"
    assert shape(fail("gemini"))["error"]["status"] == google_status
    assert shape(fail("mcp"))["error"]["data"] == {"error": "some_code", "message": "No."}
    assert {fail(dialect).status for dialect in BODIES} == {status}


@pytest.mark.parametrize("dialect", BODIES)
def test_a_failure_never_forbids_a_retry(dialect):
    answer = failure(dialect, status=503, code="c", message="m", request_id="r", retry_after=2)
    headers = dict(answer.headers)
    assert headers[b"Retry-After"] == b"2"
    assert b"x-should-retry" not in headers


# What real SDKs make of it.


def respond_refused(call):
    return refusal(call, LOOP, shadow=None, request_id="req-1", block_status=429)


OPENAI_CALLS = {
    "chat": lambda c: c.chat.completions.create(model="m", messages=MESSAGES),
    "chat, streamed": lambda c: c.chat.completions.create(
        model="m", messages=MESSAGES, stream=True
    ),
    "responses": lambda c: c.responses.create(model="m", input=SECRET),
    "completions": lambda c: c.completions.create(model="m", prompt=SECRET),
    "embeddings": lambda c: c.embeddings.create(model="m", input=SECRET),
}


@pytest.mark.parametrize("make", OPENAI_CALLS.values(), ids=OPENAI_CALLS)
async def test_the_openai_sdk_knows_the_code_and_asks_once(make):
    async with openai_at(respond_refused) as (client, server):
        with pytest.raises(openai.RateLimitError) as caught:
            await make(client)
    error = caught.value
    assert (error.status_code, error.code, error.type) == (
        429,
        "recursive_loop_detected",
        "loop_detected",
    )
    assert error.request_id == "req-1"
    assert error.response.json()["detail"] == DETAIL
    assert len(server.calls) == 1


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
async def test_the_anthropic_sdk_knows_the_code_and_asks_once(stream):
    async with anthropic_at(respond_refused) as (client, server):
        with pytest.raises(anthropic.RateLimitError) as caught:
            await client.messages.create(model="m", max_tokens=9, messages=MESSAGES, stream=stream)
    error = caught.value
    assert (error.status_code, error.type) == (429, "rate_limit_error")
    assert error.error_code == "recursive_loop_detected"
    assert error.request_id == "req-1"
    assert error.body["detail"] == DETAIL
    assert len(server.calls) == 1


async def google_whole(client):
    await client.models.generate_content(model="m", contents=SECRET)


async def google_streamed(client):
    async for _ in await client.models.generate_content_stream(model="m", contents=SECRET):
        pass


@pytest.mark.filterwarnings("ignore:Inheritance class Aiohttp:DeprecationWarning")
@pytest.mark.parametrize("make", [google_whole, google_streamed], ids=["whole", "streamed"])
async def test_the_google_sdk_reads_the_error_and_asks_once(make):
    async with google_at(respond_refused) as (client, server):
        with pytest.raises(google_errors.ClientError) as caught:
            await make(client)
    error = caught.value
    assert (error.code, error.status, error.message) == (429, "RESOURCE_EXHAUSTED", MESSAGE)
    assert error.details["detail"] == DETAIL
    assert len(server.calls) == 1


def mcp_server(answer_tool_call):
    """Return what an MCP server behind the gateway answers; tool calls get `answer_tool_call`."""

    def respond(call):
        if call.dialect == "mcp":
            return answer_tool_call(call)
        headers = [(b"Content-Type", b"application/json")]
        if call.request.method != "POST":
            return Answer(405, headers, b"{}")
        sent = json.loads(call.request.body)
        if "id" not in sent:
            return Answer(202, headers, b"")
        answered = {"jsonrpc": "2.0", "id": sent["id"]}
        if sent["method"] == "initialize":
            answered["result"] = {
                "protocolVersion": sent["params"]["protocolVersion"],
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "tools", "version": "1"},
            }
        else:
            answered["error"] = {"code": -32601, "message": "no such method"}
        return Answer(200, headers, json.dumps(answered).encode())

    return respond


def fail_unavailable(call):
    return failure("mcp", status=503, code="overloaded", message="Busy.", request_id="r")


@pytest.mark.parametrize(
    ("answer_tool_call", "message", "code"),
    [
        pytest.param(respond_refused, MESSAGE, "recursive_loop_detected", id="refusal"),
        pytest.param(fail_unavailable, "Busy.", "overloaded", id="failure"),
    ],
)
async def test_the_mcp_client_reads_the_error_of_a_tool_call(answer_tool_call, message, code):
    async with (
        answering(mcp_server(answer_tool_call)) as server,
        McpClient(f"{server.url}/mcp") as client,
    ):
        with pytest.raises(MCPError) as caught:
            await client.call_tool("search", {"q": SECRET})
    assert caught.value.error.message == message
    assert caught.value.error.data["error"] == code
    assert [call.dialect for call in server.calls].count("mcp") == 1


def unauthorised(dialect, call):
    return failure(
        dialect, status=401, code="invalid_api_key", message="Unknown key.", request_id="r"
    )


async def test_sdks_know_a_failed_authentication():
    async with openai_at(partial(unauthorised, "openai_chat")) as (client, server):
        with pytest.raises(openai.AuthenticationError) as caught:
            await client.chat.completions.create(model="m", messages=MESSAGES)
        assert caught.value.code == "invalid_api_key"
        assert len(server.calls) == 1
    async with anthropic_at(partial(unauthorised, "anthropic")) as (client, server):
        with pytest.raises(anthropic.AuthenticationError):
            await client.messages.create(model="m", max_tokens=9, messages=MESSAGES)
        assert len(server.calls) == 1


async def test_sdks_try_again_when_the_gateway_is_only_busy():
    def busy(call):
        return failure(
            "openai_chat", status=503, code="c", message="m", request_id="r", retry_after=0
        )

    async with openai_at(busy) as (client, server):
        with pytest.raises(openai.InternalServerError):
            await client.with_options(max_retries=1).chat.completions.create(
                model="m", messages=MESSAGES
            )
    assert len(server.calls) == 2
