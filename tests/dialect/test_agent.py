"""Agents: the session that each names by itself, and how it is recognised."""

import json
import re
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from looptrap.dialect.agent import (
    AGENT_SESSION_HEADERS,
    AGENTS,
    WORD_JOINER,
    agent_of,
    agent_session_of,
    finishing_calls,
    main_session_of,
    without_passing_signs,
)
from looptrap.dialect.model import MAX_NAME_CHARS, Request
from looptrap.dialect.registry import read

UUID = "0f3c2b1a-1111-4222-8333-944445555666"
LEGACY = f"user_{'ab' * 32}_account_{UUID[::-1]}_session_{UUID}"
CHAT, RESPONSES, MESSAGES = "/v1/chat/completions", "/v1/responses", "/v1/messages"


def call(path=CHAT, headers=(), **fields):
    named = {"input": "hi"} if path == RESPONSES else {"messages": []}
    body = json.dumps({"model": "m", **named, **fields}).encode()
    return read(Request(path=path, headers=headers, body=body))


@pytest.mark.parametrize("name", AGENT_SESSION_HEADERS)
def test_a_header_names_the_session(name):
    headers = [(b"host", b"h"), (name, b" s-1 "), (b"x-request-id", b"r")]
    assert agent_session_of(call(headers=headers)) == "s-1"


@pytest.mark.parametrize(("headers", "session"), [
    ([(b"x-claude-code-session-id", b"s"), (b"x-claude-code-agent-id", b"a")], "s:a"),
    ([(b"x-claude-code-agent-id", b"a")], ""),
    ([(b"x-claude-code-agent-id", b"a"), (b"session-id", b"s")], "s"),
    ([(b"session-id", b"s"), (b"thread-id", b"t")], "s:t"),
    ([(b"session-id", b"s"), (b"thread-id", b"s")], "s"),
    ([(b"conversation_id", b"c"), (b"session_id", b"s")], "s"),
    ([(b"session-id", b""), (b"conversation_id", b"c")], "c"),
    ([(b"session-id", b"one"), (b"session-id", b"two")], "one"),
    ([(b"authorization", b"secret"), (b"x-user-id", b"u")], ""),
], ids=["a subagent", "only a subagent", "another agent's header", "a thread", "the first thread",
        "the session before the conversation", "an empty one is not there", "the first of two",
        "none"])  # fmt: skip
def test_headers_together(headers, session):
    assert agent_session_of(call(headers=headers)) == session


@pytest.mark.parametrize(("path", "fields", "session"), [
    (MESSAGES, {"metadata": {"user_id": LEGACY}}, UUID),
    (MESSAGES, {"metadata": {"user_id": json.dumps({"device_id": "d", "session_id": "s"})}}, "s"),
    (MESSAGES, {"metadata": {"user_id": json.dumps({"device_id": "d"})}}, ""),
    (MESSAGES, {"metadata": {"user_id": json.dumps({"session_id": 7})}}, ""),
    (MESSAGES, {"metadata": {"user_id": "{not JSON"}}, ""),
    (MESSAGES, {"metadata": {"user_id": "user-42"}}, ""),
    (MESSAGES, {"metadata": {"user_id": f"user_1_session_{UUID}"}}, ""),
    (MESSAGES, {"metadata": {"user_id": "user_1_account_2_session_3"}}, ""),
    (RESPONSES, {"prompt_cache_key": "k"}, "k"),
    (CHAT, {"prompt_cache_key": "k"}, "k"),
    (CHAT, {"prompt_cache_key": "k", "metadata": {"session_id": "s"}}, "s"),
    (CHAT, {"metadata": {"thread_id": "t"}}, "t"),
    (CHAT, {"metadata": {"conversation_id": "c"}}, "c"),
    (CHAT, {"metadata": {"conversation_id": "c", "thread_id": "t"}}, "t"),
    (CHAT, {"metadata": {"session_id": "  "}, "prompt_cache_key": "k"}, "k"),
    (CHAT, {"safety_identifier": "u", "user": "u"}, ""),
    (CHAT, {"metadata": "session_id"}, ""),
    (CHAT, {"metadata": ["session_id"]}, ""),
    (CHAT, {}, ""),
])  # fmt: skip
def test_a_body_names_the_session(path, fields, session):
    assert agent_session_of(call(path, **fields)) == session


def test_a_header_counts_before_the_body():
    asked = call(headers=[(b"session-id", b"h")], prompt_cache_key="b")
    assert agent_session_of(asked) == "h"


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"\xff", b"null", b'{"metadata": '])
def test_a_body_that_is_no_object_names_none(body):
    assert agent_session_of(read(Request(path=CHAT, body=body))) == ""


def test_a_long_name_is_cut_and_agents_stay_apart():
    session = (b"x-claude-code-session-id", b"s" * 500)
    found = {
        agent_session_of(call(headers=[session, (b"x-claude-code-agent-id", agent)]))
        for agent in (b"a" * 10, b"b" * 500)
    }
    assert len(found) == 2
    assert max(map(len, found)) == MAX_NAME_CHARS


SUBAGENT = [(b"x-claude-code-session-id", b"s"), (b"x-claude-code-agent-id", b"a")]


@pytest.mark.parametrize(("headers", "named", "main"), [
    (SUBAGENT, "s:a", "s"),
    (SUBAGENT[:1], "s", "s"),
    ([(b"session-id", b"s"), (b"thread-id", b"t")], "s:t", "s"),
    ([(b"session-id", b"s" * 500), (b"thread-id", b"t")], "s" * 64 + ":t", "s" * 500),
    (SUBAGENT, "team:run", "team:run"),
    ([], "s:a", "s:a"),
    ([], ":", ":"),
    ([], "", ""),
], ids=["a subagent", "an agent", "a thread", "a long name", "a session named by the client",
        "a name with a colon", "a colon", "none"])  # fmt: skip
