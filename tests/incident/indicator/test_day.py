"""A day of synthetic traffic: nothing fires on a normal one, every planted trouble does, once."""

from random import Random

import pytest
from tests.incident.indicator.traffic import (
    HOUR,
    PANE,
    START,
    WINDOW,
    day,
    fired,
    marathon,
    session,
)

from looptrap.incident.indicator import Indicators, Observation
from looptrap.incident.setting import IndicatorSettings

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def normal():
    return day()


def between(call, hours):
    return any(START + begin * HOUR <= call.time < START + end * HOUR for begin, end in hours)


def failing_tools(calls, hours):
    """All tools of one caller break."""
    return [
        call._replace(failed=call.tools)
        if call.caller == "carol" and between(call, hours)
        else call
        for call in calls
    ]


def busy_turns(calls, hours):
    """One agent goes on and on without asking anybody."""
    runaway = [
        Observation(
            START + begin * HOUR + 8 * step, "alice", "coding", f"busy-{begin}", "gpt-5.3",
            "openai", 200, 1.0, 1_000, 100, 1, 0, step,
        )
        for begin, _ in hours
        for step in range(40)
    ]  # fmt: skip
    return sorted(calls + runaway)


def slow_provider(calls, hours):
    """One model of one provider takes its time."""
    return [
        call._replace(first_byte=call.first_byte * 8)
        if call.model == "gpt-5.3" and between(call, hours)
        else call
        for call in calls
    ]


def hungry_session(calls, hours):
    """One session swallows what ten others do."""
    rng, more = Random(7), []
    for begin, _ in hours:
        run = session(rng, f"hungry-{begin}", "bob", "coding", START + begin * HOUR, turns=3)
        more += [call._replace(input_tokens=call.input_tokens * 10) for call in run]
    return sorted(calls + more)


def burning_session(calls, hours):
    """One session begins to use eight times what it did, a quarter of an hour after it began."""
    more = []
    for begin, _ in hours:
        planted = START + begin * HOUR
        run = marathon(Random(7), f"burning-{begin}", planted - 900, minutes=21, project="pilot")
        more += [
            call._replace(input_tokens=call.input_tokens * 8) if call.time >= planted else call
            for call in run
        ]
    return sorted(calls + more)


def test_a_normal_day_fires_nothing(normal):
    assert len(normal) > 200_000
    indicators = Indicators(IndicatorSettings())
    assert fired(indicators, normal) == []
    assert not any(is_firing for _, is_firing in indicators.gauges.values())


@pytest.mark.parametrize(
    ("indicator", "plant", "scope"),
    [
        pytest.param(
            "tool_errors",
            failing_tools,
            {"caller": "carol", "project": "research"},
            id="tools of one caller break",
        ),
        pytest.param("tool_calls", busy_turns, {"project": "coding"}, id="an agent goes on and on"),
        pytest.param(
            "latency",
            slow_provider,
            {"provider": "openai", "model": "gpt-5.3"},
            id="a model takes its time",
        ),
        pytest.param("tokens", hungry_session, {"project": "coding"}, id="a session swallows ten"),
        pytest.param("burn_rate", burning_session, {"project": "pilot"}, id="a session burns up"),
    ],
)
def test_trouble_fires_within_its_window_once_and_again_when_it_returns(
    normal, indicator, plant, scope
):
    hours = [(11.5, 12.0), (16.0, 16.5)]
    indicators = Indicators(IndicatorSettings())
    part = [call for call in normal if between(call, [(6, 18)])]
    events = fired(indicators, plant(part, hours))
    assert len(events) == 2, [event.title for event in events]
    for event, (begin, _) in zip(events, hours, strict=True):
        assert event.name == "indicator.fired"
        assert event.data["indicator"] == indicator
        assert event.data["value"] > event.data["threshold"]
        told = {name: part for name, part in event.data["scope"].items() if name != "session"}
        assert told == scope
        planted = START + begin * HOUR
        assert planted < event.time <= planted + WINDOW + 2 * PANE
    assert events[0].id != events[1].id
    assert indicators.gauges[indicator][1] is False, "it is over in the end"


def test_all_troubles_of_one_day_are_told_apart(normal):
    calls = failing_tools(normal, [(9, 9.2)])
    calls = slow_provider(calls, [(11, 11.5)])
    calls = busy_turns(calls, [(14, 14.5)])
    calls = hungry_session(calls, [(17, 17.5)])
    calls = burning_session(calls, [(19, 19.5)])
    events = fired(Indicators(IndicatorSettings()), calls)
    named = [event.data["indicator"] for event in events]
    assert named == ["tool_errors", "latency", "tool_calls", "tokens", "burn_rate"]
