"""Captures: every call is judged as it was when it came, and the latest of a folder are found."""

import json
import tracemalloc

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.replay.captured import DIALECTS, MODEL
from tests.replay.capturing import BEGAN, Capturing
from tests.replay.recorded import line as run_line
from tests.replay.recorded import openai_round, policies, stuck

from looptrap.dialect import captured
from looptrap.dialect.model import Request
from looptrap.dialect.registry import read
from looptrap.engine import Guard
from looptrap.gateway.capture import CaptureEncoder
from looptrap.policy import preset
from looptrap.policy.action import Action
from looptrap.policy.policy import Policy
from looptrap.policy.verdict import ALLOWED
from looptrap.replay.capture import CaptureReplayer, CaptureSurvey
from looptrap.replay.judge import BYTES_PER_TOKEN, FirstActions
from looptrap.replay.replay import Replay
from looptrap.replay.ruleset import Ruleset

CHAT = "/v1/chat/completions"
FORMS = pytest.mark.parametrize("form", ["content", "digests"])
DEFAULT = preset.load("default")
WITHOUT_LIKENESS = tuple(
    Policy(
        name=policy.name,
        rules=tuple(
            rule
            for rule in policy.rules
            if rule.watch
            in ("conversation", "repeat", "cycle", "failing", "same_error", "unknown_tool",
                "turn_budget")
        ),
    )
    for policy in DEFAULT
)  # fmt: skip


def call(messages, path=CHAT, **request):
    body = messages if isinstance(messages, dict) else {"model": MODEL, "messages": messages}
    return read(Request(path=path, body=msgspec.json.encode(body), **request))


class Captured:
    """Calls judged live and written down as the gateway does."""

    def __init__(self, rules, form):
        self._guard = Guard(rules)
        self._lines = CaptureEncoder(form, b"secret")
        self.verdicts = {}
        self.lines = []

    def take(self, one, now=1000.0):
        verdict = self._guard.admit(one, now).verdict
        text = self._lines.line(one, verdict, now)
        run = json.loads(text)["run"]
        self.verdicts.setdefault(run, []).append(verdict)
        self.lines.append(text)
        return run


def replayed(lines, rules):
    """Return what replaying these lines finds, by run."""
    player = CaptureReplayer(Ruleset(rules))
    for line in lines:
        player.play(line)
    return {run.id: run.result() for run in player.finish()}


def first_of(verdicts):
    found = {}
    for index, verdict in enumerate(verdicts):
        if verdict.action is not Action.ALLOW:
            found.setdefault(verdict.action.value, index)
    return FirstActions(**found)


@FORMS
@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_loop_is_caught_where_it_was_in_every_dialect(dialect, form):
    path, body = DIALECTS[dialect]
    live = Captured(DEFAULT, form)
    for number in range(12):
        rounds = 0 if dialect == "openai_completions" else number
        live.take(call(body(rounds), path, caller="me"), 1000.0 + number)
    ((run, verdicts),) = live.verdicts.items()
    result = replayed(live.lines, DEFAULT)[run]
    worst = max(verdicts, key=lambda one: one.action.severity)
    assert result.verdict is Action.BLOCK
    assert (result.calls, result.first) == (12, first_of(verdicts))
    assert (result.rule, result.signal) == (worst.rule, worst.evidence[0].signal)
    assert result.evidence == worst.evidence


AGENT = st.tuples(st.sampled_from(["ann", "ben"]), st.sampled_from(["", "s-1"]), st.booleans())
ROUND = st.tuples(
    st.sampled_from(["a.py", "b.py"]),
    st.sampled_from(
        ["no such file", "all is well", "KeyError: x", "", "took 3 ms", "still waiting"]
    ),
)


@FORMS
@given(
    calls=st.lists(st.tuples(AGENT, st.lists(ROUND, max_size=3), st.integers(0, 40)), max_size=20)
)
def test_every_call_is_judged_as_it_was_however_runs_cross(form, calls):
    live = Captured(WITHOUT_LIKENESS, form)
    histories, now = {}, 1000.0
    for (caller, session, is_retry), rounds, later in calls:
        now += later
        history = histories.setdefault((caller, session), stuck(0))
        for path, result in rounds:
            history += openai_round(len(history), path, result)
        asked = call(history, caller=caller, session=session, is_retry=is_retry)
        live.take(asked, now)
    found = replayed(live.lines, WITHOUT_LIKENESS)
    assert list(found) == list(live.verdicts)
    for run, verdicts in live.verdicts.items():
        assert found[run].calls == len(verdicts)
        assert found[run].first == first_of(verdicts)


