"""What if: two rulesets on the same captured calls, with the numbers that replaying them gives."""

import itertools
import json
import re
import shlex
from collections import Counter
from time import monotonic

import pytest
from click.testing import CliRunner
from tests.replay.capturing import BEGAN, Capturing
from tests.replay.recorded import honest, policies, stuck

from looptrap.cli import main
from looptrap.policy import preset
from looptrap.policy.policy import PROJECT, Project
from looptrap.replay.ruleset import Ruleset
from looptrap.replay.what_if import WhatIfRequest, compare

DEFAULT = Ruleset(policies=preset.load("default"))
STRICT = DEFAULT.scaled(0.5)
PROMPT = {"role": "user", "content": "Ship it."}


@pytest.fixture
def capture(tmp_path):
    """Runs that stutter, loop and work, over two files."""
    return captured(tmp_path / "calls")


def captured(folder, form="content", **request):
    capture = Capturing(folder, form)
    for number, messages in enumerate([stuck(3), honest(12), stuck(9), stuck(5)]):
        if number == 2:
            capture.next_file()
        capture.run(messages, session=f"run-{number}", caller="ci", **request)
    for _ in range(7):
        capture.call([PROMPT], caller="cron", session="retry", **request)
    return capture


def asked(capture, then=STRICT, **more):
    return compare(
        WhatIfRequest(folder=str(capture.folder), now=DEFAULT.plain(), then=then.plain(), **more),
        monotonic,
    )


def printed(compared, folder):
    """Return what the command of an answer prints, as JSON a run and as a text."""
    (folder / "what-if.toml").write_text(compared.config, "utf-8")
    program, command, *words = shlex.split(compared.command)
    assert (program, command) == ("looptrap", "replay")
    files, options = words[0], words[1:]
    parent, _, pattern = files.rpartition("/")
    names = sorted(str(one) for one in type(folder)(parent).glob(pattern))
    options = [str(folder / one) if one == "what-if.toml" else one for one in options]
    arguments = [command, *names, *options]
    told = [CliRunner().invoke(main, [*arguments, *more]) for more in (["--json"], [])]
    assert [one.exit_code for one in told] == [0, 0]
    return [json.loads(line) for line in told[0].stdout.splitlines()], told[1].stdout


@pytest.mark.parametrize(
    "then",
    [
        pytest.param(DEFAULT, id="the same"),
        pytest.param(STRICT, id="stricter"),
        pytest.param(DEFAULT.scaled(2), id="milder"),
        pytest.param(Ruleset(policies=preset.load("tcc")), id="another preset"),
        pytest.param(Ruleset(policies=()), id="nothing"),
    ],
)
@pytest.mark.parametrize("form", ["content", "digests"])
def test_the_numbers_are_those_that_replay_prints(tmp_path, form, then):
    compared = asked(captured(tmp_path / "my calls", form), then)
    runs, text = printed(compared, tmp_path)
    counts = compared.then
    flagged = [one for one in runs if one["verdict"] != "allow"]
    assert (compared.runs, compared.calls) == (len(runs), sum(one["calls"] for one in runs))
    assert counts.actions == Counter(one["verdict"] for one in flagged)
    assert counts.rules == Counter(one["rule"] for one in flagged)
    assert counts.signals == Counter(one["signal"] for one in flagged)
    assert counts.flagged_runs == counts.warned_runs + counts.refused_runs == len(flagged)
    assert counts.saved_calls == sum(one["saved_calls"] for one in runs)
    assert counts.saved_tokens == sum(one["saved_tokens"] for one in runs)
    shown = {
        label: int(number.replace(",", ""))
        for label, number in re.findall(r"^  (\w[\w ,]*\w)  +([\d,]+)", text, re.MULTILINE)
    }
    assert shown["flagged runs"] == counts.flagged_runs
    assert shown["calls saved"] == counts.saved_calls
    assert shown["tokens saved, about"] == counts.saved_tokens
    assert {name: shown[name] for name in counts.actions} == counts.actions