def test_a_part_of_a_session_belongs_to_the_whole(headers, named, main):
    asked = call(headers=headers)
    asked.request.session = named
    assert main_session_of(asked) == main


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=5,
)


@given(
    metadata=json_values
    | st.fixed_dictionaries({}, optional={"user_id": json_values, "session_id": json_values}),
    key=json_values,
)
def test_any_type_of_value_names_a_bounded_session_or_none(metadata, key):
    found = agent_session_of(call(metadata=metadata, prompt_cache_key=key))
    assert isinstance(found, str)
    assert len(found) <= MAX_NAME_CHARS


# Which program sent a call


@pytest.mark.parametrize(("headers", "agent"), [
    ([(b"user-agent", b"claude-cli/2.1.326 (external, sdk-cli)")], "Claude Code"),
    ([(b"x-claude-code-session-id", b"s")], "Claude Code"),
    ([(b"user-agent", b"codex_exec/0.169.0 (Debian 12.0.0; x86_64) xterm")], "Codex"),
    ([(b"user-agent", b"codex_cli_rs/0.169.0 (Debian 12.0.0; x86_64)")], "Codex"),
    ([(b"user-agent", b"GeminiCLI-tui/0.61.0/gemini-3.1-pro (linux; x64)")], "Gemini CLI"),
    ([(b"user-agent", b"QwenCode/0.24.4 (linux; x64)")], "Qwen Code"),
    ([(b"user-agent", b"claude-cli/0.24.4 (external, cli)")], "Qwen Code"),
    ([(b"user-agent", b"opencode/1.18.33 (linux; x64) ai-sdk/provider-utils/4")], "opencode"),
    ([(b"user-agent", b"AsyncOpenAI/Python 3.51.0"), (b"x-irid", b"j2rg6NQJ")], "Inspect"),
    ([(b"user-agent", b"OpenAI/Python 3.49.0")], ""),
    ([(b"user-agent", b"like claude-cli/2.1")], ""),
    ([(b"x-claude-code", b"s")], ""),
    ([], ""),
], ids=lambda value: value if isinstance(value, str) else None)  # fmt: skip
def test_an_agent_is_recognised_by_its_headers(headers, agent):
    assert agent_of(call(headers=headers)).name == agent


SUBMITS = "Submit with `echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT`."
BASH = {"type": "function", "function": {"name": "bash", "parameters": {}}}


def messages(*texts):
    roles = ["system", "user", *["assistant", "user"] * len(texts)]
    return [{"role": role, "content": text} for role, text in zip(roles, texts, strict=False)]


@pytest.mark.parametrize(("texts", "agent"), [
    (["You are an agent.", SUBMITS], "mini-swe-agent"),
    ([SUBMITS, "Go."], "mini-swe-agent"),
    (["You are an agent.", "Go.", "I read it.", SUBMITS], ""),
    (["You are OpenHands agent, a helpful AI assistant.", "Go."], "OpenHands"),
    (["You are Cline, an AI coding agent.", "Go."], "Cline"),
    (["Changes must use this *SEARCH/REPLACE block* format.", "Go."], "aider"),
], ids=["in the task", "the system prompt", "a file", "OpenHands", "Cline", "aider"])  # fmt: skip
def test_an_agent_without_headers_of_its_own_is_recognised_by_its_prompt(texts, agent):
    assert agent_of(call(messages=messages(*texts))).name == agent


@pytest.mark.parametrize(("tools", "names"), [([BASH], ["bash"]), ([], [])])
def test_a_run_is_ended_by_a_tool_only_if_the_agent_has_it(tools, names):
    made = finishing_calls(call(messages=messages("x", SUBMITS), tools=tools), "It's stuck.")
    assert [one.name for one in made] == names
    if names:
        command = json.loads(made[0].arguments)["command"]
        run = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=True)
        assert run.stdout == "COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT\nIt's stuck.\n"


def test_agents_have_names_of_their_own_and_statuses_that_no_sdk_retries():
    assert len({agent.name for agent in AGENTS}) == len(AGENTS)
    assert {agent.status for agent in AGENTS} <= {None, 400, 403, 404, 422}


RETRIED = re.compile(
    # What opencode 1.18.33 and LiteLLM 1.106 take for failures that pass.
    r"429|500|502|503|504|524|rate[\s_-]*limit|too many requests|overloaded|service unavailable"
    r"|internal[ _]error|internal server error|server[ _-]error|terminated|fetch failed"
    r"|network[-_\s]error|(?:timeout|timed out|time out)\b|resource[ _]exhausted",
    re.IGNORECASE,
)


@pytest.mark.parametrize("text", [
    "fingerprint 1h-5035249429", "$500 of $500 used", "get_rate_limits with the same result",
    "Service Unavailable", "resource_exhausted", "a server-error, an internal error", "timed out",
])  # fmt: skip
def test_a_text_without_signs_of_a_passing_failure_reads_the_same(text):
    assert RETRIED.search(text)
    changed = without_passing_signs(text)
    assert not RETRIED.search(changed)
    assert changed.replace(WORD_JOINER, "") == text


def test_a_text_without_such_signs_stays_as_it_is():
    text = "Blocked (recursive_loop_detected): bash with the same result, 5 times in 5 rounds."
    assert without_passing_signs(text) == text
