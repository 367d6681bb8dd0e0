"""An alarm: once, and never in storms."""

from hypothesis import given
from hypothesis import strategies as st

from looptrap.incident.indicator.alarm import (
    MAX_EVENTS_PER_HOUR,
    MAX_SINGLE_EVENTS,
    REPEAT_INTERVAL_S,
    IndicatorAlarm,
    IndicatorScope,
    Subject,
    ThresholdCrossing,
)

NOW = 1_800_000_000.0


def alarm():
    return IndicatorAlarm("tool_errors", 0.5, 300.0)


def rise(number, value=0.9):
    name = f"caller-{number}"
    subject = Subject((name,), IndicatorScope(caller=name))
    return ThresholdCrossing(subject, value, f"{name} is in trouble")


def test_more_scopes_at_once_than_people_read_are_one_event():
    one = alarm()
    for number in range(MAX_SINGLE_EVENTS + 1):
        one.rise(rise(number, 0.6 + number / 100))
    (event,) = one.due(NOW)
    assert event.data["scopes"] == MAX_SINGLE_EVENTS + 1
    assert event.data["scope"] == {"caller": f"caller-{MAX_SINGLE_EVENTS}"}
    assert event.data["explanation"].endswith(f"; so are {MAX_SINGLE_EVENTS} more.")
    assert one.due(NOW + REPEAT_INTERVAL_S) == []


def test_scopes_one_after_the_other_are_told_up_to_a_number_and_then_together():
    one, events = alarm(), []
    for number in range(100):
        one.rise(rise(number))
        events += one.due(NOW + number)
    assert sum(event.data["scopes"] == 1 for event in events) == MAX_EVENTS_PER_HOUR
    assert len(events) == MAX_EVENTS_PER_HOUR + 1
    assert one.due(NOW + REPEAT_INTERVAL_S - 1) == []
    (rest,) = one.due(NOW + 2 * REPEAT_INTERVAL_S)
    assert rest.data["scopes"] == 100 - MAX_EVENTS_PER_HOUR - (MAX_SINGLE_EVENTS + 1)


def test_nobody_hears_of_what_is_over_before_it_could_be_told():
    one = alarm()
    one.rise(rise(1))
    assert len(one.due(NOW)) == 1
    one.fall(rise(1).subject)
    one.rise(rise(1))
    assert one.due(NOW + 60) == []
    one.fall(rise(1).subject)
    assert not one.is_firing
    assert one.due(NOW + REPEAT_INTERVAL_S) == []


@given(
    st.lists(
        st.tuples(
            st.integers(0, 40), st.sampled_from(["rise", "fall", "wait"]), st.floats(0, 2_000)
        ),
        max_size=300,
    )
)
def test_whatever_happens_an_hour_has_few_events_and_each_its_own_id(steps):
    one, now, over, events = alarm(), NOW, set(), []
    for number, what, seconds in steps:
        if what == "rise" and number not in over:
            over.add(number)
            one.rise(rise(number))
        elif what == "fall" and number in over:
            over.remove(number)
            one.fall(rise(number).subject)
        else:
            now += seconds
        assert one.is_firing is bool(over)
        events += one.due(now)
    ids = [event.id for event in events]
    assert len(ids) == len(set(ids))
    for event in events:
        within = [other for other in events if 0 <= other.time - event.time < REPEAT_INTERVAL_S]
        assert len(within) <= MAX_EVENTS_PER_HOUR + 1