def test_tells_which_runs_change_and_how(capture):
    compared = asked(capture)
    assert compared.now != compared.then
    assert compared.changed_runs == len(compared.changed) > 0
    first = compared.changed[0]
    assert (first.now.verdict.refuses, first.then.verdict.refuses) == (False, True)
    assert (first.model, first.project, first.began) == ("gpt-x", "", BEGAN + 1)
    assert first.then.at == first.calls - first.then.saved_calls
    weights = [one.weight for one in compared.changed]
    assert weights == sorted(weights, reverse=True)


def test_the_same_rules_change_nothing(capture):
    compared = asked(capture, DEFAULT)
    assert compared.now == compared.then
    assert (compared.changed_runs, compared.changed) == (0, [])


SHORT = Project(name="research", threshold=3)


def of_project(**more):
    return {
        "then": Ruleset(policies=DEFAULT.policies, projects=(SHORT,)),
        "settings": PROJECT.plain(SHORT),
        **more,
    }


@pytest.mark.parametrize(
    ("said", "asked_for", "changes", "limit"),
    [
        pytest.param("research", "research", True, "", id="calls of the project"),
        pytest.param("other", "research", False, "is of project research", id="calls of another"),
        pytest.param("", "research", True, "is applied to all", id="calls that name none"),
        pytest.param("other", "", True, "", id="for all, whatever they name"),
    ],
)
def test_a_project_is_asked_about(tmp_path, said, asked_for, changes, limit):
    capture = captured(tmp_path / "calls", project=said)
    compared = asked(capture, **of_project(project=asked_for))
    assert (compared.changed_runs > 0) is changes
    about = [one for one in compared.limits if "project" in one]
    assert [limit in one for one in about] == ([True] if limit else [])
    assert printed(compared, tmp_path)[0]


def test_digests_lose_what_lives_on_likeness_and_that_is_said(tmp_path):
    content, digests = (
        asked(captured(tmp_path / form, form)).limits for form in ("content", "digests")
    )
    [lost] = [one for one in digests if "digests" in one]
    assert "near-repeat" in lost
    assert lost not in content


@pytest.mark.parametrize(
    ("rules", "says"),
    [
        pytest.param(DEFAULT, "chant can find nothing", id="answers"),
        pytest.param(Ruleset(policies=policies(block=3)), "", id="none"),
    ],
)
def test_rules_that_find_nothing_in_captures_are_named(capture, rules, says):
    compared = compare(
        WhatIfRequest(folder=str(capture.folder), now=rules.plain(), then=rules.plain()), monotonic
    )
    assert [says in one for one in compared.limits] == ([True] if says else [])


@pytest.mark.parametrize(
    ("bounds", "began", "calls"),
    [({"limit": 8}, None, 8), ({"since": BEGAN + 20}, BEGAN + 20, None)],
    ids=["so many calls", "since then"],
)
def test_earlier_calls_are_left_out_and_that_is_said(capture, bounds, began, calls):
    every, compared = asked(capture), asked(capture, **bounds)
    assert compared.calls < every.calls
    assert compared.calls == (calls or compared.calls)
    assert compared.began == (began or compared.began)
    assert compared.ended == every.ended
    assert "There are earlier calls, which were not judged." in compared.limits
    assert (every.command is None, compared.command) == (False, None)


def test_when_the_time_is_up_what_was_judged_is_told(capture):
    clock = itertools.count()
    question = WhatIfRequest(
        folder=str(capture.folder), now=DEFAULT.plain(), then=STRICT.plain(), seconds=10
    )
    compared = compare(question, lambda: float(next(clock)))
    assert compared.calls == 9
    assert compared.ended == BEGAN + 9
    [limit] = [one for one in compared.limits if "time" in one]
    assert limit == "There was time for 9 of 40 calls, the earliest of them."
    assert compared.command is None


def test_lines_that_are_no_calls_are_counted(capture):
    with capture.files[0].open("ab") as file:
        file.write(b'nonsense\n{"looptrap":1,"t":1}\n')
    assert asked(capture).skipped == 2


@pytest.mark.parametrize("is_there", [True, False], ids=["an empty folder", "no folder"])
def test_nothing_captured_is_no_answer(tmp_path, is_there):
    folder = tmp_path / "calls"
    if is_there:
        folder.mkdir()
    question = WhatIfRequest(folder=str(folder), now=DEFAULT.plain(), then=STRICT.plain())
    assert compare(question, monotonic) is None
