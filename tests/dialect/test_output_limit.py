"""The most that a call lets its model write: what a budget has to reserve."""

import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from looptrap.dialect.model import MAX_TOKENS, Request
from looptrap.dialect.output_limit import max_output, runs_on
from looptrap.dialect.registry import read

ASSUMED = 4_096

CHAT = "/v1/chat/completions"
TEXT = "/v1/completions"
RESPONSES = "/v1/responses"
GEMINI = "/v1beta/models/gemini-2.5-pro:generateContent"

SHAPES = {
    CHAT: {"model": "m", "messages": [{"role": "user", "content": "Hi"}]},
    TEXT: {"model": "m", "prompt": "Hi"},
    RESPONSES: {"model": "m", "input": "Hi"},
    GEMINI: {"contents": [{"parts": [{"text": "Hi"}]}]},
}


def call(path, **fields):
    return read(Request(path=path, body=json.dumps({**SHAPES[path], **fields}).encode()))


def config(**fields):
    return {"generationConfig": fields}


@pytest.mark.parametrize(
    ("path", "fields", "expected"),
    [
        pytest.param(CHAT, {}, ASSUMED, id="no limit"),
        pytest.param(CHAT, {"max_tokens": None}, ASSUMED, id="a limit of null"),
        pytest.param(CHAT, {"max_tokens": 7}, 7, id="a limit"),
        pytest.param(CHAT, {"max_tokens": 7, "n": 3}, 21, id="several choices"),
        pytest.param(CHAT, {"n": 128}, 128 * ASSUMED, id="choices without a limit"),
        pytest.param(CHAT, {"n": 0, "max_tokens": 7}, 7, id="no choice is one"),
        pytest.param(CHAT, {"n": -5, "max_tokens": 7}, 7, id="fewer than none are one"),
        pytest.param(
            CHAT, {"max_completion_tokens": 1, "max_tokens": 512_000}, 512_000, id="two limits"
        ),
        pytest.param(
            CHAT, {"max_tokens": 1, "max_completion_tokens": 90}, 90, id="the other way round"
        ),
        pytest.param(CHAT, {"max_tokens": 1, "max_output_tokens": 90}, 90, id="another's limit"),
        pytest.param(CHAT, {"max_tokens": -1}, ASSUMED, id="less than nothing"),
        pytest.param(CHAT, {"max_tokens": 0}, ASSUMED, id="nothing"),
        pytest.param(CHAT, {"max_tokens": -1, "max_output_tokens": 1}, ASSUMED, id="or unlimited"),
        pytest.param(CHAT, {"max_tokens": True}, ASSUMED, id="a truth"),
        pytest.param(CHAT, {"max_tokens": []}, ASSUMED, id="a list"),
        pytest.param(CHAT, {"max_tokens": "many"}, ASSUMED, id="a word"),
        pytest.param(CHAT, {"max_tokens": "5000"}, 5_000, id="a number as text"),
        pytest.param(CHAT, {"max_tokens": 5_000.0}, 5_000, id="with a point"),
        pytest.param(CHAT, {"max_tokens": 0.5}, 1, id="half a token"),
        pytest.param(CHAT, {"max_tokens": 10**400}, ASSUMED, id="401 digits"),
        pytest.param(CHAT, {"max_tokens": 1e308}, ASSUMED, id="the largest float"),
        pytest.param(CHAT, {"max_tokens": MAX_TOKENS}, ASSUMED, id="more than any call has"),
        pytest.param(CHAT, {"max_tokens": MAX_TOKENS - 1}, MAX_TOKENS - 1, id="just not"),
        pytest.param(CHAT, {"n": 10**400}, MAX_TOKENS, id="choices of 401 digits"),
        pytest.param(CHAT, {"n": 1e308, "max_tokens": 1}, MAX_TOKENS, id="a float of choices"),
        pytest.param(TEXT, {"max_tokens": 7, "n": 2, "best_of": 5}, 35, id="the best of five"),
        pytest.param(TEXT, {"best_of": 5}, 5 * ASSUMED, id="the best of five without a limit"),
        pytest.param(TEXT, {"prompt": ["a", "b"], "max_tokens": 7, "n": 3}, 42, id="two prompts"),
        pytest.param(TEXT, {"prompt": [[1], [2]], "max_tokens": 7}, 14, id="two of tokens"),
        pytest.param(TEXT, {"prompt": [1, 2, 3], "max_tokens": 7}, 7, id="one of tokens"),
        pytest.param(TEXT, {"prompt": [], "max_tokens": 7}, 7, id="no prompt"),
        pytest.param(RESPONSES, {"max_output_tokens": 7}, 7, id="Responses"),
        pytest.param(GEMINI, {}, ASSUMED, id="Gemini without a limit"),
        pytest.param(
            GEMINI, config(maxOutputTokens=7, candidateCount=8), 56, id="Gemini's candidates"
        ),
        pytest.param(
            GEMINI, config(candidateCount=8), 8 * ASSUMED, id="candidates without a limit"
        ),
        pytest.param(
            GEMINI,
            {**config(maxOutputTokens=1), "generation_config": {"max_output_tokens": 90}},
            90,
            id="Gemini's two spellings",
        ),
        pytest.param(GEMINI, config(maxOutputTokens="90"), 90, id="as Google's JSON has int64"),
        pytest.param(GEMINI, {"generationConfig": [1]}, ASSUMED, id="no configuration at all"),
    ],
)
def test_the_largest_limit_counts_for_every_choice(path, fields, expected):
    assert max_output(call(path, **fields), ASSUMED) == expected


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        pytest.param({}, ASSUMED, id="no limit"),
        pytest.param({"max_tokens": 512_000}, 128_000, id="more than fits"),
        pytest.param({"max_tokens": 512_000, "n": 2}, 256_000, id="twice that"),
        pytest.param({"max_tokens": 10**400}, 128_000, id="a limit that is none"),
        pytest.param({"max_tokens": 5}, 5, id="less"),
    ],
)
def test_no_choice_is_larger_than_what_the_model_can_hold(fields, expected):
    assert max_output(call(CHAT, **fields), ASSUMED, 128_000) == expected


