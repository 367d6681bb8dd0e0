"""What is peculiar to Envoy: it shows Looptrap the body, and gives its refusal to the client."""

import subprocess

import msgspec
import pytest
from tests.deploy.proxying import ENVOY_FILE, find_envoy
from tests.gateway.serving import CHAT, JSON, chat

MESSAGES = "/v1/messages"
GENERATE = "/v1beta/models/gemini-3.1-pro:generateContent"
ASKED = [{"role": "user", "content": "Again?"}]
TOOLS = """
[[policies]]
name = "tools"
  [[policies.rules]]
  name = "same-call"
  watch = "tool"
  threshold = 3
"""


def test_envoy_takes_the_file_without_a_word():
    command = [find_envoy(), "--mode", "validate", "--log-level", "warning", "-c", ENVOY_FILE]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert "deprecated" not in done.stderr


@pytest.mark.parametrize(
    ("target", "body", "kind"),
    [
        pytest.param(CHAT, chat(), "loop_detected", id="openai"),
        pytest.param(
            MESSAGES,
            msgspec.json.encode({"model": "claude", "max_tokens": 9, "messages": ASKED}),
            "rate_limit_error",
            id="anthropic",
        ),
        pytest.param(
            GENERATE,
            msgspec.json.encode({"contents": [{"role": "user", "parts": [{"text": "Again?"}]}]}),
            None,
            id="gemini",
        ),
    ],
)
async def test_conversations_are_judged_and_refused_in_their_dialect(start, target, body, kind):
    envoy = await start("envoy", "")
    asked = {"method": "POST", "target": target, "headers": JSON, "body": body}
    assert await envoy.statuses(5, **asked) == [200] * 5
    refused = await envoy.ask(**asked)
    assert refused.status == 429
    told = msgspec.json.decode(refused.body)
    assert told["error"].get("type") == kind
    assert told["detail"]["rule"] == "identical-conversation"
    assert told["detail"]["hit_count"] == 6
    assert told["detail"]["fingerprint"]
    assert envoy.forwarded == [("POST", target)] * 5


async def test_different_prompts_to_one_path_never_meet(start):
    envoy = await start("envoy")
    for number in range(6):
        assert (await envoy.ask("POST", CHAT, JSON, chat(f"question {number}"))).status == 200


@pytest.mark.parametrize("headers", [{"Authorization": "Bearer k"}, {"X-Api-Key": "k"}], ids=str)
async def test_callers_are_told_apart_by_their_credentials(start, headers):
    envoy = await start("envoy", "")
    asked = {"method": "POST", "target": CHAT, "body": chat()}
    assert await envoy.statuses(5, headers=JSON, **asked) == [200] * 5
    assert await envoy.statuses(1, headers=JSON | headers, **asked) == [200]
    assert await envoy.statuses(1, headers=JSON, **asked) == [429]


async def test_a_body_beyond_the_limit_of_looptrap_is_a_413(start):
    envoy = await start("envoy")
    refused = await envoy.ask("POST", CHAT, JSON, chat("x" * 32_000_000))
    assert refused.status == 413
    assert envoy.forwarded == []


async def test_a_refused_mcp_call_is_a_no_although_its_error_would_travel_under_200(start):
    envoy = await start("envoy", TOOLS)
    called = {"name": "read_log", "arguments": {"pump": 5}}
    answers = []
    for number in range(4):
        rpc = {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": called}
        answers.append(await envoy.ask("POST", "/mcp", JSON, msgspec.json.encode(rpc)))
    assert [one.status for one in answers] == [200, 200, 403, 403]
    told = msgspec.json.decode(answers[2].body)
    assert (told["id"], told["error"]["data"]["rule"]) == (2, "same-call")
    assert len(envoy.forwarded) == 2
