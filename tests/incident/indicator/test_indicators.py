"""From where on each indicator fires, what it says, and what it takes to be normal again."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.incident.indicator.traffic import HOUR, PANE, START, WINDOW, fired

from looptrap.incident.indicator import Indicators, Observation
from looptrap.incident.indicator.alarm import MAX_SCOPES as MOST_SCOPES
from looptrap.incident.indicator.indicators import MAX_CALLERS, MAX_MODELS
from looptrap.incident.indicator.session import MAX_SESSIONS as MOST_SESSIONS
from looptrap.incident.setting import IndicatorSettings

OFF = dict.fromkeys(["tool_errors", "tool_calls", "latency", "tokens", "burn_rate"])


def only(**settings):
    return Indicators(IndicatorSettings(**{**OFF, **settings}))


def rounds(number, failed, start=START, caller="alice", apart=0.1):
    """Return calls with one tool result each, the first of which are failures."""
    return [
        Observation(start + step * apart, caller, tools=1, failed=int(step < failed))
        for step in range(number)
    ]


@pytest.mark.parametrize(
    ("number", "failed", "fires"),
    [
        pytest.param(20, 11, True, id="more than half"),
        pytest.param(20, 10, False, id="just half"),
        pytest.param(10, 10, True, id="the least number of tool calls"),
        pytest.param(9, 9, False, id="too few to say"),
    ],
)
def test_tool_errors_fire_above_half_of_enough_tool_calls(number, failed, fires):
    events = fired(only(tool_errors=0.5), rounds(number, failed))
    assert [event.data["indicator"] for event in events] == ["tool_errors"] * fires


def test_callers_are_not_mixed():
    calls = sorted(rounds(20, 0, caller="good") + rounds(9, 9, caller="bad"))
    assert fired(only(tool_errors=0.5), calls) == []


def test_an_event_says_what_whom_and_why():
    (event,) = fired(only(tool_errors=0.5), rounds(20, 15))
    assert event.data == {
        "indicator": "tool_errors",
        "value": 0.75,
        "threshold": 0.5,
        "window": WINDOW,
        "scope": {"caller": "alice"},
        "scopes": 1,
        "sessions": 0,
        "explanation": event.data["explanation"],
    }
    sentence = (
        "75% of the tool calls of caller alice failed (15 of 20), above the threshold of 0.5."
    )
    assert event.data["explanation"] == sentence
    assert event.title == f"Leading indicator tool_errors: {sentence}"


def test_an_event_has_the_same_id_on_every_instance():
    here, there = (fired(only(tool_errors=0.5), rounds(20, 20)) for _ in range(2))
    assert [event.id for event in here] == [event.id for event in there]
    (other,) = fired(only(tool_errors=0.5), rounds(20, 20, caller="bob"))
    assert other.id != here[0].id


def test_what_hovers_about_its_threshold_fires_once():
    calls = [
        Observation(START + step * 5, "alice", tools=20, failed=11 if step % 40 < 20 else 9)
        for step in range(2_000)
    ]
    assert len(fired(only(tool_errors=0.5), calls)) == 1


def test_what_returns_within_the_hour_is_told_when_that_is_over_if_it_still_lasts():
    bad = [*rounds(20, 20), *rounds(2_800, 2_800, START + 0.25 * HOUR, apart=1.0)]
    lasting = fired(only(tool_errors=0.5), bad, START + 2 * HOUR)
    assert [round(event.time - START, -2) for event in lasting] == [0, HOUR]
    passing = [*rounds(20, 20), *rounds(600, 600, START + 0.25 * HOUR, apart=1.0)]
    assert len(fired(only(tool_errors=0.5), passing, START + 2 * HOUR)) == 1


# Sessions


def turn(calls, session="s", start=START, project="p", caller="c"):
    return Observation(start, caller, project, session, turn_calls=calls)


@pytest.mark.parametrize(
    ("calls", "fires"),
    [
        pytest.param(15, False, id="at the threshold"),
        pytest.param(16, True, id="above it"),
        pytest.param(-1, False, id="not known"),
    ],
)
def test_tool_calls_fire_above_fifteen_a_turn(calls, fires):
    assert bool(fired(only(tool_calls=15), [turn(calls)])) is fires


def test_a_turn_that_ends_is_back_to_normal():
    indicators = only(tool_calls=15)
    first = fired(indicators, [turn(20), turn(1, start=START + 60)])
    assert len(first) == 1
    assert indicators.gauges["tool_calls"] == (20, False)
    again = fired(indicators, [turn(20, start=START + 2 * HOUR)])
    assert len(again) == 1
    assert again[0].id != first[0].id


def test_many_sessions_at_once_are_one_event_with_a_number():
    calls = [turn(16 + number, f"s{number}") for number in range(500)]
    (event,) = fired(only(tool_calls=15), calls, START + 2 * HOUR)
    assert event.data["sessions"] == 500
    assert event.data["scope"] == {"project": "p", "session": "s499"}
    assert event.data["value"] == 515
    assert "so are 499 more sessions" in event.data["explanation"]


def test_sessions_one_after_the_other_are_told_once_an_hour():
    calls = [turn(20, f"s{number}", START + 20 * number) for number in range(900)]
    events = fired(only(tool_calls=15), calls)
    at_a_time = WINDOW / 20
    assert [event.data["sessions"] for event in events] == [1, *[at_a_time] * 4]


def runs(number, tokens, start=START + 2 * WINDOW, apart=120.0, **more):
    """Return sessions of one call each."""
    return [
        Observation(
            start + apart * run, "c", "p", f"run-{start}-{run}", "m", "x", 200, None, tokens, **more
        )
        for run in range(number)
    ]


LATER = START + 2 * WINDOW + 40 * 120.0


@pytest.mark.parametrize(
    ("before", "tokens", "fires"),
    [
        pytest.param(runs(40, 1_000), 3_000, False, id="three times the average"),
        pytest.param(runs(40, 1_000), 3_001, True, id="more than that"),
        pytest.param(runs(5, 1_000), 9_000, False, id="too few others"),
        pytest.param(runs(40, 1_000, apart=1.0), 9_000, False, id="too short a time"),
    ],
)
def test_tokens_fire_above_three_times_the_average_session(before, tokens, fires):
    start = before[-1].time + WINDOW + 2 * PANE
    calls = [turn(0), *before, *runs(1, tokens, start)]
    assert bool(fired(only(tokens=3.0), calls)) is fires


def test_a_session_that_ran_away_does_not_hide_the_next():
    indicators = only(tokens=3.0)
    calls = [turn(0), *runs(40, 1_000), *runs(1, 1_000_000, LATER)]
    calls += [*runs(40, 1_000, LATER + 120), *runs(1, 4_000, LATER + 41 * 120)]
    assert len(fired(indicators, calls)) == 2


def test_what_all_sessions_come_to_use_is_normal():
    indicators = only(tokens=3.0)
    calls = [turn(0), *runs(40, 1_000), *runs(400, 4_000, LATER)]
    assert fired(indicators, calls)
    assert indicators.gauges["tokens"] == (pytest.approx(1.0, abs=0.1), False)


# Latency


def answers(seconds, hours, start=START, every=2.0, status=200, model="m"):
    return [
        Observation(start + step * every, "c", model=model, provider="x", status=status,
                    first_byte=seconds)
        for step in range(int(hours * HOUR / every))
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("calls", "fires"),
    [
        pytest.param(answers(6.0, 0.2, START + HOUR), True, id="six times the baseline"),
        pytest.param(answers(4.0, 0.2, START + HOUR), False, id="four times"),
        pytest.param(answers(6.0, 0.2, START + 2 * HOUR, 20.0), False, id="too few to say"),
        pytest.param(answers(6.0, 0.002, START + HOUR), False, id="no more than outliers"),
        pytest.param(answers(6.0, 0.2, START + HOUR, status=429), False, id="the client's fault"),
        pytest.param(answers(6.0, 0.2, START + HOUR, model="n"), False, id="another model"),
        pytest.param(answers(6.0, 0.2, START + HOUR, status=503), True, id="slow failures"),
    ],
)
def test_latency_fires_above_five_times_its_baseline(calls, fires):
    assert bool(fired(only(latency=5.0), [*answers(1.0, 1), *calls])) is fires


def test_nobody_hears_of_milliseconds():
    assert fired(only(latency=5.0), [*answers(0.005, 1), *answers(0.09, 1, START + HOUR)]) == []


def test_hours_of_trouble_do_not_become_the_baseline_and_half_a_day_does():
    indicators = only(latency=5.0)
    assert len(fired(indicators, [*answers(1.0, 2), *answers(8.0, 3, START + 2 * HOUR)])) == 1
    assert indicators.gauges["latency"][1] is True
    assert fired(indicators, answers(8.0, 12, START + 5 * HOUR)) == []
    assert indicators.gauges["latency"][1] is False


def test_a_quiet_night_fools_nobody():
    day = answers(1.0, 4)
    night = answers(0.2, 10, START + 4 * HOUR, every=45.0)
    slow = [call._replace(first_byte=9.0) for call in night[200:220]]
    morning = answers(1.2, 2, START + 14 * HOUR)
    calls = [*day, *night[:200], *slow, *night[220:], *morning]
    assert fired(only(latency=5.0), calls) == []


# All of them


def test_what_is_switched_off_says_nothing():
    indicators = Indicators(IndicatorSettings(**OFF))
    assert fired(indicators, [*rounds(50, 50), turn(100)]) == []
    assert indicators.gauges == {}


def test_a_clock_put_back_begins_anew():
    indicators = only(tool_errors=0.5)
    assert len(fired(indicators, rounds(20, 20, START + 10 * HOUR))) == 1
    assert indicators.gauges["tool_errors"] == (1.0, True)
    indicators.tick(START)
    assert indicators.gauges["tool_errors"] == (0.0, False)
    assert len(fired(indicators, rounds(20, 20, START + 60))) == 1


@pytest.mark.slow
def test_memory_is_bounded_whatever_clients_send():
    indicators = Indicators(IndicatorSettings())
    for batch in range(60):
        start = START + batch * 2
        indicators.observe(
            Observation(
                start, f"caller-{batch}-{one}", "", f"session-{batch}-{one}" + "x" * 1_000,
                f"model-{batch}-{one}" + "y" * 1_000, "x", 200, 1.0, 1, 1, 20, 20, 99,
            )
            for one in range(1_000)
        )  # fmt: skip
        events = indicators.tick(start)
        assert len(events) <= 4
    sessions, models = indicators._sessions._sessions.all(), indicators._latencies._models.all()
    callers = indicators._errors._callers.all()
    assert len(callers) <= MAX_CALLERS
    assert len(models) <= MAX_MODELS
    assert len(sessions) <= MOST_SESSIONS
    assert max(len(one.key[2]) for one in sessions) <= 128
    assert max(len(one.scope.model) for one in models) <= 128
    standing = [len(alarm._scopes) for alarm in indicators._alarms.values()]
    assert max(standing) <= MOST_SCOPES


observations = st.builds(
    Observation,
    time=st.integers(0, 8 * 3_600).map(lambda second: START + second),
    caller=st.sampled_from("ab"),
    project=st.sampled_from(["", "p"]),
    session=st.sampled_from(["", "s", "t"]),
    model=st.sampled_from("mn"),
    provider=st.just("x"),
    status=st.sampled_from([0, 200, 404, 500]),
    first_byte=st.none() | st.floats(0, 1_000),
    input_tokens=st.integers(0, 10_000),
    output_tokens=st.integers(0, 10_000),
    tools=st.integers(0, 30),
    failed=st.integers(0, 30),
    turn_calls=st.integers(-1, 40),
)


@given(calls=st.lists(observations, min_size=1, max_size=200))
def test_no_scope_is_told_of_twice_within_an_hour(calls):
    latest = {}
    for event in fired(Indicators(IndicatorSettings()), sorted(calls, key=lambda one: one.time)):
        scope = {**event.data["scope"], "session": ""}
        key = (event.data["indicator"], *sorted(scope.items()), event.data["scopes"] > 1)
        assert event.time - latest.get(key, -HOUR) >= HOUR
        latest[key] = event.time


def minutes(*tokens, start=START, session="run-1", caller="alice"):
    """Return a call every 10 seconds that together use so many tokens each minute."""
    return [
        Observation(
            start + 60 * n + 10 * k, caller, "", session, "m", "x", 200, None, used // 6,
            turn_calls=-1,
        )
        for n, used in enumerate(tokens)
        for k in range(6)
    ]  # fmt: skip


class TestBurnRate:
    @pytest.mark.parametrize(
        ("before", "burst", "fires"),
        [
            pytest.param([60_000] * 12, [480_000] * 2, True, id="eight times, for two minutes"),
            pytest.param([60_000] * 12, [480_000, 60_000], False, id="a burst of one minute"),
            pytest.param([60_000] * 12, [270_000] * 3, False, id="less than five times"),
            pytest.param([60_000] * 8, [480_000] * 2, False, id="known for too short a time"),
            pytest.param([1_200] * 12, [9_600] * 3, False, id="too little to matter"),
        ],
    )
    def test_it_fires_when_a_session_leaves_its_own_mean_behind(self, before, burst, fires):
        events = fired(only(burn_rate=5.0), minutes(*before, *burst))
        assert [event.data["indicator"] for event in events] == ["burn_rate"] * fires

    def test_it_says_how_fast_and_how_fast_it_was(self):
        (event,) = fired(only(burn_rate=5.0), minutes(*[60_000] * 12, *[480_000] * 2))
        assert event.data["scope"] == {"caller": "alice", "session": "run-1"}
        assert "times its mean of 60,000" in event.data["explanation"]

    def test_a_history_that_grows_is_normal(self):
        growing = [10_000 + 5_000 * n for n in range(90)]
        indicators = only(burn_rate=5.0)
        assert fired(indicators, minutes(*growing)) == []

    def test_rests_do_not_count(self):
        calls = minutes(*[60_000] * 6)
        calls += minutes(*[60_000] * 6, start=START + 600)
        calls += minutes(*[480_000] * 2, start=START + 1_200)
        assert len(fired(only(burn_rate=5.0), calls)) == 1

    def test_it_is_told_once_and_is_over_when_the_session_is(self):
        indicators = only(burn_rate=5.0)
        calls = minutes(*[60_000] * 12, *[480_000] * 4)
        events = fired(indicators, calls, until=START + 3 * HOUR)
        assert len(events) == 1
        assert indicators.gauges["burn_rate"] == (0.0, False)

    def test_what_goes_on_is_the_new_normal(self):
        indicators = only(burn_rate=5.0)
        fired(indicators, minutes(*[60_000] * 12, *[480_000] * 30))
        assert indicators.gauges["burn_rate"][1] is False
