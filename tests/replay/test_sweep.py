"""The threshold sweep: ladders times a factor, and what they would catch."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.replay.recorded import honest, line, policies, stuck

from looptrap.detect.window import HIT_LIMIT
from looptrap.policy.action import Action, Ladder
from looptrap.policy.policy import Policy
from looptrap.policy.rule import Rule
from looptrap.replay.judge import judge_run
from looptrap.replay.recorded_run import read_run
from looptrap.replay.replay import SWEEP_FACTORS, LabelGroup, ScoredRun, ThresholdSweep
from looptrap.replay.ruleset import MIN_THRESHOLD, Ruleset, scale_ladder, scale_policies

ACTIONS = [action for action in Action if action is not Action.ALLOW]


@st.composite
def ladders(draw):
    actions = draw(st.lists(st.sampled_from(ACTIONS), min_size=1, unique=True))
    counts = draw(
        st.lists(
            st.integers(MIN_THRESHOLD, HIT_LIMIT),
            min_size=len(actions),
            max_size=len(actions),
            unique=True,
        )
    )
    by_severity = sorted(actions, key=lambda action: action.severity)
    return Ladder(dict(zip(by_severity, sorted(counts), strict=True)))


@pytest.mark.parametrize(
    ("steps", "factor", "expected"),
    [
        pytest.param({"warn": 3, "block": 5}, 2.0, {"warn": 6, "block": 10}, id="twice"),
        pytest.param({"warn": 3, "block": 5}, 0.6, {"warn": 2, "block": 3}, id="rounded"),
        pytest.param({"warn": 3, "block": 4}, 0.6, {"warn": 2, "block": 3}, id="kept apart"),
        pytest.param({"block": 2}, 0.6, {"block": 2}, id="no lower than the lowest"),
        pytest.param({"block": 9_000}, 2.0, {"block": 10_000}, id="no higher than hits count"),
    ],
)
def test_ladders_are_scaled(steps, factor, expected):
    ladder = Ladder({Action(name): count for name, count in steps.items()})
    found = {action.value: count for action, count in scale_ladder(ladder, factor).steps}
    assert found == expected


@given(ladder=ladders())
def test_factor_one_changes_nothing(ladder):
    assert scale_ladder(ladder, 1.0) == ladder


@given(ladder=ladders())
def test_a_higher_factor_never_has_a_lower_threshold(ladder):
    scales = [scale_ladder(ladder, factor) for factor in SWEEP_FACTORS]
    for lower, higher in pairwise(scales):
        for (action, low), (same, high) in zip(lower.steps, higher.steps, strict=True):
            assert action is same
            assert MIN_THRESHOLD <= low <= high <= HIT_LIMIT


def test_session_rules_stay_within_what_sessions_may_have():
    rule = Rule(
        name="session", watch="session", ladder=Ladder({Action.WARN: 900, Action.BLOCK: 990})
    )
    (policy,) = scale_policies([Policy(name="test", rules=(rule,))], 2.0)
    assert policy.rules[0].ladder.last == 1_000


def test_every_factor_is_scored_on_the_same_runs():
    rules = Ruleset(policies(block=5))
    sweep = ThresholdSweep(rules)
    loop = read_run(line(stuck(8), judged={"label": "loop", "first_loop_step": 0}), "x")
    ok = read_run(line(honest(8), judged={"label": "ok"}), "x")
    for run in (loop, ok):
        sweep.add(run, ScoredRun.of(run, judge_run(run, rules).first))
    refused = {factor: score.loops.refused for factor, score in sweep.scores.items()}
    assert refused == {0.6: 1, 0.8: 1, 1.0: 1, 1.25: 1, 1.5: 1, 2.0: 0}
    delays = [score.calls_until_caught for score in sweep.scores.values()]
    assert delays == [3, 4, 5, 6, 8, None]
    assert all(score.honest == LabelGroup(1) for score in sweep.scores.values())
