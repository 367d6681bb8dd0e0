"""`nudge`: one message at the very end, and every other byte as it was sent."""

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.dialect.tool_uses import tool_uses

from looptrap.detect.round import NUDGE_MARK
from looptrap.detect.signals.signal import Evidence
from looptrap.dialect.answer import MAX_NUDGED_BYTES
from looptrap.dialect.model import Request
from looptrap.dialect.registry import read
from looptrap.policy.action import Action
from looptrap.policy.refusal import nudged
from looptrap.policy.verdict import Verdict

WHAT = "search with the same arguments and result, 4 times in 6 rounds"
VERDICT = Verdict(
    action=Action.NUDGE,
    reason="loop_detected",
    rule="no-progress",
    message="Nudged.",
    count=4,
    evidence=(Evidence("repeat", WHAT, 4),),
)

CHAT, RESPONSES, ANTHROPIC = "/v1/chat/completions", "/v1/responses", "/v1/messages"
GEMINI = "/v1beta/models/m:generateContent"


def nudge(path, body, headers=()):
    encoded = body if isinstance(body, bytes) else json.dumps(body).encode()
    return nudged(read(Request(path=path, body=encoded, headers=headers)), VERDICT)


def is_insertion(before, after):
    """Say whether `after` is `before` with something put in at one place."""
    at = next((i for i, byte in enumerate(before) if byte != after[i]), len(before))
    return len(before) < len(after) and after.endswith(before[at:])


def test_the_text_says_what_repeats_how_often_and_what_to_do():
    body = json.loads(nudge(CHAT, {"messages": [{"role": "user", "content": "hi"}]}))
    text = body["messages"][-1]["content"]
    assert text.splitlines()[0] == NUDGE_MARK
    assert WHAT in text
    assert "Try a different strategy" in text


# One conversation with a tool call and its result, ready for the model's next turn.

CHAT_ROUND = [
    {"role": "user", "content": "find it"},
    {
        "role": "assistant",
        "tool_calls": [
            {"id": "c1", "type": "function", "function": {"name": "search", "arguments": "{}"}}
        ],
    },
    {"role": "tool", "tool_call_id": "c1", "content": "nothing"},
]
RESPONSES_ROUND = [
    {"role": "user", "content": "find it"},
    {"type": "function_call", "call_id": "c1", "name": "search", "arguments": "{}"},
    {"type": "function_call_output", "call_id": "c1", "output": "nothing"},
]
ANTHROPIC_ROUND = [
    {"role": "user", "content": "find it"},
    {
        "role": "assistant",
        "content": [{"type": "tool_use", "id": "c1", "name": "search", "input": {}}],
    },
    {
        "role": "user",
        "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "nothing"}],
    },
]
GEMINI_ROUND = [
    {"role": "user", "parts": [{"text": "find it"}]},
    {"role": "model", "parts": [{"functionCall": {"name": "search", "args": {}}}]},
    {
        "role": "user",
        "parts": [{"functionResponse": {"name": "search", "response": {"output": "nothing"}}}],
    },
]
ROUNDS = {
    CHAT: ("messages", CHAT_ROUND),
    RESPONSES: ("input", RESPONSES_ROUND),
    ANTHROPIC: ("messages", ANTHROPIC_ROUND),
    GEMINI: ("contents", GEMINI_ROUND),
}


def without_nudge(path, body):
    """Take the nudge off a decoded body, and return its text."""
    field, _ = ROUNDS[path]
    if path == ANTHROPIC:
        block = body[field][-1]["content"].pop()
        assert block["type"] == "text"
        return block["text"]
    last = body[field].pop()
    assert last["role"] == "user"
    return last["parts"][0]["text"] if path == GEMINI else last["content"]


@pytest.mark.parametrize("path", ROUNDS)
@pytest.mark.parametrize("indent", [None, 2], ids=["compact", "indented"])
def test_after_a_tool_result_the_nudge_comes_last_and_nothing_else_changes(path, indent):
    field, history = ROUNDS[path]
    sent = {"model": "m", field: history, "tools": [{"name": "search"}], "temperature": 1.0}
    before = json.dumps(sent, indent=indent).encode()
    after = nudge(path, before)
    assert is_insertion(before, after)
    body = json.loads(after)
    assert without_nudge(path, body).startswith(NUDGE_MARK)
    assert body == sent
    # What stands before the last message is the prefix that caches know.
    assert after.startswith(before[: before.rindex(b"nothing")])


@pytest.mark.parametrize("path", ROUNDS)
def test_the_nudged_body_still_reads_as_the_same_dialect(path):
    field, history = ROUNDS[path]
    before = read(Request(path=path, body=json.dumps({"model": "m", field: history}).encode()))
    after = read(Request(path=path, body=nudged(before, VERDICT)))
    assert after.dialect == before.dialect
    assert after.messages[:-1] == before.messages[: len(after.messages) - 1]
    assert NUDGE_MARK in after.messages[-1].text
    assert tool_uses(after) == tool_uses(before)


