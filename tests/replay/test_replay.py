"""Replaying files: what is played, passed over and counted, and how it agrees with labels."""

import gzip
from itertools import pairwise
from statistics import median

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.replay.recorded import honest, line, policies, stuck

from looptrap.detect.window import HIT_LIMIT
from looptrap.policy.action import Action, Ladder
from looptrap.policy.policy import Policy
from looptrap.policy.rule import Rule
from looptrap.replay import replay
from looptrap.replay.judge import FirstActions, judge_run
from looptrap.replay.recorded_run import RunLabel, read_run
from looptrap.replay.replay import (
    SWEEP_FACTORS,
    LabelGroup,
    Replay,
    Score,
    ScoredRun,
    ThresholdSweep,
)
from looptrap.replay.report import render_text, summary_tables
from looptrap.replay.ruleset import MIN_THRESHOLD, Ruleset, scale_ladder, scale_policies

LOOP = {"label": "loop", "kind": "exact_repeat", "first_loop_step": 0}


@pytest.fixture
def replayed(tmp_path):
    """Replay lines from a file; return the replay and its steps."""

    def replayed(*runs, rules=None, **settings):
        path = tmp_path / "runs.jsonl"
        path.write_bytes(b"\n".join(runs))
        replay = Replay(Ruleset(rules or policies(warn=2, block=3)), **settings)
        return replay, list(replay.play_file(path))

    return replayed


def test_plays_the_runs_in_order_and_passes_over_the_rest(replayed):
    replay, steps = replayed(
        line(stuck(4), id="a"), b"nonsense", line(honest(4), id="b"), b'{"messages":[]}'
    )
    played = [(step.number, step.result.id) for step in steps if step.result]
    skipped = [(step.number, bool(step.problem)) for step in steps if step.result is None]
    assert played == [(1, "a"), (3, "b")]
    assert skipped == [(2, True), (4, True)]
    assert (replay.summary.runs, replay.summary.skipped_lines) == (2, 2)


def test_counts_what_was_found(replayed):
    summary = replayed(line(stuck(6), id="a"), line(stuck(2), id="b"), line(honest(5), id="c"))[
        0
    ].summary
    assert (summary.runs, summary.calls, summary.flagged_runs) == (3, 13, 2)
    assert summary.actions == {Action.BLOCK: 1, Action.WARN: 1}
    assert summary.signals == {"conversation": 2}
    assert summary.rules == {"same-end": 2}
    assert summary.saved_calls == 3
    assert [result.id for result in summary.worst] == ["a", "b"]


def test_a_file_that_breaks_off_keeps_what_came_before(tmp_path):
    path = tmp_path / "runs.gz"
    runs = b"\n".join(line(honest(30), id=str(number)) for number in range(50))
    path.write_bytes(gzip.compress(runs, 1)[:-200])
    replay = Replay(Ruleset(policies(block=3)))
    *_, last = replay.play_file(path)
    assert (last.number, last.result) == (None, None)
    assert "gzip" in last.problem
    assert replay.summary.runs > 0
    assert replay.summary.unfinished_files == 1


def test_keeps_only_the_severest_to_show(replayed, monkeypatch):
    monkeypatch.setattr(replay, "MAX_LISTED_RUNS", 3)
    runs = [line(stuck(rounds), id=str(rounds)) for rounds in (2, 9, 2, 5, 4, 7)]
    found = replayed(*runs)[0].summary
    assert [result.id for result in found.worst] == ["9", "7", "5"]
    assert found.flagged_runs == 6


def test_the_sweep_plays_labelled_runs_only(replayed):
    replay, _ = replayed(
        line(stuck(6), judged=LOOP), line(stuck(6)), line(stuck(6), judged={"label": "unsure"}),
        sweeps=True,
    )  # fmt: skip
    scores = replay.summary.sweep.scores
    assert {score.loops.runs for score in scores.values()} == {1}
    assert {score.unjudged.runs for score in scores.values()} == {0}


def headings(found):
    return [table.heading for table in summary_tables(found)]


def test_tells_no_more_than_there_is_to_tell(replayed):
    assert headings(replayed(line(honest(3)), sweeps=True)[0].summary) == ["Replayed"]
    labelled = replayed(line(stuck(6), judged=LOOP), sweeps=True)[0].summary
    assert headings(labelled)[-2:] == ["Against the labels", "Threshold sweep"]


def test_the_text_has_the_figures(replayed):
    found = replayed(
        line(stuck(6), judged=LOOP), line(stuck(2), judged={"label": "ok"}), b"?", sweeps=True
    )[0].summary
    shown = " ".join(render_text(found).split())
    for figure in (
        "runs 2",
        "lines that are not runs 1",
        "flagged runs 2 of 2 (100.0%)",
        "calls saved 3 of 8 (37.5%)",
        "block 1",
        "recall: loops refused 1 of 1 (100.0%)",
        "false blocks: ok, but refused 0 of 1 (0.0%)",
        "false warnings: ok, but flagged 1 of 1 (100.0%)",
        "calls until caught, median 3",
        "× 2 1 of 1 (100.0%)",
    ):
        assert figure in shown


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
