"""From sightings to incidents: one a loop, told once, and again as it grows."""

from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from looptrap.detect.signals.signal import Evidence
from looptrap.incident.model import MAX_STEPS, Sighting
from looptrap.incident.tracker import MAX_FINGERPRINTS, OWNER_TIMEOUT_S, Tracker

QUIET = 300.0


def tracker(instance="here", **options):
    ids = count(1)
    given = {"quiet": QUIET, "new_id": lambda: f"{instance}-{next(ids)}", **options}
    return Tracker(instance, **given)


def seen(time=0.0, n=6, **more):
    """Return a sighting of the n-th equal call, which was blocked."""
    return Sighting(
        **{
            "time": time,
            "caller": "key:ci",
            "session": "run-1",
            "rule": "identical-conversation",
            "signal": "conversation",
            "action": "block",
            "is_refused": True,
            "count": n,
            "threshold": 6,
            "fingerprint": "1-abc",
            "size": 400,
            **more,
        }
    )


def told(events):
    return [(event.name, event.stage) for event in events]


def many(one, hits, first=6):
    """Sight calls from the `first` to the `hits`-th; return all events."""
    return [event for n in range(first, hits + 1) for event in one.add(seen(n / 100, n))]


def test_ten_thousand_hits_are_one_alert_three_escalations_and_an_end():
    here = tracker()
    events = [*many(here, 10_000), *here.tick(100 + QUIET)]
    assert told(events) == [
        ("loop.detected", "detected"),
        ("loop.escalated", "2x"),
        ("loop.escalated", "10x"),
        ("loop.escalated", "100x"),
        ("loop.resolved", "resolved"),
    ]
    assert [event.data["hit_count"] for event in events] == [6, 12, 60, 600, 10_000]
    assert len({event.id for event in events}) == 5
    assert {event.incident for event in events} == {"here-1"}


@pytest.mark.parametrize(
    ("signal", "n", "ago", "before"),
    [
        pytest.param("conversation", 6, 0, 5, id="counts this call too"),
        pytest.param("same_error", 5, 7, 5, id="counts rounds, each the answer to a call before"),
        pytest.param("cycle", 3, 8, 9, id="counts times around, three rounds each"),
        pytest.param("turn_budget", 200, 99, 100, id="counts tool calls, two a round"),
        pytest.param("chant", 6, 5, 0, id="counts within this call"),
    ],
)
def test_calls_before_the_first_sighting_are_those_of_the_loop(signal, n, ago, before):
    here = tracker()
    evidence = (Evidence(signal=signal, what="what", count=n, ago=ago),)
    here.add(seen(0, n, signal=signal, evidence=evidence, threshold=n, is_refused=False))
    [one] = here.take_changed()
    assert (one.before, one.paid) == (before, before + 1)


def test_a_cycle_escalates_at_twice_its_times_around_and_its_hits_are_calls():
    here = tracker()
    evidence = (Evidence(signal="cycle", what="a → b → c", count=3, ago=8),)
    events = [
        event
        for n in range(9)
        for event in here.add(seen(n, 3, signal="cycle", evidence=evidence, threshold=3))
    ]
    assert [(event.stage, event.data["hit_count"]) for event in events] == [
        ("detected", 10),
        ("2x", 18),
    ]


def test_an_incident_is_one_row_that_gathers_all():
    here = tracker()
    many(here, 10)
    [one] = here.take_changed()
    assert (one.calls, one.refused, one.before, one.count) == (5, 5, 5, 10)
    assert (one.opened, one.last, one.closed) == (0.06, 0.1, None)
    assert one.saved_tokens == 5 * 100
    assert one.fingerprints == ["1-abc"]
    assert here.take_changed() == []


def test_a_warning_before_more_opens_an_incident_that_nobody_is_told_of():
    here = tracker()
    warned = seen(action="warn", is_refused=False, is_alarming=False, n=4, threshold=4)
    assert here.add(warned) == []
    assert [one.action for one in here.take_changed()] == ["warn"]
    assert here.tick(QUIET) == []
    assert [one.closed for one in here.take_changed()] == [QUIET]


def test_what_was_a_warning_first_is_told_when_it_becomes_more():
    here = tracker()
    here.add(seen(action="warn", is_refused=False, is_alarming=False, n=4, threshold=4))
    [event] = here.add(seen(time=1, n=5, threshold=5))
    assert (event.name, event.data["action"], event.time) == ("loop.detected", "block", 1)
    [one] = here.take_changed()
    assert [step.what for step in one.steps] == ["warn", "block"]


