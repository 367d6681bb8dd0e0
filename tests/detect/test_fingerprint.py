"""How a conversation begins: the same in all its calls, another in others."""

import msgspec
import pytest

from looptrap.detect.fingerprint import conversation_opening
from looptrap.dialect.model import Request
from looptrap.dialect.registry import read

SYSTEM = {"role": "system", "content": "You are a careful assistant." * 50}
USER = {"role": "user", "content": "Fix the failing test."}
ROUND = [
    {"role": "assistant", "content": "I look.", "tool_calls": []},
    {"role": "user", "content": "And now?"},
]


def call(messages, path="/v1/chat/completions", model="gpt-5.3"):
    body = msgspec.json.encode({"model": model, "messages": messages})
    return read(Request(path=path, body=body))


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/messages"])
@pytest.mark.parametrize("begin", [[USER], [SYSTEM, USER]], ids=["user", "system, user"])
def test_it_stays_while_the_conversation_grows(path, begin):
    first = conversation_opening(call([*begin, *ROUND], path))
    assert first
    for rounds in (2, 20):
        assert conversation_opening(call([*begin, *ROUND * rounds], path)) == first


def test_a_question_that_is_sent_again_begins_the_same():
    assert conversation_opening(call([USER])) == conversation_opening(call([USER])) != b""


@pytest.mark.parametrize(
    ("messages", "model"),
    [
        ([SYSTEM, {**USER, "content": "Fix the failing build."}], "gpt-5.3"),
        ([{**SYSTEM, "content": "You are careless."}, USER], "gpt-5.3"),
        ([SYSTEM, USER], "gpt-5.3-mini"),
    ],
    ids=["another question", "another system prompt", "another model"],
)
def test_it_tells_conversations_apart(messages, model):
    assert conversation_opening(call(messages, model=model)) != conversation_opening(
        call([SYSTEM, USER])
    )


def test_what_is_no_conversation_has_none():
    assert conversation_opening(read(Request(method="GET", path="/v1/models"))) == b""
    assert conversation_opening(call([])) == b""


def test_it_is_short_however_long_a_prompt_is():
    assert len(conversation_opening(call([{**USER, "content": "x" * 1_000_000}]))) < 1_000


def test_half_a_character_in_a_name_does_no_harm():
    one = call([USER])
    one.model = "\ud800"
    assert conversation_opening(one)
