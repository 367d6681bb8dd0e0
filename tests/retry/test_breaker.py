"""One circuit breaker, in simulated time."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from looptrap.errors import ConfigError
from looptrap.retry.breaker import MAX_OPEN_S, PROBE_RETRY_S, Breaker


def opened(threshold=5, open_for=60.0, now=0.0):
    breaker = Breaker(threshold, open_for)
    states = [breaker.done(breaker.allow(now), True, now) for _ in range(threshold)]
    assert states == [None] * (threshold - 1) + ["open"]
    return breaker


def test_opens_at_the_fifth_failure_in_a_row():
    breaker = opened()
    assert breaker.state(0.0) == "open"
    assert breaker.allow(59.9) is None
    assert breaker.retry_after(20.0) == 40.0


def test_a_success_in_between_begins_anew():
    breaker = Breaker()
    for failed in [True] * 4 + [False] + [True] * 4:
        assert breaker.done(breaker.allow(0.0), failed, 0.0) is None
    assert breaker.state(0.0) == "closed"
    assert breaker.retry_after(0.0) == 0.0


def test_what_is_neither_good_nor_bad_changes_nothing():
    breaker = Breaker()
    for failed in [True] * 4 + [None] * 9:
        breaker.done(breaker.allow(0.0), failed, 0.0)
    assert breaker.done(breaker.allow(0.0), True, 0.0) == "open"


def test_half_open_admits_one_probe():
    breaker = opened()
    assert breaker.state(60.0) == "half_open"
    assert breaker.allow(60.0).is_probe
    assert breaker.allow(60.0) is None
    assert 0 < breaker.retry_after(60.0) <= PROBE_RETRY_S


def test_a_good_probe_closes():
    breaker = opened()
    assert breaker.done(breaker.allow(60.0), False, 61.0) == "closed"
    assert not breaker.allow(61.0).is_probe


def test_a_bad_probe_opens_for_as_long_again():
    breaker = opened()
    assert breaker.done(breaker.allow(60.0), True, 61.0) == "open"
    assert breaker.allow(120.9) is None
    assert breaker.allow(121.0).is_probe


def test_a_probe_that_says_nothing_makes_room_for_the_next():
    breaker = opened()
    assert breaker.done(breaker.allow(60.0), None, 61.0) is None
    assert breaker.state(61.0) == "half_open"
    assert breaker.allow(61.0).is_probe


def test_a_probe_that_is_never_reported_is_given_up():
    breaker = opened()
    failed = breaker.allow(60.0)
    assert breaker.allow(119.9) is None
    second = breaker.allow(120.0)
    assert second.is_probe
    assert breaker.done(failed, False, 121.0) is None, "its word comes too late"
    assert breaker.done(second, False, 121.0) == "closed"


def test_a_probe_that_another_instance_makes_is_given_back_for_a_moment():
    breaker = opened()
    breaker.deny(breaker.allow(60.0), 60.0)
    assert breaker.allow(60.0) is None
    assert breaker.allow(60.0 + PROBE_RETRY_S).is_probe


@pytest.mark.parametrize("failed", [True, False, None])
def test_outcomes_from_before_a_trip_change_nothing(failed):
    breaker = Breaker()
    late = breaker.allow(0.0)
    for _ in range(5):
        breaker.done(breaker.allow(0.0), True, 0.0)
    assert breaker.done(late, failed, 30.0) is None
    assert breaker.retry_after(30.0) == 30.0
    probe = breaker.allow(60.0)
    assert breaker.done(late, failed, 60.0) is None
    assert breaker.allow(60.0) is None, "the probe is still out"
    assert breaker.done(probe, False, 60.0) == "closed"
    assert breaker.done(late, failed, 60.0) is None


def test_a_permit_counts_once_for_a_trip():
    breaker = opened(threshold=1)
    probe = breaker.allow(60.0)
    assert breaker.done(probe, True, 60.0) == "open"
    assert breaker.done(probe, False, 60.0) is None


@pytest.mark.parametrize(
    ("open_for", "least", "asked", "expected"),
    [
        pytest.param(10.0, None, 30.0, 30.0, id="lengthens"),
        pytest.param(60.0, None, 5.0, 60.0, id="never shortens"),
        pytest.param(10.0, None, 3600.0, MAX_OPEN_S, id="not beyond a minute"),
        pytest.param(90.0, None, 3600.0, 90.0, id="nor what was set"),
        pytest.param(60.0, 1.0, None, 60.0, id="none is named"),
        pytest.param(60.0, 1.0, 5.0, 5.0, id="shortens where it may"),
        pytest.param(60.0, 1.0, 0.0, 1.0, id="but not to nothing"),
        pytest.param(10.0, 1.0, 30.0, 30.0, id="lengthens there, too"),
        pytest.param(60.0, 1.0, 3600.0, MAX_OPEN_S, id="within the same minute"),
    ],
)
def test_a_retry_after_and_the_length_of_an_opening(open_for, least, asked, expected):
    breaker = Breaker(1, open_for, least)
    breaker.done(breaker.allow(0.0), True, 0.0, asked)
    assert breaker.retry_after(0.0) == expected


def test_remembers_whether_what_opened_it_passes():
    breaker = Breaker(1)
    breaker.done(breaker.allow(0.0), True, 0.0, is_transient=False)
    assert not breaker.is_transient
    breaker.done(breaker.allow(60.0), True, 60.0)
    assert breaker.is_transient
    breaker.done(breaker.allow(120.0), True, 120.0, is_transient=False)
    breaker.learn(5.0, 121.0)
    assert not breaker.is_transient, "it was open already: what is known here counts"
    breaker.done(breaker.allow(180.0), False, 180.0)
    breaker.learn(5.0, 181.0)
    assert breaker.is_transient


def test_opening_again_takes_the_later_moment():
    breaker = opened(open_for=60.0)
    assert breaker.learn(5.0, 1.0) is None
    assert breaker.retry_after(1.0) == 59.0
    assert breaker.learn(60.0, 30.0) is None
    assert breaker.retry_after(30.0) == 60.0


def test_what_another_instance_says_opens_but_not_for_ever():
    breaker = Breaker()
    assert breaker.learn(0.0, 0.0) is None
    assert breaker.learn(float("nan"), 0.0) is None
    assert breaker.state(0.0) == "closed"
    assert breaker.learn(1e9, 0.0) == "open"
    assert breaker.allow(60.0).is_probe


@pytest.mark.parametrize(
    "settings", [{"threshold": 0}, {"open_for": 0}, {"open_for": float("inf")}], ids=str
)
def test_settings_that_make_no_sense_are_refused(settings):
    with pytest.raises(ConfigError, match="breaker: "):
        Breaker(**settings)


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("pass"), st.floats(0, 90)),
        st.tuples(st.just("allow"), st.none()),
        st.tuples(
            st.just("done"),
            st.tuples(
                st.integers(0, 20),
                st.sampled_from([True, False, None]),
                st.none() | st.floats(0, 1e6),
            ),
        ),
        st.tuples(st.just("deny"), st.integers(0, 20)),
        st.tuples(st.just("learn"), st.floats(-10, 1e6)),
    ),
    max_size=60,
)


@given(STEPS, st.integers(1, 3), st.sampled_from([None, 1.0]))
def test_whatever_happens_one_probe_is_out_and_quiet_time_opens_the_road(steps, threshold, least):
    breaker, now = Breaker(threshold, 60.0, least), 0.0
    out, probes = [], {}
    for step, value in steps:
        if step == "pass":
            now += value
        elif step == "allow":
            permit = breaker.allow(now)
            if permit is None:
                assert breaker.retry_after(now) > 0
            else:
                out.append(permit)
                if permit.is_probe:
                    assert all(now >= until for until in probes.values()), "two probes"
                    probes[permit.generation] = now + 60.0
        elif step == "learn":
            if breaker.learn(value, now) is not None or breaker.state(now) == "open":
                probes.clear()
        elif out:
            permit = out.pop((value[0] if step == "done" else value) % len(out))
            before = breaker.state(now), breaker.retry_after(now)
            stale = permit.generation != breaker._generation
            changed = None
            if step == "done":
                changed = breaker.done(permit, value[1], now, value[2])
            else:
                breaker.deny(permit, now)
            if stale:
                assert (breaker.state(now), breaker.retry_after(now)) == before
                assert changed is None
            probes.pop(permit.generation, None)
    assert breaker.allow(now + 120.0) is not None