def test_an_anthropic_string_becomes_the_text_block_it_is_short_for():
    before = {"messages": [{"role": "user", "content": 'say "hi" ]}'}], "max_tokens": 9}
    body = json.loads(nudge(ANTHROPIC, before))
    (message,) = body["messages"]
    assert message["role"] == "user"
    assert message["content"][0] == {"type": "text", "text": 'say "hi" ]}'}
    assert message["content"][1]["text"].startswith(NUDGE_MARK)
    assert len(message["content"]) == 2


def test_a_responses_string_becomes_the_user_message_it_is_short_for():
    body = json.loads(nudge(RESPONSES, {"model": "m", "input": "hi", "store": True}))
    first, second = body["input"]
    assert first == {"role": "user", "content": "hi"}
    assert second["content"].startswith(NUDGE_MARK)
    assert body["store"] is True


def test_a_continued_response_is_nudged_though_its_calls_are_kept_elsewhere():
    sent = {"previous_response_id": "resp_1", "input": RESPONSES_ROUND[-1:]}
    assert len(json.loads(nudge(RESPONSES, sent))["input"]) == 2


def test_a_trailing_reminder_of_the_system_does_not_keep_the_nudge_out():
    sent = {"messages": [*CHAT_ROUND, {"role": "system", "content": "be brief"}]}
    assert len(json.loads(nudge(CHAT, sent))["messages"]) == 5


CALL = {"role": "assistant", "content": "{"}
TWO_CALLS = {
    "role": "assistant",
    "tool_calls": [
        {"id": name, "type": "function", "function": {"name": "f", "arguments": "{}"}}
        for name in ("c1", "c2")
    ],
}

SKIPPED = [
    pytest.param(CHAT, {"messages": [*CHAT_ROUND, CALL]}, id="chat: prefill"),
    pytest.param(ANTHROPIC, {"messages": [*ANTHROPIC_ROUND, CALL]}, id="anthropic: prefill"),
    pytest.param(
        GEMINI,
        {"contents": [*GEMINI_ROUND, {"role": "model", "parts": [{"text": "{"}]}]},
        id="gemini: prefill",
    ),
    pytest.param(RESPONSES, {"input": [*RESPONSES_ROUND, CALL]}, id="responses: prefill"),
    pytest.param(CHAT, {"messages": CHAT_ROUND[:2]}, id="chat: call without a result"),
    pytest.param(RESPONSES, {"input": RESPONSES_ROUND[:2]}, id="responses: call without a result"),
    pytest.param(ANTHROPIC, {"messages": ANTHROPIC_ROUND[:2]}, id="anthropic: without a result"),
    pytest.param(GEMINI, {"contents": GEMINI_ROUND[:2]}, id="gemini: without a result"),
    pytest.param(
        CHAT, {"messages": [TWO_CALLS, CHAT_ROUND[-1]]}, id="chat: one of two results is missing"
    ),
    pytest.param(
        ANTHROPIC,
        {"messages": [*ANTHROPIC_ROUND[:2], {"role": "user", "content": "well?"}]},
        id="anthropic: a question instead of the result",
    ),
    pytest.param(
        ANTHROPIC,
        {"messages": [*ANTHROPIC_ROUND, {"role": "system", "content": "be brief"}]},
        id="anthropic: the system speaks last",
    ),
    pytest.param(CHAT, {"messages": []}, id="chat: no message"),
    pytest.param(ANTHROPIC, {"messages": [], "system": "be brief"}, id="anthropic: no message"),
    pytest.param(GEMINI, {"contents": [], "systemInstruction": {"parts": []}}, id="gemini: none"),
    pytest.param(RESPONSES, {"input": [], "instructions": "be brief"}, id="responses: no item"),
    pytest.param(RESPONSES, {"prompt": {"id": "p"}}, id="responses: a stored prompt"),
    pytest.param(CHAT, {"messages": [7]}, id="chat: malformed message"),
    pytest.param("/v1/completions", {"prompt": "hi"}, id="completions"),
    pytest.param("/v1/embeddings", {"input": "hi"}, id="embeddings"),
    pytest.param("/v1/messages/count_tokens", {"messages": ANTHROPIC_ROUND}, id="a token count"),
    pytest.param("/anything", {"messages": CHAT_ROUND}, id="plain HTTP"),
    pytest.param(
        "/mcp",
        {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "f"}},
        id="MCP",
    ),
    pytest.param(
        CHAT,
        b'{"messages":[{"role":"user","content":"a"}],"messages":[{"role":"user","content":"b"}]}',
        id="messages sent twice",
    ),
    pytest.param(
        CHAT,
        b'{"messages":[{"role":"user","content":"a"}],"messages":[{"role":"user","content":"a"}]}',
        id="the same messages sent twice",
    ),
    pytest.param(
        CHAT, b'{"x":1,"messages":[{"role":"user","content":"a"}],"x":1}', id="a key sent twice"
    ),
    pytest.param(
        CHAT, b'{"x":NaN,"messages":[{"role":"user","content":"a"}]}', id="not quite JSON"
    ),
    pytest.param(
        CHAT,
        {"messages": [{"role": "user", "content": "a" * MAX_NUDGED_BYTES}]},
        id="a body too large to look through",
    ),
]