@FORMS
def test_what_is_saved_is_what_was_sent_from_the_first_refusal_on(form):
    live = Captured(policies(block=3), form)
    sizes = []
    for rounds in range(7):
        one = call(stuck(rounds))
        live.take(one)
        sizes.append(sum(len(bytes(raw)) for raw in one.raws))
    (result,) = replayed(live.lines, policies(block=3)).values()
    assert result.first == FirstActions(block=3)
    assert (result.saved_calls, result.saved_tokens) == (4, sum(sizes[3:]) // BYTES_PER_TOKEN)


def test_callers_count_for_themselves():
    live = Captured(policies(block=3), "digests")
    for caller in ("ann", "ben", "ann", "ben"):
        live.take(call(stuck(1), caller=caller))
    assert {one.verdict for one in replayed(live.lines, policies(block=3)).values()} == {
        Action.ALLOW
    }
    for caller in ("ann", "ben"):
        live.take(call(stuck(1), caller=caller))
    assert {one.first.block for one in replayed(live.lines, policies(block=3)).values()} == {2}


def test_a_run_that_was_silent_for_an_hour_is_told_and_begins_anew():
    live = Captured(policies(block=3), "content")
    player = CaptureReplayer(Ruleset(policies(block=3)))
    ids = [live.take(call(stuck(1)), now) for now in (0.0, 10.0, 3700.0)]
    told = []
    for line in live.lines:
        player.play(line)
        told.append([result.calls for result in player.finished_runs()])
    assert told == [[], [], [2]]
    assert [(one.id, one.calls) for one in player.finish()] == [(ids[0], 1)]


def test_runs_are_told_in_the_order_of_their_first_calls():
    live = Captured(policies(block=3), "content")
    ids = [live.take(call(stuck(1), session=name), 0.0) for name in "abc"]
    live.take(call(stuck(1), session="a"), 3000.0)
    live.take(call(stuck(1), session="d"), 4000.0)  # b and c are over, a may go on
    player = CaptureReplayer(Ruleset(policies(block=3)))
    for line in live.lines:
        player.play(line)
        assert list(player.finished_runs()) == []
    assert [result.id for result in player.finish()][:3] == ids


@pytest.mark.parametrize(
    ("bound", "most"), [("MAX_RUNS", 2), ("MAX_MESSAGE_BYTES", 1200)], ids=["runs", "bytes"]
)
def test_no_line_leans_on_what_a_reader_forgot(monkeypatch, bound, most):
    monkeypatch.setattr(captured, bound, most)
    live = Captured(policies(block=50), "content")
    for number in range(40):
        name = "abcd"[number * number % 4 if number % 3 else number % 4]
        live.take(call(stuck(number % 3), session=name), float(number))
    player = CaptureReplayer(Ruleset(policies(block=50)))
    for line in live.lines:
        player.play(line)
    assert sum(result.calls for result in player.finish()) == 40
    kept = [json.loads(line).get("kept", 0) for line in live.lines]
    assert 0 < kept.count(0) < 40


# Files


@pytest.fixture
def replay_files(tmp_path):
    """Replay files of these lines; return the results in their order, and the problems."""

    def replay_files(*files, rules=None):
        replay = Replay(Ruleset(rules or policies(warn=2, block=3)))
        steps = []
        for number, lines in enumerate(files):
            path = tmp_path / f"{number}.jsonl"
            path.write_bytes(b"".join(lines))
            steps += replay.play_file(path)
        results = [step.result for step in steps if step.result] + list(replay.finish())
        return replay.summary, results, [step.problem for step in steps if step.problem]

    return replay_files


def test_a_run_goes_on_in_the_next_file(replay_files):
    live = Captured(policies(warn=2, block=3), "digests")
    for rounds in range(2):
        live.take(call(stuck(rounds)))
    live._lines.start_over()
    for rounds in range(2, 6):
        live.take(call(stuck(rounds)))
    summary, (result,), problems = replay_files(live.lines[:2], live.lines[2:])
    assert problems == []
    assert (result.calls, result.first) == (6, FirstActions(warn=2, block=3))
    assert (summary.runs, summary.calls, summary.saved_calls) == (1, 6, 3)
    # And each file can be replayed by itself.
    _, (alone,), problems = replay_files(live.lines[2:])
    assert (alone.calls, problems) == (4, [])


def test_captures_and_runs_are_told_in_the_order_of_the_files(replay_files):
    live = Captured(policies(block=3), "content")
    ids = [live.take(call(stuck(1), session=name)) for name in "ab"]
    recorded = [run_line(stuck(4), id="run") + b"\n"]
    _, results, problems = replay_files(live.lines, recorded, live.lines)
    assert [result.id for result in results] == [*ids, "run", *ids]
    assert problems == []


@pytest.mark.parametrize(
    ("change", "why"),
    [
        pytest.param({"kept": 3}, "needs 3 messages", id="a line before it is missing"),
        pytest.param({"kept": -1}, "needs -1 messages", id="less than nothing kept"),
        pytest.param({"dialect": "mcp"}, "dialect mcp", id="a dialect that is not captured"),
        pytest.param({"dialect": "morse"}, "dialect", id="a dialect that is none"),
        pytest.param({"looptrap": 2}, "looptrap", id="another version"),
        pytest.param({"t": "now"}, r"\$\.t", id="no time"),
    ],
)
def test_a_line_that_cannot_be_played_is_passed_over(replay_files, change, why):
    live = Captured(policies(block=3), "content")
    live.take(call(stuck(1)))
    broken = json.dumps(json.loads(live.lines[0]) | change).encode() + b"\n"
    live.take(call(stuck(1), session="b"))
    summary, results, (problem,) = replay_files([broken, live.lines[1]])
    assert (len(results), summary.skipped_lines) == (1, 1)
    assert why.replace("\\", "") in problem


def answered(id="lt-1", now=2000.0):
    return CaptureEncoder("content", b"secret").answer_line(id, None, now)


def test_an_answer_to_a_call_that_is_not_there_changes_nothing(replay_files):
    live = Captured(policies(block=3), "content")
    live.take(call(stuck(1)))
    summary, [result], problems = replay_files([answered(), *live.lines, answered()])
    assert (result.calls, summary.skipped_lines, problems) == (1, 0, [])


@pytest.mark.parametrize("change", [{"t": "now"}, {"looptrap": 2}, {"calls": 1}])
def test_an_answer_that_cannot_be_read_is_passed_over(replay_files, change):
    broken = json.dumps(json.loads(answered()) | change).encode() + b"\n"
    summary, _, (_,) = replay_files([broken])
    assert summary.skipped_lines == 1


@pytest.mark.parametrize("id", ["", "lt-{}"], ids=["answered at once", "never answered"])
def test_memory_does_not_grow_with_a_capture(tmp_path, monkeypatch, id):
    monkeypatch.setattr(captured, "MAX_MESSAGE_BYTES", 1_000_000)
    path = tmp_path / "calls.jsonl"
    lines = CaptureEncoder("content", b"s")
    with path.open("wb") as file:
        for number in range(400):
            one = call([{"role": "user", "content": f"{number} " + "x" * 50_000}])
            file.write(lines.line(one, ALLOWED, float(number), id.format(number)))
    replay = Replay(Ruleset(policies(block=3)))
    tracemalloc.start()
    try:
        for _ in replay.play_file(path):
            pass
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    list(replay.finish())
    assert replay.summary.runs == 400
    assert peak < 4_000_000 < path.stat().st_size


MANY = 1_000


@pytest.fixture
def capture(tmp_path):
    """Two files of five calls each, of which the second names a project."""
    capture = Capturing(tmp_path / "calls")
    capture.run(stuck(4))
    capture.next_file()
    capture.run(stuck(4), project="research")
    return capture


def test_all_calls_are_found(capture):
    survey = CaptureSurvey(capture.folder, limit=MANY)
    assert (survey.calls, survey.files, survey.is_cut) == (10, capture.files, False)
    assert (survey.began, survey.ended) == (BEGAN + 1, BEGAN + 10)
    assert (survey.projects, survey.forms) == ({"research"}, {"content"})


@pytest.mark.parametrize(
    ("limit", "began", "files"),
    [
        pytest.param(7, 4, 2, id="within the first file"),
        pytest.param(5, 6, 1, id="the whole second file"),
        pytest.param(2, 9, 1, id="within the second file"),
    ],
)
def test_the_latest_are_kept(capture, limit, began, files):
    survey = CaptureSurvey(capture.folder, limit=limit)
    assert (survey.calls, survey.began, survey.since) == (limit, BEGAN + began, BEGAN + began)
    assert survey.is_cut
    assert survey.files[-files:] == capture.files[-files:]


@pytest.mark.parametrize(("since", "calls"), [(0, 10), (4, 7), (6, 5), (11, 0)])
def test_none_is_older_than_asked_for(capture, since, calls):
    survey = CaptureSurvey(capture.folder, since=BEGAN + since, limit=MANY)
    assert (survey.calls, survey.is_cut) == (calls, calls < 10)
    assert len(survey.files) == (2 if calls > 5 else calls > 0)


def test_what_is_no_call_and_no_capture_is_passed_over(capture):
    (capture.folder / "notes.jsonl").write_bytes(capture.files[0].read_bytes())
    with capture.files[0].open("ab") as file:
        file.write(b'nonsense\n{"looptrap":1}\n{"looptrap":1,"t":"x"}\n\xff\n')
    assert CaptureSurvey(capture.folder, limit=MANY).calls == 10


def test_answers_are_no_calls(capture):
    with capture.files[0].open("ab") as file:
        file.write(CaptureEncoder("digests", b"s").answer_line("lt-1", None, BEGAN + 5))
    assert CaptureSurvey(capture.folder, limit=MANY).calls == 10


def test_a_folder_that_is_not_there_has_no_calls(tmp_path):
    assert CaptureSurvey(tmp_path / "nowhere", limit=MANY).calls == 0
