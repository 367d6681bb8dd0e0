"""Rates: buckets of calls and of tokens, and what is left of them."""

import pytest
from tests.money.calling import T, call, rated

from looptrap.dialect.model import Request, Usage
from looptrap.dialect.registry import read
from looptrap.policy.action import Action
from looptrap.policy.policy import Selector
from looptrap.policy.rate import Rate

CALLS = Rate(name="r", rps=20, burst=40)
TOKENS = Rate(name="r", kind="token_bucket_llm", tokens_per_minute=60_000)
MODELS = read(Request(method="GET", path="/v1/models", caller="c"))


def passes(guard, one=None, now=T):
    return not guard.admit(one or call(), now).verdict.action.refuses


def test_a_burst_passes_at_once_and_then_so_many_a_second():
    guard = rated(CALLS)
    assert [passes(guard) for _ in range(41)] == [True] * 40 + [False]
    assert [passes(guard, now=T + 0.06) for _ in range(2)] == [True, False]
    assert [passes(guard, now=T + 1.06) for _ in range(21)] == [True] * 20 + [False]
    assert [passes(guard, now=T + 60) for _ in range(41)] == [True] * 40 + [False]


def test_without_a_burst_it_is_the_calls_of_a_second():
    guard = rated(Rate(name="r", rps=2.5))
    assert [passes(guard) for _ in range(4)] == [True] * 3 + [False]


def test_a_refusal_says_when_to_come_again():
    guard = rated(Rate(name="slow", rps=0.1, burst=1))
    assert passes(guard)
    verdict = guard.admit(call(), T + 4).verdict
    assert (verdict.reason, verdict.policy, verdict.rule) == ("rate_limited", "p", "slow")
    assert verdict.retry_after == pytest.approx(6)
    assert verdict.message == (
        "Blocked (rate_limited): rate limit slow: at most 1 calls. Send it again in 6 seconds."
    )


def test_every_answer_says_what_is_left():
    guard = rated(CALLS)
    assert guard.admit(call(), T).pace == (40, 39, 0.05)
    for _ in range(39):
        passes(guard)
    assert guard.admit(call(), T).pace == (40, 0, 2.0)


def test_of_several_rates_the_one_counts_of_which_the_least_is_left():
    guard = rated(CALLS, Rate(name="tight", rps=1, burst=2))
    assert guard.admit(call(), T).pace.limit == 2


@pytest.mark.parametrize(
    ("sent", "calls"),
    [
        pytest.param("3", 3, id="what it says"),
        pytest.param("2.1", 3, id="rounded up"),
        pytest.param("0.001", 1, id="never nothing"),
        pytest.param(None, 2, id="no word"),
        pytest.param("", 2, id="an empty word"),
        pytest.param("cheap", 2, id="no number"),
        pytest.param("0", 2, id="nothing"),
        pytest.param("-5", 2, id="less than nothing"),
        pytest.param("nan", 2, id="not a number"),
        pytest.param("inf", 2, id="without end"),
        pytest.param("١٢", 2, id="digits that headers do not have"),
    ],
)
@pytest.mark.parametrize("where", ["header", "query"])
def test_a_call_counts_for_what_its_header_or_query_says(where, sent, calls):
    guard = rated(Rate(name="r", rps=1, burst=40, cost=f"{where}:x-cost", default_cost=2))
    told = {}
    if sent is not None:
        told = {"headers": {"x-cost": sent}} if where == "header" else {"query": f"x-cost={sent}"}
    if where == "query" and sent and not sent.isascii():
        calls = 12  # a query is text, and these are digits in it
    assert guard.admit(call(**told), T).pace.remaining == 40 - calls


def test_a_call_that_never_fits_is_told_so():
    guard = rated(Rate(name="r", rps=1, burst=40, cost="header:x-cost"))
    verdict = guard.admit(call(headers={"x-cost": "1e300"}), T).verdict
    assert verdict.message.endswith("This call counts for 1,000,000, which never fits.")
    assert passes(guard), "and takes nothing from the others"


def test_a_call_that_something_else_refuses_is_given_back():
    guard = rated(Rate(name="wide", rps=1, burst=2), Rate(name="tight", rps=1, burst=1))
    assert passes(guard)
    assert not passes(guard)
    assert guard.admit(call(), T + 1).pace.remaining == 0, "of the tight one"
    assert passes(guard, now=T + 2), "the wide one was charged two calls, not three"


