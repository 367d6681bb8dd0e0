"""`looptrap replay`: objects for programs, a summary for people, a page for both."""

import gzip
import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from tests.replay.recorded import honest, line, stuck

from looptrap.cli import main
from looptrap.dialect.body import read_body
from looptrap.gateway.capture import CaptureEncoder
from looptrap.policy.verdict import ALLOWED

ROOT = Path(__file__).parents[2]
CONFIG = """
[[policies]]
name = "test"

  [[policies.rules]]
  name = "same-end"
  watch = "conversation"
  parts = "content"
  tail = 2
  thresholds = { warn = 2, block = 3 }
"""


@pytest.fixture
def replay(tmp_path, monkeypatch):
    """Write each list of lines to a file and replay them all, in an environment of our own."""

    def replay(*files: list[bytes], options: tuple[str, ...] = (), config=CONFIG) -> Result:
        monkeypatch.chdir(tmp_path)
        for variable in ("LOOPTRAP_PRESET", "LOOP_GUARD_MAX_HITS"):
            monkeypatch.delenv(variable, raising=False)
        names = [f"{number}.jsonl" for number in range(len(files))]
        for name, runs in zip(names, files, strict=True):
            Path(name).write_bytes(b"\n".join(runs))
        if config is not None:
            Path("looptrap.toml").write_text(config, "utf-8")
            options = ("--config", "looptrap.toml", *options)
        return CliRunner().invoke(main, ["replay", *names, *options])

    return replay


def test_json_is_one_object_a_run_in_input_order_and_nothing_else(replay):
    result = replay(
        [line(stuck(5), id="a"), b"junk", line(honest(3), id="b")],
        [line(stuck(2), id="c")],
        options=("--json",),
    )
    assert result.exit_code == 0
    found = [json.loads(one) for one in result.stdout.splitlines()]
    assert [one["id"] for one in found] == ["a", "b", "c"]
    evidence = found[0].pop("evidence")
    saved = found[0].pop("saved_tokens")
    assert evidence[0]["signal"] == "conversation"
    assert saved > 0
    assert found[0] == {
        "id": "a",
        "calls": 5,
        "verdict": "block",
        "first": {"warn": 2, "throttle": None, "nudge": None, "stop": None, "block": 3},
        "rule": "same-end",
        "signal": "conversation",
        "saved_calls": 2,
        "saved_usd": None,
    }
    assert [one["verdict"] for one in found] == ["block", "allow", "warn"]


def test_a_capture_is_replayed_run_by_run(replay):
    lines = CaptureEncoder("digests", b"secret")
    asked = [
        read_body({"model": "m", "messages": stuck(rounds)}, caller=name)
        for rounds in range(5)
        for name in ("a", "b")
    ]
    captured = [lines.line(one, ALLOWED, 1000.0).strip() for one in asked]
    result = replay([*captured[:9], b'{"looptrap": 9}'], options=("--json",))
    assert result.exit_code == 0
    found = [json.loads(one) for one in result.stdout.splitlines()]
    assert [(one["calls"], one["first"]["warn"], one["verdict"]) for one in found] == [
        (5, 2, "block"),
        (4, 2, "block"),
    ]
    assert list(found[0]) == [
        "id", "calls", "verdict", "first", "rule", "signal", "evidence", "saved_calls",
        "saved_tokens", "saved_usd",
    ]  # fmt: skip
    assert "0.jsonl:10: is not a run" in result.stderr


def test_lines_that_are_not_runs_are_named_with_their_number(replay):
    result = replay([line(honest(2)), b"junk", b"", b"[]"])
    assert result.exit_code == 0
    named = re.findall(r"^0\.jsonl:(\d+): is not a run: .+$", result.stderr, re.MULTILINE)
    assert named == ["2", "4"]
    assert re.search(r"lines that are not runs +2\n", result.stdout)


def test_only_so_many_of_them_are_named(replay):
    result = replay([line(honest(2)), *[b"junk"] * 30])
    assert len([line for line in result.stderr.splitlines() if "jsonl" in line]) == 21
    assert "0.jsonl: 10 more lines are not runs" in result.stderr


@pytest.mark.parametrize("options", [(), ("--json",)], ids=["summary", "json"])
def test_fails_when_nothing_could_be_read(replay, options):
    assert replay([b"junk", b"{}"], options=options).exit_code == 1


def test_fails_when_a_file_breaks_off(replay):
    broken = gzip.compress(line(honest(50)))[:-30]
    result = replay([broken], [line(honest(2), id="b")], options=("--json",))
    assert result.exit_code == 1
    assert "0.jsonl: cannot be read further: broken gzip file" in result.stderr
    assert json.loads(result.stdout)["id"] == "b"


def test_the_summary_tells_labelled_runs_apart(replay):
    loop = {"label": "loop", "first_loop_step": 1}
    result = replay([line(stuck(6), judged=loop), line(honest(6), judged={"label": "ok"})])
    assert result.exit_code == 0
    assert re.search(r"recall: loops refused +1 of 1", result.stdout)
    assert "Threshold sweep" in result.stdout
    assert len(result.stderr.splitlines()) == 1  # of the rules; and no progress bar in a pipe


def test_html_writes_a_page(replay):
    result = replay([line(stuck(6), id="<b>")], options=("--html", "out.html", "--json"))
    assert json.loads(result.stdout)["id"] == "<b>"
    written = Path("out.html").read_text("utf-8")
    assert written.startswith("<!doctype html>")
    assert "the policies of looptrap.toml" in written
    assert "&lt;b&gt;" in written


def test_presets_can_be_tried(replay):
    runs = [line(stuck(25))]
    strict = replay(runs, options=("--preset", "tcc", "--json"), config=None)
    assert json.loads(strict.stdout)["verdict"] == "block"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        pytest.param(("--preset", "defualt"), "defualt", id="an unknown preset"),
        pytest.param(("--config", "none.toml"), "none.toml", id="a missing configuration"),
        pytest.param(("--html", "none/out.html"), "none/out.html", id="an impossible page"),
        pytest.param(("none.jsonl",), "none.jsonl", id="a missing file"),
    ],
)
def test_mistakes_end_it_before_anything_is_replayed(replay, options, said):
    result = replay([line(honest(2))], options=options, config=None)
    assert result.exit_code == 2
    assert said in result.stderr
    assert result.stdout == ""


def test_the_page_about_it_shows_what_it_prints(replay):
    text = (ROOT / "docs" / "replay.md").read_text("utf-8")
    run, config, shown = (
        re.search(rf"^```{language}\n({start}.*?)^```$", text, re.MULTILINE | re.DOTALL)[1]
        for language, start in (("json", '{"id"'), ("toml", ""), ("console", r"[^\n]*--json\n"))
    )
    result = replay([run.encode()], options=("--json",), config=config)
    assert result.stdout == shown.partition("\n")[2]


def test_the_page_about_it_names_every_option():
    text = (ROOT / "docs" / "replay.md").read_text("utf-8")
    options = [
        option.opts[0] for option in main.commands["replay"].params if option.opts[0] != "files"
    ]
    assert len(options) == 4
    for option in options:
        assert f"`{option}" in text