@pytest.mark.parametrize(
    ("other", "incidents"),
    [
        pytest.param(
            {"rule": "cycle", "signal": "cycle", "fingerprint": "1h-x"}, 1, id="another rule"
        ),
        pytest.param({"session": "run-2", "fingerprint": "1-x"}, 2, id="another session"),
        pytest.param({"session": "run-2"}, 1, id="the same prompt from another session"),
        pytest.param(
            {"session": "run-2", "signal": "chant"}, 2, id="the same signal in another session"
        ),
        pytest.param({"caller": "key:prod"}, 2, id="another caller"),
        pytest.param({"project": "research"}, 2, id="another project"),
        pytest.param({"mode": "shadow", "is_refused": False}, 2, id="shadow"),
        pytest.param({"model": "gpt-5.3-mini"}, 1, id="another model"),
    ],
)
def test_one_loop_is_what_one_session_does(other, incidents):
    here = tracker()
    here.add(seen())
    here.add(seen(**other))
    assert here.open == here.opened == incidents


def test_a_prompt_that_grows_each_time_is_one_loop():
    here = tracker()
    events = [
        event
        for n in range(6, 200)
        for event in here.add(seen(n, n, session=f"~{n}", signal="similar_prompt"))
    ]
    assert told(events)[0] == ("loop.detected", "detected")
    assert (here.opened, len(events)) == (1, 3)


def test_what_led_to_an_incident_that_is_over_leads_nowhere():
    here = tracker()
    here.add(seen(session="run-1"))
    here.add(seen(session="run-2"))
    here.tick(QUIET)
    here.add(seen(QUIET, session="run-2", fingerprint="1-other"))
    assert (here.open, here.opened) == (1, 2)
    assert here._key_of.keys() == {
        ("key:ci", "", "enforce", "session", "run-2"),
        ("key:ci", "", "enforce", "fingerprint", "1-other"),
    }


def test_without_a_session_one_loop_is_one_fingerprint():
    here = tracker()
    for fingerprint in ("1-a", "1-a", "1-b"):
        here.add(seen(session="", fingerprint=fingerprint))
    assert here.open == 2


def test_where_nobody_listens_incidents_are_kept_all_the_same():
    here = tracker(has_channels=False)
    assert [*many(here, 100), *here.tick(100 + QUIET)] == []
    assert [(one.calls, one.stage, one.closed) for one in here.take_changed()] == [(95, 10, 400)]


def test_after_quiet_the_same_loop_is_a_new_incident():
    here = tracker()
    here.add(seen())
    assert told(here.tick(QUIET - 1)) == []
    assert told(here.tick(QUIET)) == [("loop.resolved", "resolved")]
    assert told(here.add(seen(time=QUIET + 1))) == [("loop.detected", "detected")]
    assert [one.id for one in here.take_changed()] == ["here-2"]


def test_the_severest_sighting_describes_the_incident():
    here = tracker()
    here.add(seen(rule="same-error", message="blocked"))
    here.add(seen(time=9, rule="cycle", action="warn", is_refused=False, message="warned"))
    [one] = here.take_changed()
    assert (one.action, one.rule, one.message, one.last) == ("block", "same-error", "blocked", 9)


def test_more_incidents_than_may_be_open_end_the_longest_quiet():
    here = tracker(max_open=2)
    events = [here.add(seen(n, session=f"run-{n}", fingerprint=f"1-{n}")) for n in range(3)]
    assert told(events[2]) == [("loop.detected", "detected"), ("loop.resolved", "resolved")]
    assert events[2][1].data["session"] == "run-0"
    assert here.open == 2


def test_what_is_written_down_of_one_incident_has_an_end():
    here = tracker()
    for n in range(1_000):
        here.add(seen(time=n, rule=f"rule-{n}", fingerprint=f"1-{n}"))
    [one] = here.take_changed()
    assert len(one.steps) == MAX_STEPS
    assert one.steps[0].rule == "rule-0"
    assert one.steps[-1].rule == "rule-999"
    assert one.fingerprints == [f"1-{n}" for n in range(1_000 - MAX_FINGERPRINTS, 1_000)]


