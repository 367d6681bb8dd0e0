"""`bench/quality.py`: figures on labelled runs, beside two simple detectors."""

import gzip
import json
import subprocess
import sys
from pathlib import Path

import pytest
from bench.quality import equal_calls, equal_tails
from tests.replay.recorded import honest, line, openai_round, stuck

from looptrap.replay.recorded_run import read_run

ROOT = Path(__file__).parents[2]
BLIND = """
[[policies]]
name = "blind"
rules = [{ name = "off", watch = "conversation", threshold = 2, enabled = false }]
"""


def run_bench(*arguments):
    return subprocess.run(
        [sys.executable, "-m", "bench.quality", *map(str, arguments)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.fixture
def labelled(tmp_path):
    path = tmp_path / "runs.jsonl.gz"
    loop = {"label": "loop", "kind": "exact_repeat", "first_loop_step": 0}
    ok = {"label": "ok", "kind": "paging", "hard_negative": True}
    runs = [
        line(stuck(20), id="looping", judged=loop),
        line(honest(20), id="paging", judged=ok),
        line(honest(20), id="unread"),
        b"?",
    ]
    path.write_bytes(gzip.compress(b"\n".join(runs)))
    return path


def test_measures_every_detector_in_one_run(labelled):
    found = run_bench(labelled, "--json")
    assert found.returncode == 0, found.stderr
    assert "line 4" in found.stderr
    figures = json.loads(found.stdout)
    for name in ("looptrap", "3 equal calls in a row", "last 3 messages 5 times"):
        score = figures["detectors"][name]
        assert score["block_recall"] == 1.0
        assert (score["honest"]["refused"], score["unjudged"]["runs"]) == (0, 1)
    assert list(figures["kinds"]) == ["loop exact_repeat", "ok paging"]


def test_lists_what_was_decided_wrongly(labelled, tmp_path):
    blind = tmp_path / "blind.toml"
    blind.write_text(BLIND, "utf-8")
    found = run_bench(labelled, "--config", blind, "--misses")
    assert found.returncode == 0, found.stderr
    assert "loops not blocked: 1" in found.stdout
    assert "looping" in found.stdout
    assert "0/1 0.000" in found.stdout


def test_says_what_is_missing(tmp_path):
    found = run_bench(tmp_path / "none.jsonl")
    assert found.returncode == 2
    assert "there is no such file" in found.stderr


def test_three_equal_calls_are_refused_at_the_request_after_them():
    assert equal_calls(read_run(line(stuck(5)), "x")) == 3
    assert equal_calls(read_run(line(stuck(2)), "x")) is None
    broken = [*stuck(2), *openai_round(2, "b.py"), *stuck(2)[1:]]
    assert equal_calls(read_run(line(broken), "x")) is None


def test_the_fifth_equal_end_is_refused_wherever_the_others_were():
    # The request for turn 2 is the first to carry three messages of the loop and no question.
    assert equal_tails(read_run(line(stuck(9)), "x")) == 6
    assert equal_tails(read_run(line(stuck(5)), "x")) is None
