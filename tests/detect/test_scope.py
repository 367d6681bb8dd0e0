"""What counts as the same, scope by scope."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from looptrap.detect import scope
from looptrap.dialect.model import Request
from looptrap.dialect.registry import read

CHAT = "/v1/chat/completions"


def user(text):
    return {"role": "user", "content": text}


def assistant(name="search", arguments='{"q": 1}', call_id="c1", text=None):
    function = {"name": name, "arguments": arguments}
    call = {"id": call_id, "type": "function", "function": function}
    return {"role": "assistant", "content": text, "tool_calls": [call]}


def result(text, call_id="c1"):
    return {"role": "tool", "tool_call_id": call_id, "content": text}


def searched(call_id):
    """Return a round."""
    return assistant(call_id=call_id), result("r", call_id)


def chat(*messages, **more):
    return read(
        Request(path=CHAT, body=json.dumps({"model": "m", "messages": messages, **more}).encode())
    )


ALL = scope.conversation(3, True, "exact")
CONTENT = scope.conversation(3, False, "exact")
MASKED = scope.conversation(3, True, "masked")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        pytest.param(chat(user("Go on")), chat(user("go  ON\n")), id="case and white space"),
        pytest.param(
            chat(user("x"), assistant(call_id="c1"), result("r", "c1")),
            chat(user("x"), assistant(call_id="c9"), result("r", "c9")),
            id="the id of the only round",
        ),
        pytest.param(
            chat(*searched("c1"), *searched("c2"), user("y")),
            chat(*searched("c8"), *searched("c9"), user("y")),
            id="ids of tool calls before a prompt",
        ),
        pytest.param(
            chat(assistant(arguments='{"a": 1, "b": [2]}')),
            chat(assistant(arguments='{"b":[2],"a":1}')),
            id="key order and spacing of arguments",
        ),
        pytest.param(
            chat(user("old"), user("a"), user("b"), user("c")),
            chat(user("older"), user("a"), user("b"), user("c")),
            id="what lies before the tail",
        ),
        pytest.param(chat(user("x"), temperature=0), chat(user("x"), temperature=1), id="sampling"),
    ],
)
def test_the_same_conversation(one, other):
    assert ALL(one) == ALL(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        pytest.param(chat(user("pump 5")), chat(user("pump 6")), id="a number"),
        pytest.param(
            chat(*searched("c1"), *searched("c2")),
            chat(*searched("c1"), *searched("c9")),
            id="the id of the latest round after another",
        ),
        pytest.param(chat(user("x")), chat(user("x"), model="n"), id="the model"),
        pytest.param(chat(user("x")), chat({"role": "system", "content": "x"}), id="the role"),
        pytest.param(chat(user("a|b"), user("c")), chat(user("a"), user("b|c")), id="a separator"),
        pytest.param(chat(user("a"), user("b")), chat(user("a b")), id="the split"),
        pytest.param(chat(assistant("search")), chat(assistant("find")), id="the tool"),
        pytest.param(
            chat(assistant(arguments='{"q":1}')),
            chat(assistant(arguments='{"q":2}')),
            id="arguments",
        ),
        pytest.param(
            chat(assistant(), result("a")), chat(assistant(), result("b")), id="the result"
        ),
        pytest.param(
            chat(user("x"), assistant(), result("running"), assistant(), result("running")),
            chat(user("x"), *[assistant(), result("running")] * 3),
            id="a longer history behind the same results: polling",
        ),
        pytest.param(
            chat(user("x"), assistant(text="a"), result("b")),
            chat(user("x"), assistant(text="b"), result("a")),
            id="which text is whose",
        ),
    ],
)
def test_another_conversation(one, other):
    assert ALL(one) != ALL(other)


def test_only_texts_count_when_a_rule_says_so():
    one = chat(user("x"), assistant("search", text="let me see"), result("r"))
    other = chat(user("x"), assistant("find", text="let me see"), result("r"))
    assert CONTENT(one) == CONTENT(other)
    assert CONTENT(one) != CONTENT(chat(user("x"), assistant(text="let me see"), result("s")))


def test_masked_passes_over_what_is_volatile():
    one, other = chat(user("attempt 3: why?")), chat(user("attempt 4: why?"))
    assert MASKED(one) == MASKED(other)
    assert ALL(one) != ALL(other)
    assert MASKED(chat(user("pump 5"))) != MASKED(chat(user("pump 6")))


def test_what_generates_nothing_is_no_conversation():
    embeddings = read(Request(path="/v1/embeddings", body=b'{"model":"m","input":"x"}'))
    assert ALL(embeddings) is None
    assert ALL(read(Request(method="GET", path="/v1/models"))) is None


def shuffled(value):
    """The same JSON value with its keys in another order."""
    if isinstance(value, dict):
        return {key: shuffled(value[key]) for key in reversed(value)}
    return [shuffled(one) for one in value] if isinstance(value, list) else value


values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=4)
    ),
    max_leaves=12,
)


@given(arguments=st.dictionaries(st.text(max_size=5), values, max_size=5))
def test_key_order_and_spacing_never_change_a_fingerprint(arguments):
    def bodies(value, indent):
        call = assistant(arguments=json.dumps(value, indent=indent))
        whole = {"model": "m", "messages": [user("x"), call], "metadata": value}
        return json.dumps(whole if indent else shuffled(whole), indent=indent).encode()

    one, other = bodies(arguments, None), bodies(shuffled(arguments), 2)
    calls = [read(Request(path=CHAT, body=body)) for body in (one, other)]
    assert len({ALL(call) for call in calls}) == 1
    plain = scope.request(False, False)
    meta = [
        json.dumps(v, indent=i).encode() for v, i in ((arguments, None), (shuffled(arguments), 1))
    ]
    assert len({plain(read(Request(path="/x", body=body))) for body in meta}) == 1


@pytest.mark.parametrize(
    ("change", "same"),
    [
        pytest.param({}, True, id="nothing"),
        pytest.param({"query": "b=2&a=1"}, True, id="order of the query"),
        pytest.param({"query": "a=1&b=3"}, False, id="a value of the query"),
        pytest.param({"method": "PUT"}, False, id="the method"),
        pytest.param({"path": "/other"}, False, id="the path"),
        pytest.param({"body": b"other"}, False, id="the body"),
    ],
)
def test_the_same_request(change, same):
    content = scope.request(False, False)
    asked = {"method": "POST", "path": "/things", "query": "a=1&b=2", "body": b"raw \xff\x00"}
    one, other = (content(read(Request(**fields))) for fields in (asked, {**asked, **change}))
    assert (one == other) is same