class TestSeveralInstances:
    def test_nothing_is_given_out_before_all_agree_on_an_id(self):
        here = tracker(is_shared=True)
        assert here.add(seen()) == []
        assert here.take_changed() == []
        [(key, chosen)] = here.unshared_ids().items()
        assert chosen == "here-1"
        [event] = here.adopt_id(key, "there-1")
        assert (event.incident, event.data["incident_id"]) == ("there-1", "there-1")
        assert [one.id for one in here.take_changed()] == ["there-1"]
        assert here.unshared_ids() == {}

    def test_an_event_has_one_id_wherever_it_was_noticed(self):
        here, there = tracker("here", is_shared=True), tracker("there", is_shared=True)
        events = []
        for one in (here, there):
            one.add(seen())
            [(key, _)] = one.unshared_ids().items()
            events += one.adopt_id(key, "agreed")
        assert len({event.id for event in events}) == 1

    def test_what_another_instance_told_of_is_not_told_again(self):
        here, there = tracker("here"), tracker("there")
        there.add(seen())
        [part] = there.take_changed()
        here.merge_remote(part)
        assert here.add(seen(time=1, n=7)) == []
        [own] = here.take_changed()
        assert (own.id, own.instance, own.calls, own.before) == (part.id, "here", 1, 0)
        assert here.opened == 0

    def test_calls_seen_anywhere_make_it_grow(self):
        here, there = tracker("here"), tracker("there")
        many(there, 11)
        [part] = there.take_changed()
        here.merge_remote(part)
        assert told(here.add(seen(time=1, n=1))) == [("loop.escalated", "2x")]

    def test_it_is_not_over_while_it_goes_on_elsewhere(self):
        here, there = tracker("here"), tracker("there")
        here.add(seen())
        [part] = here.take_changed()
        there.merge_remote(part)
        there.add(seen(time=200))
        [theirs] = there.take_changed()
        here.merge_remote(theirs)
        assert here.tick(QUIET + 1) == []
        [event] = here.tick(QUIET + 200)
        assert (event.name, event.data["calls"]) == ("loop.resolved", 2)

    def test_what_an_instance_that_is_gone_left_open_is_closed(self):
        here, gone = tracker("here"), tracker("gone")
        gone.add(seen())
        [part] = gone.take_changed()
        here.merge_remote(part)
        assert here.tick(QUIET + OWNER_TIMEOUT_S - 1) == []
        assert told(here.tick(QUIET + OWNER_TIMEOUT_S)) == [("loop.resolved", "resolved")]
        [closed] = here.take_changed()
        assert (closed.instance, closed.closed) == ("gone", QUIET + OWNER_TIMEOUT_S)

    def test_what_another_closed_is_forgotten(self):
        here, there = tracker("here"), tracker("there")
        there.add(seen())
        [part] = there.take_changed()
        here.merge_remote(part)
        there.tick(QUIET)
        [closed] = there.take_changed()
        here.merge_remote(closed)
        assert here.open == 0


SIGHTINGS = st.lists(
    st.tuples(
        st.integers(0, 400),
        st.sampled_from(["run-1", "run-2", ""]),
        st.sampled_from([("warn", False, False), ("throttle", False, True), ("block", True, True)]),
    ),
    max_size=60,
)


@given(SIGHTINGS)
def test_nobody_hears_the_same_twice_or_of_an_end_without_a_beginning(steps):
    here, now, events = tracker(), 0.0, []
    for wait, session, (action, is_refused, is_alarming) in steps:
        now += wait
        events += here.tick(now)
        events += here.add(
            seen(
                now, session=session, action=action, is_refused=is_refused, is_alarming=is_alarming
            )
        )
    events += here.tick(now + QUIET)
    assert here.open == 0
    assert len({event.id for event in events}) == len(events)
    for incident in {event.incident for event in events}:
        names = [event.name for event in events if event.incident == incident]
        assert names[0] == "loop.detected"
        assert names[-1] == "loop.resolved"
        assert names.count("loop.detected") == names.count("loop.resolved") == 1


@given(SIGHTINGS)
def test_every_sighting_is_counted_in_exactly_one_incident(steps):
    here, now, calls = tracker(), 0.0, {}
    for wait, session, (action, is_refused, _) in steps:
        now += wait
        here.tick(now)
        here.add(seen(now, session=session, action=action, is_refused=is_refused))
        calls |= {one.id: (one.calls, one.refused) for one in here.take_changed()}
    assert sum(number for number, _ in calls.values()) == len(steps)
    assert sum(number for _, number in calls.values()) == sum(one[2][1] for one in steps)
