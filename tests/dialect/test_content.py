"""Canonical JSON, flattened text and names of tools: what all dialects read alike."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from looptrap.dialect.content import (
    MAX_MENDED_BYTES,
    canonical,
    canonical_arguments,
    flatten,
    malformed_message,
    mend,
    patch,
    tool_names,
)
from looptrap.dialect.model import Message
from looptrap.dialect.path import model_in_path

KEYS = st.text(max_size=4)
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | KEYS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=15,
)


@given(value=JSON, indent=st.sampled_from([None, 0, 2]))
def test_spacing_and_key_order_are_gone(value: Any, indent: int | None) -> None:
    plain = json.dumps(value)
    sorted_and_spaced = json.dumps(value, indent=indent, sort_keys=True, ensure_ascii=False)
    assert canonical_arguments(plain) == canonical_arguments(sorted_and_spaced)


@given(value=JSON)
def test_canonical_arguments_are_the_same_value_and_stay_as_they_are(value: Any) -> None:
    text = canonical_arguments(json.dumps(value))
    assert json.loads(text) == value
    assert canonical_arguments(text) == text


@given(one=JSON, other=JSON)
def test_different_values_have_different_text(one: Any, other: Any) -> None:
    # As Python sees them 1 == 1.0 == True; as text they are three things, as they should be.
    assert (canonical(one) == canonical(other)) <= (one == other)


@given(text=st.text())
def test_any_text_can_be_arguments(text: str) -> None:
    assert isinstance(canonical_arguments(text), str)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        pytest.param(None, "", id="nothing"),
        pytest.param("a", "a", id="text"),
        pytest.param([], "", id="no parts"),
        pytest.param([{"type": "text", "text": "a"}, "b"], "a\nb", id="parts and strings"),
        pytest.param([{"type": "text", "text": ""}, "b"], "b", id="an empty part leaves no line"),
        pytest.param([{"type": "thinking", "thinking": "x"}, "b"], "b", id="a thought"),
        pytest.param({"type": "text", "text": "a"}, "a", id="one part"),
        pytest.param({"b": 1, "a": 2}, '{"a":2,"b":1}', id="an object that is no part"),
        pytest.param([1, [2]], "1\n[2]", id="other values"),
    ],
)
def test_content_is_flattened(content: Any, expected: str) -> None:
    assert flatten(content) == expected


def test_other_parts_are_shown_by_kind_and_digest() -> None:
    part = {"type": "file", "file": {"file_id": "f1"}}
    text = flatten([part])
    assert text.startswith("[file ")
    assert text == flatten([{"file": {"file_id": "f1"}, "type": "file"}])
    assert text == flatten([part | {"cache_control": {"type": "ephemeral"}}])
    assert text != flatten([{"type": "file", "file": {"file_id": "f2"}}])


@pytest.mark.parametrize(
    ("offered", "names"),
    [
        ([{"type": "function", "function": {"name": "a"}}], ("a",)),
        ([{"type": "function", "name": "a"}, {"type": "web_search"}], ("a", "web_search")),
        ([{"type": "custom", "custom": {"name": "a"}}], ("a",)),
        ([{"name": "a", "input_schema": {}}], ("a",)),
        (
            [{"functionDeclarations": [{"name": "a"}, 5]}, {"googleSearch": {}}],
            ("a", "googleSearch"),
        ),
        ([None, 5, "x", [], {}, {"name": 5}, {"type": {}}], ("type",)),
        (None, ()),
        ({"name": "a"}, ()),
    ],
)
def test_names_of_tools(offered: Any, names: tuple[str, ...]) -> None:
    assert tool_names(msgspec.Raw(json.dumps(offered).encode())) == names


def test_broken_tools_have_no_names() -> None:
    assert tool_names(msgspec.Raw(b'[{"name":"\xff"}]')) == ()


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (b'{"x": 1, "role": "developer"}', Message("system", '{"role":"developer","x":1}')),
        (b"[1, 2]", Message("", "[1,2]")),
        (b'{"x": 1e999, "role": "user"}', Message("user", '{"role":"user","x":"1e999"}')),
        (b"\xff", Message("", "\N{REPLACEMENT CHARACTER}")),
    ],
)
def test_a_malformed_message_is_shown_as_its_json(raw: bytes, expected: Message) -> None:
    assert malformed_message(msgspec.Raw(raw)) == expected


@pytest.mark.parametrize(
    ("body", "mended"),
    [
        (b'{"a": "\\ud83d"}', '{"a":"\N{REPLACEMENT CHARACTER}"}'.encode()),
        (b'{"a": "\\ud83d\\ude00"}', '{"a":"\U0001f600"}'.encode()),
        (b'{"a": "\xff"}', '{"a":"\N{REPLACEMENT CHARACTER}"}'.encode()),
        (b'{"a": -Infinity}', b'{"a":"-Infinity"}'),
        (b'{"a": 1e400}', b'{"a":"1e400"}'),
        (b'{"a": %b}' % (b"9" * 5000), b'{"a":"%b"}' % (b"9" * 5000)),
        (b'{"a": "\t"}', b'{"a":"\\t"}'),
        (b'\xef\xbb\xbf{"a": 1}', b'{"a":1}'),
        ('{"a": 1}'.encode("utf-16"), b'{"a":1}'),
        ('{"a": 1}'.encode("utf-32-be"), b'{"a":1}'),
    ],
)
def test_what_is_nearly_json_is_mended(body: bytes, mended: bytes) -> None:
    assert mend(body) == mended


def test_what_is_nested_too_deeply_is_cut_off_there_and_nothing_else_is_lost() -> None:
    def deep(inner: str) -> bytes:
        nested = "[" * 2_000 + inner + "]" * 2_000
        return f'{{"before":"]}}","deep":{nested},"after":[1]}}'.encode()

    value, same, other = (msgspec.json.decode(mend(deep(one))) for one in ("1", "1", "2"))
    assert (value["before"], value["after"]) == ("]}", [1])
    assert value == same
    assert value != other


def test_what_is_too_large_to_be_mended_is_not() -> None:
    with pytest.raises(ValueError, match="more than"):
        mend(b'{"a":NaN,"b":"%b"}' % (b"b" * MAX_MENDED_BYTES))


def test_halves_of_characters_are_replaced_at_any_size() -> None:
    text = b'{"a":"%b\\ud83d and \\ud83d\\ude00"}' % (b"a" * MAX_MENDED_BYTES)
    assert msgspec.json.decode(patch(text))["a"].endswith("a\ufffd and \U0001f600")


@pytest.mark.parametrize(
    ("path", "model"),
    [
        ("/v1/chat/completions", ""),
        ("/openai/deployments/gpt%2Dprod/chat/completions", "gpt-prod"),
        ("/v1beta/models/gemini-x:generateContent", "gemini-x"),
        ("/v1/publishers/anthropic/models/claude@1:rawPredict", "claude@1"),
        ("/v1/ft:gpt/chat/completions", ""),
        ("", ""),
    ],
)
def test_paths_may_name_the_model(path: str, model: str) -> None:
    assert model_in_path(path) == model
