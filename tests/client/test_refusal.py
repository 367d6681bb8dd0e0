"""Refusals read back: whatever dialect told them, and whatever else comes in an answer."""

import pickle

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from looptrap import (
    BudgetExceededError,
    Guard,
    KilledError,
    LoopDetectedError,
    RateLimitedError,
    RefusedError,
)
from looptrap.client.refusal import parse_refusal
from looptrap.dialect.body import read_body
from looptrap.engine.model import refusal_error as raised
from looptrap.policy.action import Action
from looptrap.policy.refusal import refusal as answered
from looptrap.policy.verdict import Verdict

BODIES = {
    "openai_chat": ("/v1/chat/completions", {"messages": [{"role": "user", "content": "x"}]}),
    "openai_responses": ("/v1/responses", {"input": "x"}),
    "anthropic": ("/v1/messages", {"messages": [{"role": "user", "content": "x"}]}),
    "gemini": ("/v1beta/models/g:generateContent", {"contents": [{"parts": [{"text": "x"}]}]}),
}


def looping():
    guard = Guard.from_preset("default")
    request = {"model": "m", "messages": [{"role": "user", "content": "x"}]}
    for _ in range(5):
        guard.check(request, now=1e9)
    with pytest.raises(LoopDetectedError):
        guard.check(request, now=1e9)
    call = read_body(request)
    return guard.admit(call, 1e9).verdict


def verdict(reason, **fields):
    return Verdict(
        action=Action.BLOCK, reason=reason, rule="r", message="Blocked: x.", count=104, **fields
    )


@pytest.mark.parametrize("dialect", BODIES)
@pytest.mark.parametrize(
    ("verdict", "kind"),
    [
        pytest.param(looping(), LoopDetectedError, id="loop"),
        pytest.param(verdict("budget_exceeded", fingerprint="f"), BudgetExceededError, id="budget"),
        pytest.param(verdict("rate_limited", retry_after=7.0), RateLimitedError, id="rate"),
        pytest.param(verdict("killed"), KilledError, id="kill"),
    ],
)
def test_what_a_client_reads_is_what_the_guard_would_raise(verdict, kind, dialect):
    path, body = BODIES[dialect]
    answer = answered(read_body(body, path), verdict, shadow=None, request_id="r", block_status=429)
    headers = {name.decode().lower(): value.decode() for name, value in answer.headers}
    read = parse_refusal(msgspec.json.decode(answer.body), headers)
    assert type(read) is kind
    assert vars(read) == vars(raised(verdict))
    assert str(read) == str(raised(verdict))
    inside = {"error": msgspec.json.decode(answer.body)}  # as LiteLLM's proxy passes it on
    assert vars(parse_refusal(inside, headers)) == vars(read)
    again = pickle.loads(pickle.dumps(read))
    assert (type(again), vars(again), str(again)) == (kind, vars(read), str(read))


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=5,
)
CODES = ["recursive_loop_detected", "budget_exceeded", "rate_limited", "killed"]


@given(body=anything, headers=st.dictionaries(st.just("retry-after"), st.text()))
def test_whatever_else_an_answer_says_is_no_refusal(body, headers):
    assert parse_refusal(body, headers) is None
    assert parse_refusal({"detail": body}, headers) is None


@given(
    detail=st.dictionaries(
        st.sampled_from(["message", "rule", "fingerprint", "hit_count", "evidence"]), anything
    ),
    code=st.sampled_from(CODES),
    headers=st.dictionaries(st.just("retry-after"), st.text()),
)
def test_a_refusal_that_says_odd_things_is_still_one(detail, code, headers):
    assert isinstance(parse_refusal({"detail": {**detail, "error": code}}, headers), RefusedError)
