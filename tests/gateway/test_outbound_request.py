"""The model's name in the bytes of a request: only it changes."""

import gzip
import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.gateway.serving import CHAT, JSON, chat
from tests.gateway.upstream_serving import attempting

from looptrap.gateway.upstream.outbound_request import (
    find_model_slices,
    replace_model,
    replace_model_in_path,
)
from looptrap.testing import Reply

NAMED = """
[[routes]]
select = { path_prefix = "/v1" }
chain = ["one/new-model"]
"""


def renamed(body, model="new"):
    spots = find_model_slices(body)
    return None if spots is None else replace_model(body, spots, model)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b'{"model":"old"}', b'{"model":"new"}'),
        (b' { "model" :\n "old" , "a":1}\n', b' { "model" :\n "new" , "a":1}\n'),
        (b'{"a":{"model":"old"},"model":"old"}', b'{"a":{"model":"old"},"model":"new"}'),
        (b'{"a":[{"model":"old"}],"b":"model"}', b'{"a":[{"model":"old"}],"b":"model"}'),
        (b'{"mod\\u0065l":"old"}', b'{"mod\\u0065l":"new"}'),
        (b'{"model":"a","model":"b"}', b'{"model":"new","model":"new"}'),
        (b'{"model":"a","x":[{"model":"b"}],"model":"c"}',
         b'{"model":"new","x":[{"model":"b"}],"model":"new"}'),
        (b'{"model":"a","m\\u006fdel":"b"}', b'{"model":"new","m\\u006fdel":"new"}'),
        (b'{"x":"\\"model\\":\\"old\\"","model":"\\"old"}',
         b'{"x":"\\"model\\":\\"old\\"","model":"new"}'),
        (b'{"a":1,"a":2,"x":"model"}', b'{"a":1,"a":2,"x":"model"}'),
        (b'{"a":1}', b'{"a":1}'),
        (b'{"model":7}', None),
        (b'{"model":null,"model":"x"}', None),
        (b'["model","x"]', None),
        (b'{"model":"x"', None),
        (b"", None),
    ],
)  # fmt: skip
def test_only_the_model_changes(body, expected):
    assert renamed(body) == expected


def test_a_name_is_written_as_json():
    assert renamed(b'{"model":"a"}', 'a"b\n') == b'{"model":"a\\"b\\n"}'


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text() | st.just("model"),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text() | st.just("model"), inner, max_size=3)
    ),
    max_leaves=12,
)


@given(
    before=st.dictionaries(st.text(), values, max_size=3),
    after=st.dictionaries(st.text(), values, max_size=3),
    doubled=st.booleans(),
    ascii_only=st.booleans(),
)
def test_whatever_stands_around_it_stays(before, after, doubled, ascii_only):
    def fields(some):
        pairs = {name: value for name, value in some.items() if name != "model"}.items()
        return [
            f"{json.dumps(k, ensure_ascii=ascii_only)}: {json.dumps(v, ensure_ascii=ascii_only)}"
            for k, v in pairs
        ]

    def body(model):
        named = [f'"model": "{model}"']
        parts = fields(before) + named + fields(after) + (named if doubled else [])
        return ("{" + ", ".join(parts) + "}").encode("utf-8", "surrogatepass")

    found = renamed(body("old"))
    try:
        msgspec.json.decode(body("old"))
    except (msgspec.MsgspecError, ValueError):
        return  # what is no JSON is left alone
    assert found == body("new")


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        (b"/v1beta/models/a:generateContent", b"/v1beta/models/g%2Fx:generateContent"),
        (b"/v1/models/a:countTokens?alt=sse", b"/v1/models/g%2Fx:countTokens?alt=sse"),
        (b"/v1/projects/p/locations/l/publishers/google/models/a:streamGenerateContent",
         b"/v1/projects/p/locations/l/publishers/google/models/g%2Fx:streamGenerateContent"),
        (b"/v1beta/models", b"/v1beta/models"),
    ],
)  # fmt: skip
def test_gemini_has_it_in_the_path(target, expected):
    assert replace_model_in_path(target, "g/x") == expected


async def received(tmp_path, body, target=CHAT, headers=None):
    async with attempting(tmp_path, NAMED, scripts={"one": [Reply.text("ok")]}) as here:
        answer = await here.gateway.ask(target=target, headers=JSON | (headers or {}), body=body)
        assert answer.status == 200
        (one,) = here.providers["one"].requests
        return one


@pytest.mark.parametrize("sent", ["m", "gpt-5.3", "a-name-that-is-longer-than-the-new-one"])
async def test_a_body_arrives_whole_however_long_the_names_are(tmp_path, sent):
    body = chat("model", temperature=0.5).replace(b"gpt-5.3", sent.encode())
    one = await received(tmp_path, body)
    assert one.body == chat("model", temperature=0.5).replace(b"gpt-5.3", b"new-model")


async def test_an_encoded_body_is_sent_in_plain_where_it_changes(tmp_path):
    one = await received(tmp_path, gzip.compress(chat()), headers={"Content-Encoding": "gzip"})
    assert one.json()["model"] == "new-model"
    assert "content-encoding" not in one.headers


async def test_a_body_that_is_vouched_for_is_sent_as_it_is(tmp_path):
    one = await received(tmp_path, chat(), headers={"Content-Digest": "sha-256=:x:"})
    assert one.body == chat()


async def test_gemini_is_asked_for_it(tmp_path):
    body = msgspec.json.encode({"contents": [{"role": "user", "parts": [{"text": "x"}]}]})
    one = await received(tmp_path, body, "/v1beta/models/old:generateContent")
    assert one.target == "/v1beta/models/new-model:generateContent"
    assert one.body == body
