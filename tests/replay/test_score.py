"""Scores: verdicts beside what people say of the runs."""

from statistics import median

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.replay.recorded import line, stuck

from looptrap.replay.judge import FirstActions
from looptrap.replay.recorded_run import RunLabel, read_run
from looptrap.replay.replay import LabelGroup, Score, ScoredRun


def case(label, *, began=None, hard=False, **first):
    return ScoredRun(FirstActions(**first), RunLabel(label, None, began, hard))


def test_counts_each_label_apart():
    score = Score.of(
        [
            case("loop", block=5),
            case("loop", warn=2, stop=4),
            case("loop", nudge=3),
            case("loop"),
            case("ok", warn=1),
            case("ok", hard=True, warn=1, block=2),
            case("ok", hard=True),
            case("?", block=1),
            ScoredRun(FirstActions(warn=1)),
        ]
    )
    assert score.loops == LabelGroup(4, 3, 2)
    assert score.honest == LabelGroup(3, 2, 1)
    assert score.hard == LabelGroup(2, 1, 1)
    assert score.unjudged == LabelGroup(2, 2, 1)
    assert (score.recall, score.flag_recall, score.precision) == (2 / 4, 3 / 4, 2 / 3)


def test_nothing_has_no_share():
    score = Score()
    assert not score.has_labels
    assert (score.recall, score.precision, score.saved_share) == (None, None, None)
    assert score.calls_until_caught is None


@given(delays=st.lists(st.integers(-5, 30), min_size=1))
def test_the_median_is_the_median(delays):
    score = Score.of(case("loop", began=10, block=10 + delay) for delay in delays)
    assert score.calls_until_caught == median(delays)


@pytest.mark.parametrize(
    ("refused", "spared"),
    [
        pytest.param(None, [], id="never"),
        pytest.param(0, [3, 4, 5], id="before the loop began"),
        pytest.param(4, [4, 5], id="in the middle"),
        pytest.param(6, [], id="at the request that would follow"),
    ],
)
def test_a_refusal_spares_what_is_wasted_after_it(refused, spared):
    judged = {"label": "loop", "first_loop_step": 2}
    run = read_run(line(stuck(6), judged=judged), "x")
    found = ScoredRun.of(run, FirstActions(block=refused))
    assert found.wasted_bytes == sum(map(run.prompt_bytes, [3, 4, 5]))
    assert found.saved_bytes == sum(map(run.prompt_bytes, spared))


def test_honest_runs_waste_nothing():
    judged = {"label": "ok", "first_loop_step": None}
    run = read_run(line(stuck(6), judged=judged), "x")
    assert ScoredRun.of(run, FirstActions(block=1)).wasted_bytes == 0
