import pytest
from hypothesis import given
from hypothesis import strategies as st

from looptrap.errors import ConfigError
from looptrap.policy.action import Action, Ladder

LADDER = Ladder({Action.WARN: 3, Action.THROTTLE: 4, Action.BLOCK: 6})


@pytest.mark.parametrize(
    ("count", "expected"),
    [
        (0, Action.ALLOW), (2, Action.ALLOW), (3, Action.WARN), (4, Action.THROTTLE),
        (5, Action.THROTTLE), (6, Action.BLOCK), (600, Action.BLOCK),
    ],
)  # fmt: skip
def test_the_nth_hit_trips_a_threshold_of_n(count, expected):
    assert LADDER.at(count) is expected


thresholds = st.dictionaries(
    st.sampled_from([a for a in Action if a is not Action.ALLOW]), st.integers(2, 100), min_size=1
)


@given(thresholds, st.integers(0, 200))
def test_one_more_hit_never_softens_the_action(thresholds, count):
    try:
        ladder = Ladder(thresholds)
    except ConfigError:
        return
    assert ladder.at(count + 1).severity >= ladder.at(count).severity


def test_a_severer_action_needs_a_higher_threshold():
    with pytest.raises(ConfigError, match="block = 3"):
        Ladder({Action.WARN: 5, Action.BLOCK: 3})


@pytest.mark.parametrize(
    ("threshold", "action", "expected"),
    [
        pytest.param(12, None, {Action.WARN: 3, Action.THROTTLE: 4, Action.BLOCK: 12}, id="later"),
        pytest.param(4, None, {Action.WARN: 3, Action.BLOCK: 4}, id="what it passes falls away"),
        pytest.param(None, Action.WARN, {Action.WARN: 6}, id="milder"),
        pytest.param(
            None, Action.STOP, {Action.WARN: 3, Action.THROTTLE: 4, Action.STOP: 6}, id="other"
        ),
    ],
)
def test_an_override_moves_the_severest_step(threshold, action, expected):
    assert LADDER.override(threshold, action) == Ladder(expected)


def test_actions_are_ordered_by_severity():
    assert [a.value for a in sorted(Action, key=lambda a: a.severity)] == [
        "allow", "warn", "throttle", "nudge", "stop", "block",
    ]  # fmt: skip
    assert [a for a in Action if a.refuses] == [Action.STOP, Action.BLOCK]


@pytest.mark.parametrize(
    ("thresholds", "top", "expected"),
    [
        pytest.param({"warn": 3, "block": 5}, "stop", {"warn": 3, "stop": 5}, id="in its place"),
        pytest.param({"stop": 4, "block": 6}, "stop", {"stop": 4}, id="from the lower count on"),
        pytest.param({"nudge": 3, "block": 5}, "warn", {"warn": 3}, id="all above it"),
        pytest.param({"warn": 3}, "stop", {"warn": 3}, id="a milder ladder stays as it is"),
    ],
)
def test_no_action_is_above_the_top(thresholds, top, expected):
    ladder = Ladder({Action(name): count for name, count in thresholds.items()})
    assert ladder.at_most(Action(top)) == Ladder({Action(a): n for a, n in expected.items()})


@given(thresholds, st.sampled_from(list(Action)), st.integers(0, 200))
def test_a_top_never_makes_an_action_severer(thresholds, top, count):
    try:
        ladder = Ladder(thresholds)
    except ConfigError:
        return
    capped = ladder.at_most(top).at(count)
    assert capped.severity <= min(ladder.at(count).severity, top.severity)
    assert (capped is Action.ALLOW) == (ladder.at(count) is Action.ALLOW or top is Action.ALLOW)
