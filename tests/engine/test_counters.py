"""The tally: plain numbers, of which there are never too many."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from looptrap.dialect.model import Call, Outcome, Request, Usage
from looptrap.engine import Counters, Guard, Ticket
from looptrap.engine.counters import MAX_CALLERS, MAX_MODELS, CappedDict, Histogram


def settled(guard, model="m", status=200, provider="p", caller="", usage=None, cost=None):
    call = Call(Request(caller=caller, project="research"), "openai_chat", model=model)
    outcome = Outcome(status, usage or Usage(2, 1), cost=cost)
    guard.settle(Ticket(call), outcome, provider, 0.1)


@pytest.mark.parametrize(
    ("seconds", "place"),
    [
        pytest.param(0.0, 0, id="nothing"),
        pytest.param(1.0, 0, id="at a bound it belongs below"),
        pytest.param(1.5, 1, id="between two"),
        pytest.param(9.0, 2, id="above all"),
    ],
)
def test_a_value_counts_up_to_its_bound(seconds, place):
    histogram = Histogram([1.0, 2.0])
    histogram.observe(seconds)
    assert histogram.counts == tuple(int(place == index) for index in range(3))
    assert histogram.total == seconds


@given(values=st.lists(st.floats(0, 100)))
def test_no_value_is_lost_between_bounds(values):
    histogram = Histogram([0.1, 1.0, 10.0])
    for value in values:
        histogram.observe(value)
    assert sum(histogram.counts) == len(values)
    assert histogram.total == pytest.approx(sum(values))


@given(keys=st.lists(st.integers(0, 30)), most=st.integers(1, 20))
def test_there_are_never_more_keys_than_may_be_and_nothing_is_uncounted(keys, most):
    capped = CappedDict(lambda: [0], most, -1)
    for key in keys:
        capped[key][0] += 1
    assert len(capped) <= most + 1
    assert sum(number for (number,) in capped.values()) == len(keys)


def test_models_beyond_the_cap_are_counted_as_others():
    tally = Counters()
    guard = Guard.from_preset(tally=tally)
    for number in range(10_000):
        settled(guard, f"model-{number}")
    assert len(tally.used) == MAX_MODELS + 1
    others = tally.used["other", "other"]
    assert (others.input_tokens, others.output_tokens) == (2 * 9_900, 9_900)
    assert tally.input_tokens == 20_000


def test_names_that_no_model_has_are_cut():
    tally = Counters()
    settled(Guard.from_preset(tally=tally), "m" * 1_000_000)
    ((_, model),) = tally.used
    assert len(model) == 128


def test_what_calls_cost_is_added_up_by_model_and_by_caller():
    tally = Counters()
    guard = Guard.from_preset(tally=tally)
    for caller, cost in [("ann", 5), ("ann", 7), ("bob", 1), ("bob", None), ("cy", 0)]:
        settled(guard, caller=caller, cost=cost)
    used = tally.used["p", "m"]
    assert (used.cost, used.unpriced) == (13, 1)
    assert tally.caller_costs == {("ann", "research"): [12], ("bob", "research"): [1]}


def test_tokens_are_told_by_what_they_were():
    tally = Counters()
    usage = Usage(100, 50, 60, 20, 0, 3, 4, is_estimated=True)
    for _ in range(2):
        settled(Guard.from_preset(tally=tally), usage=usage)
    used = tally.used["p", "m"]
    assert (used.input_tokens, used.output_tokens) == (200, 100)
    assert (used.cached_tokens, used.reasoning_tokens, used.audio_tokens) == (120, 40, 14)
    assert used.estimated == 2


def test_callers_beyond_the_cap_are_counted_as_others():
    tally = Counters()
    guard = Guard.from_preset(tally=tally)
    for number in range(2 * MAX_CALLERS):
        settled(guard, caller=f"addr:{number}", cost=3)
    assert len(tally.caller_costs) == MAX_CALLERS + 1
    assert tally.caller_costs["other", "other"] == [3 * MAX_CALLERS]


def test_statuses_and_verdicts_are_sums_over_everything_else():
    tally = Counters()
    guard = Guard.from_preset(tally=tally)
    for status, provider in [(200, "a"), (200, "b"), (0, "a")]:
        settled(guard, status=status, provider=provider)
    guard.settle(Ticket(Call(Request(), "mcp")))
    assert tally.statuses == {200: 2, 0: 1}
    assert tally.verdicts == {"allow": 4}