@pytest.mark.parametrize(("path", "body"), SKIPPED)
def test_no_nudge_where_it_cannot_or_must_not_be(path, body):
    assert nudge(path, body) is None


@pytest.mark.parametrize(
    "header",
    [
        (b"authorization", b"AWS4-HMAC-SHA256 Credential=k"),
        (b"x-amz-content-sha256", b"abc"),
        (b"content-digest", b"sha-256=:abc:"),
        (b"signature", b"sig1=:abc:"),
        (b"content-md5", b"abc"),
        (b"content-encoding", b"gzip"),
    ],
    ids=lambda header: header[0].decode(),
)
def test_no_nudge_into_a_signed_or_encoded_body(header):
    assert nudge(CHAT, {"messages": CHAT_ROUND}, [header]) is None


@pytest.mark.parametrize(
    "header",
    [(b"authorization", b"Bearer k"), (b"content-encoding", b"identity")],
    ids=["a bearer token", "the identity encoding"],
)
def test_ordinary_headers_do_not_keep_the_nudge_out(header):
    assert nudge(CHAT, {"messages": CHAT_ROUND}, [header]) is not None


# Laws, for any history, spacing, key order and escaping.

SPACE = st.text(" \t\n\r", max_size=3)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8) | st.just('"]},{["\\'),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3)
    ),
    max_leaves=6,
)


@st.composite
def written(draw, value):
    """Write a value as JSON with any spacing, key order and escaping."""
    if isinstance(value, dict):
        keys = draw(st.permutations(list(value)))
        fields = [
            draw(written(key)) + draw(SPACE) + ":" + draw(SPACE) + draw(written(value[key]))
            for key in keys
        ]
        return "{" + draw(spaced(fields)) + "}"
    if isinstance(value, list):
        return "[" + draw(spaced([draw(written(one)) for one in value])) + "]"
    if isinstance(value, str) and draw(st.booleans()):
        return '"' + re.sub("....", r"\\u\g<0>", value.encode("utf-16-be").hex()) + '"'
    return json.dumps(value, ensure_ascii=draw(st.booleans()))


@st.composite
def spaced(draw, parts):
    return draw(SPACE) + ",".join(part + draw(SPACE) for part in parts)


@st.composite
def histories(draw, path):
    """Return a body whose history ends with something a model is to answer."""
    field, round_ = ROUNDS[path]
    said = draw(st.lists(st.text(max_size=12), max_size=3))
    ends_with_tool = draw(st.booleans())
    history = [spoken(path, text) for text in said]
    history += round_ if ends_with_tool else [spoken(path, draw(st.text(max_size=12)))]
    others = draw(st.dictionaries(st.text(max_size=6), VALUES, max_size=4))
    return {**{k: v for k, v in others.items() if k not in RESERVED}, field: history}


RESERVED = {"messages", "input", "contents", "system", "prompt", "model", "stream", "user"}


def spoken(path, text):
    if path == GEMINI:
        return {"role": "user", "parts": [{"text": text}]}
    if path == ANTHROPIC:
        return {"role": "user", "content": [{"type": "text", "text": text}]}
    return {"role": "user", "content": text}


@pytest.mark.parametrize("path", ROUNDS)
@given(data=st.data())
def test_any_body_parses_and_differs_by_the_nudge_alone(path, data):
    sent = data.draw(histories(path))
    before = (data.draw(SPACE) + data.draw(written(sent)) + data.draw(SPACE)).encode()
    after = nudge(path, before)
    assert after is not None
    assert is_insertion(before, after)
    body = json.loads(after)
    assert without_nudge(path, body).startswith(NUDGE_MARK)
    assert body == sent


@pytest.mark.parametrize("path", ROUNDS)
@given(body=st.binary(max_size=60) | VALUES.map(lambda value: json.dumps(value).encode()))
def test_no_bytes_make_it_raise(path, body):
    assert nudge(path, body) is None or b"looptrap" in nudge(path, body)