class TestTokens:
    def test_are_reserved_before_and_given_back_after(self):
        guard = rated(TOKENS)
        ticket = guard.admit(call(59_000), T)
        assert not passes(guard, call(59_000))
        guard.used(ticket, Usage(10, 90), T)
        assert ticket.verdict.action is Action.ALLOW
        assert passes(guard, call(59_000))

    def test_that_were_used_beyond_the_forecast_count_too(self):
        guard = rated(TOKENS)
        ticket = guard.admit(call(10), T)
        guard.used(ticket, Usage(30_000, 90_000), T)
        assert not passes(guard, call(1), T + 59)
        assert passes(guard, call(1), T + 61)

    def test_come_back_evenly(self):
        guard = rated(TOKENS)
        ticket = guard.admit(call(1_000), T)
        guard.used(ticket, Usage(0, 60_000), T)
        assert not passes(guard, call(9_900), T + 9)
        assert passes(guard, call(9_900), T + 10.1)

    def test_of_a_day_come_back_at_midnight(self):
        guard = rated(Rate(name="r", kind="token_bucket_llm", tokens_per_day=1_000))
        guard.used(guard.admit(call(900), T), Usage(0, 900), T)
        midnight = (T // 86_400 + 1) * 86_400
        refused = guard.admit(call(900), midnight - 100)
        assert refused.verdict.retry_after == 60, "at most a minute: some clients sleep it all"
        assert "Send it again in 100 seconds." in refused.verdict.message
        assert refused.pace.reset == pytest.approx(100)
        assert passes(guard, call(900), midnight)

    def test_a_burst_may_be_larger_than_a_minute(self):
        large = Rate(
            name="r", kind="token_bucket_llm", tokens_per_minute=60_000, burst_tokens=90_000
        )
        assert passes(rated(large), call(80_000))
        assert not passes(rated(TOKENS), call(80_000))

    def test_an_answer_without_a_limit_is_taken_to_need_what_the_rate_says(self):
        left = rated(TOKENS).admit(call(0), T).pace.remaining
        assert 60_000 - 1_000 - 100 < left < 60_000 - 1_000

    def test_are_not_counted_of_what_generates_none(self):
        assert rated(TOKENS).admit(MODELS, T).pace is None
        assert rated(CALLS).admit(MODELS, T).pace.remaining == 39


@pytest.mark.parametrize(
    ("settings", "sent", "is_counted"),
    [
        pytest.param({"match": (("jwt:plan", "free"),)}, {"plan": "free"}, True, id="a match"),
        pytest.param({"match": (("jwt:plan", "free"),)}, {"plan": "pro"}, False, id="another"),
        pytest.param({"match": (("jwt:plan", "free"),)}, {}, False, id="nothing to match"),
        pytest.param(
            {"match": (("jwt:plan", "free"), ("jwt:org", "o"))},
            {"plan": "free"},
            False,
            id="half a match",
        ),
        pytest.param({"unless": ((("jwt:plan", "pro"),),)}, {"plan": "pro"}, False, id="spared"),
        pytest.param({"unless": ((("jwt:plan", "pro"),),)}, {}, True, id="not spared"),
        pytest.param(
            {"unless": ((("jwt:plan", "pro"),), (("jwt:org", "o"),))},
            {"org": "o"},
            False,
            id="spared by the second",
        ),
    ],
)
def test_a_rate_counts_those_whom_it_names(settings, sent, is_counted):
    guard = rated(Rate(name="r", rps=1, **settings))
    assert (guard.admit(call(claims=sent), T).pace is not None) is is_counted


def test_a_policy_says_which_calls_are_counted():
    guard = rated(CALLS, select=Selector(path_prefix="/v1/chat/"))
    assert guard.admit(MODELS, T).pace is None


def test_a_rate_that_is_off_counts_nothing():
    assert rated(Rate(name="r", rps=1, enabled=False)).admit(call(), T).pace is None


@pytest.mark.parametrize("rate", [Rate(name="r", rps=1), TOKENS], ids=["calls", "tokens"])
def test_in_shadow_nothing_is_refused_and_nothing_promised(rate):
    guard = rated(rate, mode="shadow")
    tickets = [guard.admit(call(40_000), T) for _ in range(3)]
    assert [one.verdict.action for one in tickets] == [Action.ALLOW] * 3
    assert [one.shadow and one.shadow.reason for one in tickets] == [
        None,
        "rate_limited",
        "rate_limited",
    ]
    assert [one.pace for one in tickets] == [None] * 3
    told = tickets[-1].shadow.message
    assert told.startswith("Would have been refused (rate_limited): rate limit ")
    assert "Send it again" not in told