def test_a_number_that_python_does_not_convert_hides_no_other():
    body = b'{"model":"m","messages":[],"max_tokens":%b,"max_output_tokens":9000,"n":2}'
    one = read(Request(path=CHAT, body=body % (b"1" * 4_301)))
    assert max_output(one, ASSUMED) == 18_000


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b'{"model":"m","messages":["\\ud83d"],"max_tokens":9000}', id="half an emoji"),
        pytest.param(b'{"model":"m","messages":[NaN],"max_tokens":9000}', id="NaN"),
        pytest.param(b'{"model":"m","messages":[],"\\u006dax_tokens":9000}', id="an escaped name"),
    ],
)
def test_a_limit_is_found_wherever_the_call_can_be_read(body):
    assert max_output(read(Request(path=CHAT, body=body)), ASSUMED) == 9_000


def test_what_generates_nothing_has_no_output():
    one = read(Request(path="/v1/embeddings", body=b'{"model":"m","input":"x","max_tokens":9}'))
    assert max_output(one, ASSUMED) == 0


@pytest.mark.parametrize(
    ("path", "fields", "expected"),
    [
        pytest.param(CHAT, {}, True, id="an answer in one piece"),
        pytest.param(CHAT, {"stream": True}, False, id="a stream"),
        pytest.param(CHAT, {"stream": True, "background": True}, False, id="a field of others"),
        pytest.param(RESPONSES, {"stream": True}, False, id="a stream of Responses"),
        pytest.param(RESPONSES, {"stream": True, "background": True}, True, id="in the background"),
        pytest.param(RESPONSES, {"stream": True, "background": False}, False, id="not there"),
    ],
)
def test_a_provider_works_on_without_a_client_unless_it_streams(path, fields, expected):
    assert runs_on(call(path, **fields)) is expected


limits = st.none() | st.integers() | st.floats(min_value=1) | st.floats(max_value=0)
counts = st.none() | st.integers(-1, 10**6)


@given(
    st.fixed_dictionaries(
        {},
        optional={
            "max_tokens": limits,
            "max_completion_tokens": limits,
            "max_output_tokens": limits,
        },
    ),
    counts,
    counts,
)
@example({"max_tokens": 10**400, "max_completion_tokens": 1}, None, None)
def test_no_provider_can_write_more_than_that_by_the_limits_it_was_sent(sent, n, best_of):
    found = max_output(call(CHAT, **sent, n=n, best_of=best_of), ASSUMED)
    meant = [one for one in sent.values() if isinstance(one, int | float) and 1 <= one < MAX_TOKENS]
    for limit in meant or [ASSUMED]:
        for choices in (n or 1, best_of or 1):
            assert min(limit * choices, MAX_TOKENS) <= found <= MAX_TOKENS


@given(st.binary(max_size=60) | st.text(max_size=60).map(str.encode))
def test_whatever_is_sent_as_a_limit_is_answered(sent):
    body = b'{"model":"m","messages":[],"max_tokens":%b,"n":%b}' % (sent, sent)
    assert 0 <= max_output(read(Request(path=CHAT, body=body)), ASSUMED) <= MAX_TOKENS
