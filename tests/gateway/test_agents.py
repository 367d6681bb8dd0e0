"""Agents as the gateway sees them: the refusal that ends each, their sessions, their WebSockets."""

import json
import re
from collections import Counter

import pytest
from tests.gateway.serving import CHAT, JSON, chat, request, until
from tests.wire.fake_client import Scripted

from looptrap.config.gateway import GatewaySettings
from looptrap.dialect.agent import WORD_JOINER, agent_of
from looptrap.dialect.model import Request
from looptrap.dialect.registry import read
from looptrap.gateway.auth import Authenticator
from looptrap.gateway.jwt_claims import ClaimsReader
from looptrap.gateway.keys import KeyRing
from looptrap.gateway.request_context import InboundHeaderReader, RequestContexts
from looptrap.gateway.settler import MAX_CLIENTS, AgentNames
from looptrap.wire.exchange import Exchange
from looptrap.wire.limits import ServerLimits
from looptrap.wire.request import HeadReader
from looptrap.wire.server import Server
from looptrap.wire.server_connection import ServerConnection

CLAUDE_CODE = {"User-Agent": "claude-cli/2.1.326 (external, sdk-cli)"}
CODEX = {"User-Agent": "codex_exec/0.169.0 (Debian 12.0.0; x86_64)"}
OPENCODE = {"User-Agent": "opencode/1.18.33 (linux 6.18; x64) runtime/bun/1.3.14"}
QWEN_CODE = {"User-Agent": "QwenCode/0.24.4 (linux; x64)"}
SDK = {"User-Agent": "OpenAI/Python 3.49.0"}

BUDGET = "[[budgets]]\nname = 'one'\nby = ['caller']\nlimit_tokens = 1\nperiod = '1d'\n"
KILLED = "[[kill_switches]]\nmatch = { 'header:x-team' = 'red' }\n"
BUSY = """
[[policies]]
name = "p"
  [[policies.rates]]
  name = "slow"
  rps = 0.1
  burst = 1
"""


async def refused(here, headers, calls=7):
    """Send the same prompt again and again; return the last answer, a refusal."""
    for _ in range(calls):
        answer = await here.ask(headers=JSON | headers, body=chat())
    return answer.status, json.loads(answer.body)


@pytest.mark.parametrize(("headers", "status", "code"), [
    pytest.param(SDK, 429, "recursive_loop_detected", id="an SDK"),
    pytest.param(CLAUDE_CODE, 429, "recursive_loop_detected", id="Claude Code obeys the headers"),
    pytest.param(QWEN_CODE, 400, "recursive_loop_detected", id="Qwen Code retries a 429"),
    pytest.param(CODEX, 400, "invalid_prompt", id="Codex shows only messages with codes it knows"),
])  # fmt: skip
async def test_an_agent_gets_the_refusal_that_ends_it(serve, headers, status, code):
    here = await serve()
    found, body = await refused(here, headers)
    assert (found, body["error"]["code"]) == (status, code)
    assert "recursive_loop_detected" in body["error"]["message"]
    # Qwen Code shows the whole body where it speaks Anthropic's API.
    detail = body.get("detail", {})
    assert detail.get("error") == (None if headers is QWEN_CODE else "recursive_loop_detected")


@pytest.mark.parametrize(("toml", "more", "headers", "status", "error"), [
    pytest.param("block_status = 403\n", {}, CODEX, 403, "recursive_loop_detected", id="set"),
    pytest.param('preset = "aisg"\n', {}, CODEX, 429, "recursive_loop_detected", id="a preset"),
    pytest.param(BUDGET, {}, CODEX, 400, "budget_exceeded", id="a budget"),
    pytest.param(BUDGET, {}, CLAUDE_CODE, 402, "budget_exceeded", id="a budget, Claude Code"),
    pytest.param(KILLED, {"X-Team": "red"}, CODEX, 400, "killed", id="a kill switch"),
    pytest.param(BUSY, {}, CODEX, 429, "rate_limited", id="a rate: the call may be sent again"),
])  # fmt: skip
async def test_the_status_of_other_refusals(serve, toml, more, headers, status, error):
    here = await serve(toml)
    calls = 7 if error == "recursive_loop_detected" else 3
    found, body = await refused(here, headers | more, calls)
    assert (found, body["detail"]["error"]) == (status, error)


FIGURES = "[[budgets]]\nname = 'rate-limit-500'\nby = ['caller']\nlimit_tokens = 1\nperiod = '1d'\n"


@pytest.mark.parametrize(("toml", "calls", "shown"), [
    pytest.param("", 7, "recursive_loop_detected", id="a loop"),
    pytest.param(FIGURES, 2, "budget rate-limit-500: ", id="a budget with such a name"),
])  # fmt: skip
async def test_an_agent_that_reads_errors_finds_no_sign_of_one_that_passes(
    serve, toml, calls, shown
):
    """opencode sends a call again if 503 stands anywhere in an error, as in a fingerprint."""
    here = await serve(toml)
    status, body = await refused(here, OPENCODE, calls)
    error = body["error"]
    assert status == 400
    assert "detail" not in body
    assert not re.search("500|rate.limit", json.dumps(body))
    assert shown in error["message"].replace(WORD_JOINER, "")


