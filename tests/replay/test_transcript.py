"""Pasted text: whatever form a conversation has, it is read as the requests it came in."""

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.dialect.tool_uses import tool_uses
from tests.replay.captured import DIALECTS, MODEL, TOOL
from tests.replay.capturing import Capturing
from tests.replay.recorded import anthropic_round, line, openai_round, stuck

from looptrap.errors import CallError
from looptrap.replay.transcript import REQUEST_INTERVAL_S, read_transcript

ROUNDS = 3


def lengths(text):
    return [len(one.call.raws) for one in read_transcript(text).requests]


def jsonl(*values):
    return "\n".join(json.dumps(one) for one in values)


GROWING = [{"model": "m", "messages": stuck(rounds)} for rounds in range(4)]
SAME = [{"model": "m", "messages": stuck(0)}] * 4


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(json.dumps({"messages": stuck(3)}), [1, 3, 5, 7], id="a request"),
        pytest.param(json.dumps({"messages": stuck(3)}, indent=2), [1, 3, 5, 7], id="indented"),
        pytest.param(json.dumps(stuck(3)), [1, 3, 5, 7], id="a list of messages"),
        pytest.param(jsonl(*stuck(3)), [1, 3, 5, 7], id="a message a line"),
        pytest.param(json.dumps(stuck(3)[:-1]), [1, 3, 5], id="with an answer at the end"),
        pytest.param(line(stuck(3)).decode(), [1, 3, 5, 7], id="a recorded run"),
        pytest.param(jsonl(*GROWING), [1, 3, 5, 7], id="a request a line"),
        pytest.param(json.dumps(GROWING), [1, 3, 5, 7], id="a list of requests"),
        pytest.param(jsonl(*SAME), [1, 1, 1, 1], id="the same request again"),
        pytest.param("\n\n" + jsonl(*SAME) + "\n\n", [1, 1, 1, 1], id="blank lines around"),
        pytest.param(json.dumps({"prompt": "Hi", "model": "m"}), [1], id="a completion"),
    ],
)
def test_every_form_is_read_as_requests_in_a_row(text, expected):
    assert lengths(text) == expected


@pytest.mark.parametrize("dialect", [name for name in DIALECTS if name != "openai_completions"])
@pytest.mark.parametrize("form", ["a request", "its messages"])
def test_every_dialect_is_told_and_grows_round_by_round(dialect, form):
    _, write = DIALECTS[dialect]
    body = write(ROUNDS)
    field = next(name for name in ("messages", "contents", "input") if name in body)
    text = json.dumps(body if form == "a request" else body[field])
    requests = read_transcript(text).requests
    assert {one.call.dialect for one in requests} == {dialect}
    assert len(requests) == 1 + ROUNDS
    for rounds, one in enumerate(requests):
        called = [use for use in tool_uses(one.call) if use.call.name == TOOL]
        assert [use.result is not None for use in called] == [True] * rounds
    if form == "a request":
        assert requests[0].call.model == (MODEL if dialect != "gemini" else "unknown")


@pytest.mark.parametrize("form", ["content", "digests"])
@pytest.mark.parametrize("calls", [1, 4])
def test_captured_calls_are_read_as_they_came(tmp_path, form, calls):
    capture = Capturing(tmp_path / "calls", form)
    for rounds in range(4 - calls, 4):
        capture.call(stuck(rounds), session="run")
    requests = read_transcript(capture.files[0].read_text()).requests
    assert [len(one.call.raws) for one in requests] == [1, 3, 5, 7]
    assert len({one.now for one in requests}) == 4


def test_of_several_runs_the_first_is_read_and_that_is_said(tmp_path):
    text = "\n".join(line(stuck(rounds), id=str(rounds)).decode() for rounds in (2, 5))
    assert lengths(text) == [1, 3, 5]
    capture = Capturing(tmp_path / "calls")
    for session in ("one", "two"):
        capture.run(stuck(2), session=session)
    for one in (text, capture.files[0].read_text()):
        assert read_transcript(one).limits == ["There are 2 runs; the first was judged."]


def test_answers_are_known_where_they_stand_there():
    said = {"role": "assistant", "content": "Done."}
    assert [one.answer for one in read_transcript(json.dumps([*stuck(0), said])).requests] == [
        "Done."
    ]


