"""Replaying files: what is played, what is passed over, and what is counted."""

import gzip

import pytest
from tests.replay.recorded import honest, line, policies, stuck

from looptrap.policy.action import Action
from looptrap.replay import replay
from looptrap.replay.replay import Replay
from looptrap.replay.report import render_text, summary_tables
from looptrap.replay.ruleset import Ruleset

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
