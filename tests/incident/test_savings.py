"""What a loop cost and what refusals saved: right for one instance and for many, never made up."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.incident.test_tracker import QUIET, seen, tracker

from looptrap.incident.model import Incident, describe_savings, merge_parts

CENT = 10_000_000
"""Nano-dollars."""


def warned(time=0.0, cost=4 * CENT, **more):
    """Return a sighting of a call that passed with a warning."""
    given = {"action": "warn", "is_refused": False, "cost": cost, "input_tokens": 900}
    return seen(time, 4, **{**given, "output_tokens": 100, **more})


def gathered(*sightings):
    here = tracker()
    for one in sightings:
        here.add(one)
    return here.take_changed()[0]


def test_refused_calls_are_worth_what_calls_of_this_loop_cost():
    one = gathered(warned(), warned(cost=2 * CENT), *[seen(n, estimate=CENT) for n in range(10)])
    assert one.paid == 2 + 3, "three calls before the first warning"
    assert one.spent_usd == pytest.approx(0.06 + 3 * 0.03), "each of which counts as the mean"
    assert one.saved_usd == pytest.approx(0.30), "10 times the mean, not what their input costs"
    assert one.saved_tokens == 10 * 1_000


def test_where_none_passed_they_are_worth_what_their_input_costs():
    one = gathered(*[seen(n, estimate=CENT) for n in range(10)])
    assert one.spent_usd == pytest.approx(one.before * 0.01)
    assert one.saved_usd == pytest.approx(0.10)
    assert one.saved_tokens == 10 * 100, "400 bytes each, four a token"


def test_without_a_price_nothing_is_told_in_dollars():
    one = gathered(warned(cost=None), seen(1.0))
    assert (one.spent_usd, one.saved_usd, one.projected_usd_an_hour) == (None, None, None)
    assert one.saved_tokens == 1_000


def test_what_is_free_is_no_unknown_price():
    one = gathered(warned(cost=0), seen(1.0))
    assert (one.spent_usd, one.saved_usd, one.projected_usd_an_hour) == (0.0, 0.0, 0.0)


@pytest.mark.parametrize(
    ("seconds", "calls", "an_hour"),
    [
        pytest.param(600.0, 100, 0.04 * 101 * 6, id="ten minutes"),
        pytest.param(0.0, 100, 0.04 * 101 * 60, id="what was seen for a moment counts as a minute"),
    ],
)
def test_a_projection_is_the_rate_of_the_loop_over_an_hour(seconds, calls, an_hour):
    one = gathered(warned(), *[seen(seconds * n / calls) for n in range(1, calls + 1)])
    assert one.projected_usd_an_hour == pytest.approx(an_hour)
    assert one.saved_usd == pytest.approx(0.04 * calls), "and is no part of what was saved"


@pytest.mark.parametrize("mode", ["enforce", "shadow"])
def test_a_projection_is_the_same_enforced_and_in_shadow(mode):
    is_enforced = mode == "enforce"
    calls = [
        seen(n, 5 + n, mode=mode, is_refused=is_enforced, cost=None if is_enforced else 4 * CENT)
        for n in range(1, 31)
    ]
    one = gathered(warned(mode=mode), *calls)
    assert one.projected_usd_an_hour == pytest.approx(0.04 * 31 * 60)


@pytest.mark.parametrize(
    ("given", "is_contained", "is_burning"),
    [
        pytest.param({"action": "block"}, True, False, id="refused"),
        pytest.param({"action": "stop"}, True, False, id="stopped"),
        pytest.param({"action": "block", "mode": "shadow"}, False, True, id="shadow"),
        pytest.param({"action": "warn"}, False, True, id="only warned"),
        pytest.param({"action": "warn", "closed": 150.0}, False, False, id="over"),
        pytest.param({"action": "warn", "last": -500.0}, False, False, id="quiet"),
        pytest.param({"action": "warn", "caller": "demo"}, False, False, id="demo"),
    ],
)
def test_money_leaves_while_calls_of_a_loop_pass(given, is_contained, is_burning):
    base = {"id": "i", "instance": "a", "key": "k", "opened": -600.0, "last": 100.0}
    one = Incident(**{**base, **given})
    assert (one.is_contained, one.is_burning(120.0)) == (is_contained, is_burning)


def test_a_rule_that_counts_within_one_answer_makes_no_earlier_calls():
    one = gathered(warned(signal="chant"))
    assert (one.before, one.paid) == (0, 1)


def test_the_tracker_adds_up_what_loops_cost():
    here = tracker()
    here.add(warned())
    assert here.spent == 4 * 4 * CENT, "and three calls before it"
    here.add(warned(1.0, cost=CENT))
    here.add(seen(2.0, estimate=CENT))
    assert here.spent == 17 * CENT, "what is refused costs nothing"


def test_totals_leave_out_the_demo():
    here = tracker()
    here.add(warned(caller="demo"))
    here.add(seen(2.0, caller="demo"))
    assert (here.spent, here.saved) == (0, 0)


parts = st.builds(
    Incident,
    id=st.just("inc"), instance=st.uuids().map(str), key=st.just("k"), opened=st.floats(0, 50),
    last=st.floats(100, 200), calls=st.integers(0, 50), refused=st.integers(0, 50),
    cost=st.integers(0, 10**12), priced=st.integers(1, 50), input_tokens=st.integers(0, 10**6),
    answered=st.integers(1, 50),
)  # fmt: skip


@given(st.lists(parts, min_size=1, max_size=4))
def test_figures_of_several_instances_are_those_of_one_that_saw_all(seen_by_each):
    whole = merge_parts(seen_by_each)
    refused = sum(one.refused for one in seen_by_each)
    cost, priced = (sum(getattr(one, name) for one in seen_by_each) for name in ("cost", "priced"))
    assert whole.spent_usd == pytest.approx(cost / 1e9)
    assert whole.saved_usd == pytest.approx(refused * cost / priced / 1e9, abs=1e-9)
    least, most = (
        choose(one.cost / one.priced for one in seen_by_each) * refused / 1e9
        for choose in (min, max)
    )
    assert least - 1e-6 <= whole.saved_usd <= most + 1e-6


def test_figures_outlive_being_kept_and_read():
    one = gathered(warned(), seen(1.0, estimate=CENT))
    again = msgspec.msgpack.decode(msgspec.msgpack.encode(one), type=Incident)
    assert again == one
    assert again.saved_usd == one.saved_usd


def test_what_was_kept_before_there_were_prices_is_still_told():
    kept = {"id": "i", "instance": "a", "key": "k", "opened": 0.0, "last": 1.0, "saved_tokens": 70}
    assert msgspec.convert(kept, Incident).saved_tokens == 70


def test_the_tracker_adds_up_what_each_refusal_saved_when_it_happened():
    here = tracker()
    here.add(seen(0.0, estimate=CENT))
    assert here.saved == CENT
    here.add(warned(1.0))
    assert here.saved == CENT, "what passes saves nothing"
    here.add(seen(2.0, estimate=CENT))
    assert here.saved == 5 * CENT, "by now it is known what a call of it costs"


def test_what_another_instance_knows_of_its_cost_counts_here():
    there, here = tracker("there"), tracker("here")
    there.add(warned())
    here.merge_remote(there.take_changed()[0])
    here.add(seen(1.0))
    assert here.saved == 4 * CENT


def test_the_end_is_told_with_what_all_instances_saved():
    there, here = tracker("there"), tracker("here")
    there.add(warned())
    there.add(seen(0.5))
    here.merge_remote(there.take_changed()[0])
    here.add(seen(1.0))
    (event,) = [one for one in here.tick(2 + QUIET) if one.name == "loop.resolved"]
    assert (event.data["refused"], event.data["saved_usd"]) == (2, pytest.approx(0.08))


@pytest.mark.parametrize(
    ("refused", "saved", "an_hour", "told"),
    [
        pytest.param(
            310, 12.4, 48.0,
            "$12.40 saved: 310 calls refused at about $0.04 each;"
            " it was burning $48.00 an hour (projection)",
            id="with all that is known",
        ),
        pytest.param(
            1, 0.0004, None, "$0.0004 saved: 1 call refused at about $0.0004 each",
            id="less than a cent",
        ),
        pytest.param(
            2, 0.00003, None,
            "less than $0.0001 saved: 2 calls refused at less than $0.0001 each",
            id="hardly anything",
        ),
        pytest.param(3, None, None, "3 calls refused, unpriced", id="without a price, never $0"),
        pytest.param(0, None, None, "", id="nothing was refused"),
    ],
)  # fmt: skip
def test_people_read_it_in_one_sentence(refused, saved, an_hour, told):
    assert describe_savings(refused, saved, an_hour) == told