def test_requests_without_times_come_within_any_window():
    assert [one.now for one in read_transcript(json.dumps(stuck(2))).requests] == [
        0,
        REQUEST_INTERVAL_S,
        2 * REQUEST_INTERVAL_S,
    ]
    timed = [{**one, "t": 60.0 * place} for place, one in enumerate(stuck(2))]
    assert [one.now for one in read_transcript(json.dumps(timed)).requests] == [0, 120, 240]


DEEP = "[" * 100_000


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "nothing to read"),
        (" \n\t", "nothing to read"),
        ("hello", "the text is not JSON"),
        ("{", "the text is not JSON"),
        ("\x00\x01\x02", "the text is not JSON"),
        ("�PNG\r\n", "the text is not JSON"),
        (DEEP, "nested too deeply"),
        ('{"messages": ' + DEEP, "nested too deeply"),
        ("[]", "the list is empty"),
        ("42", "number 1 is 42"),
        ('"text"', 'number 1 is the text "text"'),
        ("null", "number 1 is null"),
        ("[1, 2]", "number 1 is 1"),
        ('[{"role": "user"}, "x"]', 'number 2 is the text "x"'),
        ("{}", "neither messages nor any field of a request"),
        ('{"a": 1}', "neither messages nor any field of a request"),
        ('{"messages": []}', "has no messages"),
        ('{"messages": 7}', "messages"),
        ('{"messages": "x"}', "messages"),
        ('{"contents": 7}', "in no known dialect"),
        ('{"input": 7}', "in no known dialect"),
        ('{"jsonrpc": 7}', "in no known dialect"),
        (jsonl(SAME[0]) + "\n{", "line 2 is not JSON"),
        (jsonl(SAME[0], {"a": 1}), "number 2 is a request in no known dialect"),
        ('{"looptrap": 1}', "number 1 is not a captured call"),
        ('{"looptrap": 2, "messages": []}', "number 1 is not a captured call"),
        (jsonl({"looptrap": 1, "t": 0, "run": "a", "kept": 3, "form": "content", "path": "/",
                "dialect": "openai_chat"}), "number 1 needs 3 messages"),
    ],
    ids=["empty", "blank", "words", "cut off", "control characters", "an image", "deep",
         "deep inside", "an empty list", "a number", "a string", "null", "a list of numbers",
         "a string among messages", "an empty object", "another object", "no messages",
         "messages that are a number", "messages that are a text", "contents that are a number",
         "input that is a number", "JSON-RPC that is none", "a broken line", "no request",
         "a capture cut off", "a capture of another version", "a capture without its beginning"],
)  # fmt: skip
def test_what_cannot_be_read_is_told_in_words(text, says):
    with pytest.raises(CallError) as told:
        read_transcript(text)
    assert says in str(told.value)
    assert len(str(told.value)) < 400


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4)
    | st.dictionaries(
        st.sampled_from(["role", "content", "messages", "contents", "parts", "input", "type",
                         "tool_calls", "looptrap", "prompt", "jsonrpc", "id", "text", "t"])
        | st.text(max_size=4),
        inner,
        max_size=4,
    ),
    max_leaves=12,
)  # fmt: skip


def is_read_or_refused(text):
    try:
        pasted = read_transcript(text)
    except CallError:
        return True
    return all(isinstance(one.call.messages, list) for one in pasted.requests)


@given(values=st.lists(JSON_VALUES, min_size=1, max_size=3))
def test_whatever_json_it_is_it_is_read_or_refused(values):
    assert is_read_or_refused(json.dumps(values))
    assert is_read_or_refused(json.dumps(values[0]))
    assert is_read_or_refused(jsonl(*values))


@given(text=st.text())
def test_whatever_text_it_is_it_is_read_or_refused(text):
    assert is_read_or_refused(text)


def test_both_styles_are_told_apart_without_anything_around_them():
    dialects = [
        read_transcript(msgspec.json.encode(stuck(2, style)).decode()).requests[0].call.dialect
        for style in (openai_round, anthropic_round)
    ]
    assert dialects == ["openai_chat", "anthropic"]