OPENHANDS = [
    {"role": "system", "content": "You are OpenHands agent, a helpful AI assistant."},
    {"role": "user", "content": "Again?"},
]


@pytest.mark.parametrize(("more", "status", "verdict"), [
    pytest.param({}, 200, b"stop", id="a final message"),
    pytest.param({"response_format": {"type": "json_object"}}, 429, b"block", id="JSON only"),
])  # fmt: skip
async def test_an_agent_that_shows_no_errors_gets_a_final_message(serve, more, status, verdict):
    here = await serve()
    for _ in range(7):
        answer = await here.ask(headers=JSON, body=chat(messages=OPENHANDS, **more))
    assert (answer.status, answer.headers[b"x-looptrap-verdict"]) == (status, verdict)
    assert b"recursive_loop_detected" in answer.body or b"Looptrap ended this run" in answer.body
    assert here.provider.calls == 5


async def test_an_incident_and_the_metrics_name_the_agent(serve):
    here = await serve()
    await refused(here, QWEN_CODE)
    history = here.app.recorder.history
    await until(history.open_incidents)
    assert [one.agent for one in history.open_incidents()] == ["Qwen Code"]
    assert here.app.tally.agents == {("Qwen Code", "block"): 2}


@pytest.mark.parametrize(
    "names",
    [
        pytest.param(
            lambda n: {"X-Claude-Code-Session-Id": "s", "X-Claude-Code-Agent-Id": f"a{n}"},
            id="subagents of Claude Code",
        ),
        pytest.param(lambda n: {"session-id": f"s{n}", "thread-id": f"s{n}"}, id="Codex"),
        pytest.param(lambda n: {"session-id": "s", "thread-id": f"t{n}"}, id="threads of Codex"),
        pytest.param(lambda n: {"x-session-affinity": f"s{n}"}, id="opencode"),
    ],
)
async def test_agents_with_one_prompt_and_sessions_of_their_own_are_no_loop(serve, names):
    here = await serve()
    answers = [await here.ask(headers=JSON | names(number % 8), body=chat()) for number in range(8)]
    assert [answer.status for answer in answers] == [200] * 8


PURSE = "[[budgets]]\nby = ['session']\nlimit_usd = 1\nthresholds = { block = 100 }\n"
DOLLAR_A_CALL = "[price_fallback]\ninput = 0\noutput = 1000000\n"


def subagent(number, session="s"):
    return CLAUDE_CODE | {
        "X-Claude-Code-Session-Id": session,
        "X-Claude-Code-Agent-Id": f"a{number}",
    }


async def test_subagents_share_the_budget_of_their_session(serve):
    here = await serve(PURSE + DOLLAR_A_CALL)
    body = chat("Task", max_tokens=1, model="made-up")
    asked = [subagent(1), subagent(2), {"X-Claude-Code-Session-Id": "s"}, subagent(1, "other")]
    answers = [await here.ask(headers=JSON | headers, body=body) for headers in asked]
    assert [answer.status for answer in answers] == [200, 402, 402, 200]


@pytest.mark.parametrize(("session", "statuses"), [
    pytest.param("s", [403, 403, 200], id="a session with its subagents"),
    pytest.param("s:a1", [403, 200, 200], id="one subagent"),
    pytest.param("a1", [200, 200, 200], id="the name of a subagent alone"),
])  # fmt: skip
async def test_a_kill_switch_of_a_session_is_for_its_subagents_too(serve, session, statuses):
    here = await serve(f"[[kill_switches]]\nmatch = {{ session = '{session}' }}\n")
    asked = [subagent(1), subagent(2), subagent(1, "other")]
    answers = [await here.ask(headers=JSON | headers, body=chat()) for headers in asked]
    assert [answer.status for answer in answers] == statuses


async def test_without_session_headers_the_sessions_of_agents_are_not_read(serve):
    here = await serve("session_headers = []\n")
    answers = [
        await here.ask(headers=JSON | {"session-id": f"s{number}"}, body=chat())
        for number in range(8)
    ]
    assert [answer.status for answer in answers] == [200] * 5 + [429] * 3


@pytest.mark.parametrize("value", ["websocket", "WebSocket", "h2c, websocket"])
async def test_a_websocket_is_refused_at_once(serve, value):
    here = await serve()
    headers = {"Connection": "Upgrade", "Upgrade": value, "Sec-WebSocket-Version": "13"}
    answer = await here.ask("GET", "/v1/responses", headers)
    assert answer.status == 426
    assert json.loads(answer.body)["error"]["code"] == "websocket_not_supported"
    assert here.provider.requests == []


async def test_another_upgrade_is_ignored(serve):
    here = await serve()
    headers = JSON | {"Connection": "Upgrade", "Upgrade": "h2c"}
    assert (await here.ask(headers=headers, body=chat())).status == 200


# How many calls each makes

MINI_PROMPT = "Submit with: echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"
OTHER_SDK = {"User-Agent": "OpenAI/Python 2.54.0"}


def agents(here):
    return dict(here.app.tally.agent_requests)


async def send(client, text, headers=SDK, **more):
    await client.send(request(headers=JSON | headers, body=chat(text), **more))
    return (await client.answer()).status


async def test_every_call_is_counted_under_the_agent_that_its_headers_name(serve):
    here = await serve()
    for number, headers in enumerate([CLAUDE_CODE, CLAUDE_CODE, CODEX, SDK, {"x-irid": "1"}]):
        await here.ask(headers=JSON | headers, body=chat(f"Task {number}"))
    await until(lambda: here.app.tally.agent_requests.total() == 5)
    assert agents(here) == {"Claude Code": 2, "Codex": 1, "Inspect": 1, "": 1}
    assert sum(number for (number,) in here.app.tally.requests.values()) == 5


async def test_an_agent_is_recognised_by_the_first_prompt_of_its_connection(serve, monkeypatch):
    here, searched = await serve(), []

    def search(call):
        searched.append(call)
        return agent_of(call)

    monkeypatch.setattr("looptrap.gateway.settler.agent_of", search)
    mini, other = await here.connect(), await here.connect()
    for text in (MINI_PROMPT, "Go on.", "Summarise it."):
        await send(mini, text)
    for number in range(2):
        await send(other, f"Question {number}")
    assert agents(here) == {"mini-swe-agent": 3, "": 2}
    assert len(searched) == 2


@pytest.mark.parametrize(
    "headers",
    [
        pytest.param(OTHER_SDK, id="another library"),
        pytest.param(SDK | {"Authorization": "Bearer sk-other"}, id="another caller"),
    ],
)
async def test_clients_that_share_a_connection_are_told_apart(serve, headers):
    here = await serve()
    proxy = await here.connect()
    await send(proxy, MINI_PROMPT)
    await send(proxy, "Another client asks.", headers)
    assert agents(here) == {"mini-swe-agent": 1, "": 1}


async def test_many_callers_behind_one_proxy_are_searched_once_each(serve, monkeypatch):
    here, searched = await serve(), Counter()
    proxy = await here.connect()

    def search(call):
        searched[call.request.caller] += 1
        return agent_of(call)

    monkeypatch.setattr("looptrap.gateway.settler.agent_of", search)
    for number in range(20):
        key = {"Authorization": f"Bearer sk-{number % 5}"}
        await send(proxy, MINI_PROMPT if number < 1 else f"Question {number}", SDK | key)
    assert agents(here) == {"mini-swe-agent": 4, "": 16}
    assert sorted(searched.values()) == [1] * 5


async def test_a_request_without_a_prompt_does_not_decide_what_a_connection_is(serve):
    here = await serve()
    mini = await here.connect()
    await mini.send(request("GET", "/v1/models", headers=SDK))
    await mini.answer()
    await send(mini, MINI_PROMPT)
    assert agents(here) == {"": 1, "mini-swe-agent": 1}


async def test_a_call_on_which_a_rule_acts_is_counted_under_its_own_agent(serve):
    here = await serve()
    client = await here.connect()
    await send(client, "What is the time?")
    statuses = [await send(client, MINI_PROMPT) for _ in range(6)]
    assert statuses == [200] * 5 + [404]
    acted = sum(times for (name, _), times in here.app.tally.agents.items() if name)
    assert agents(here) == {"": 7 - acted, "mini-swe-agent": acted}


async def test_a_call_that_another_proxy_sends_is_counted(serve):
    here = await serve()
    await here.ask(
        target="/looptrap/decision/v1/chat/completions", headers=JSON | CODEX, body=chat("One")
    )
    assert agents(here) == {"Codex": 1}


def test_remembered_agents_are_bounded():
    names, connection = AgentNames(), ServerConnection(Server(Scripted()))
    head, _ = HeadReader(ServerLimits()).read(b"POST /v1/chat/completions HTTP/1.1\r\nHost: x")
    context = RequestContexts(
        Authenticator(KeyRing(), secret=bytes(32)),
        InboundHeaderReader([], relay_compressed=True),
        ClaimsReader.under(GatewaySettings()),
    ).open(Exchange(connection, head))
    call = read(Request("POST", CHAT, body=chat(MINI_PROMPT)))
    for number in range(MAX_CLIENTS + 5):
        connection.number = number
        assert names.of(call, context, connection) == "mini-swe-agent"
    assert len(names._names) == MAX_CLIENTS
