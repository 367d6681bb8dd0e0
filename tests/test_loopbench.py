"""`bench/loops`: the protocol, the detectors of others, and the report of a comparison."""

import json
import sys
import threading
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import chain
from types import SimpleNamespace
from xml.etree import ElementTree

import pytest
from bench.loops import package_worker
from bench.loops.__main__ import main
from bench.loops.chart import chart
from bench.loops.compare import Entrants, judge_all
from bench.loops.detector import DetectorError, HttpDetector, load_detector
from bench.loops.packages import PackageAsker, Worker, usable, worker
from bench.loops.report import GROUPS, PAGES, RESULTS, write
from bench.loops.rules import RULES, presets, rules
from bench.loops.scenario import Played, Scenario, Step, ask, play
from bench.loops.score import Case, Score, scores_of
from bench.loops.trail import Trail, Turn, Use
from bench.loops.written import read_written

from looptrap import Guard

TOOLS = [{"type": "function", "function": {"name": name}} for name in ("look", "read_file")]


def turn_messages(number, text, calls, results):
    """An assistant's message with its calls, and the results."""
    made = [
        {
            "id": f"call_{number}_{place}",
            "type": "function",
            "function": {"name": name, "arguments": json.dumps(arguments)},
        }
        for place, (name, arguments) in enumerate(calls)
    ]
    said = {"role": "assistant", "content": text} | ({"tool_calls": made} if made else {})
    told = [
        {"role": "tool", "tool_call_id": call["id"], "content": result}
        for call, result in zip(made, results, strict=True)
    ]
    return [said, *told]


def scenario(turns, *, is_loop=True, name="run", begins=0, kind="told", keep=None):
    """A run of an agent, in which each request has the whole history, or the last turns of it."""
    task = {"role": "user", "content": "Find out why the build of the shop is red."}
    history, steps = [], []
    for number, (text, calls, results) in enumerate([*turns, ("Done.", (), ())]):
        shown = history if keep is None else history[-keep:]
        body = {"model": "m", "tools": TOOLS, "messages": [task, *chain(*shown)]}
        made = turn_messages(number, text, calls, results)
        answer = json.dumps({"id": f"r{number}", "choices": [{"message": made[0]}]}).encode()
        steps.append(Step(10.0 * number, 4.0, body, answer))
        history.append(made)
    return Scenario(name, kind, is_loop, steps, begins=begins)


def look(where, result="nothing", text="I look."):
    return text, (("look", {"at": where}),), (result,)


def looks(*places, **said):
    return scenario([look(place, **said) for place in places])


SAME = looks(*["log"] * 8)
ALTERNATING = looks(*["log", "page"] * 4)
WORK = scenario([look(f"file {n}", f"text {n}", f"Now file {n}.") for n in range(8)])
RETOLD = scenario([look("log", f"line {n}", f"Try {n}.") for n in range(8)])
CHANT = "The build is red since it is red, and it is red since then as it was. "
CHANTED = scenario([look("log"), (CHANT * 14, (), ()), (CHANT * 14, (), ())])
LONG = scenario([look(f"file {n}", f"text {n}", f"Now file {n}.") for n in range(30)])

CASES = {
    "3 equal calls in a row": [(SAME, 3), (RETOLD, 3), (ALTERNATING, None)],
    "5 equal calls in a row": [(SAME, 5), (ALTERNATING, None), (WORK, None)],
    "3 equal of the last 10": [(SAME, 3), (ALTERNATING, 5), (WORK, None)],
    "OpenHands": [(SAME, 4), (ALTERNATING, 6), (RETOLD, None)],
    "Gemini CLI": [(SAME, 6), (CHANTED, 3), (ALTERNATING, None)],
    "Qwen Code": [(SAME, 5), (ALTERNATING, None), (WORK, None)],
    "Qwen Code, heuristics on": [(ALTERNATING, 6), (WORK, 8), (CHANTED, 2)],
    "LiteLLM, 25 calls a session": [(LONG, 25), (SAME, None), (WORK, None)],
}
"""The step at which each rule refuses three runs; none: it lets them pass."""


def test_every_rule_has_cases():
    assert set(CASES) == set(RULES)


@pytest.mark.parametrize("detector", rules(), ids=lambda detector: detector.name)
def test_a_rule_refuses_what_its_documentation_says(detector):
    for run, expected in CASES[detector.name]:
        assert ask(run, detector.new_run()).refused == expected


def test_gemini_cli_gives_feedback_before_it_stops():
    [gemini] = [one for one in rules() if one.name == "Gemini CLI"]
    assert ask(SAME, gemini.new_run()).warnings == (5,)


def test_errors_make_openhands_stop_sooner():
    [openhands] = [one for one in rules() if one.name == "OpenHands"]
    errors = scenario([look("log", f"Error: no disk {n}") for n in range(8)])
    assert ask(errors, openhands.new_run()).refused == 3


def test_a_rule_sees_calls_that_requests_no_longer_show():
    [rule] = [one for one in rules() if one.name == "5 equal calls in a row"]
    trimmed = scenario([look("log")] * 8, keep=1)
    assert ask(trimmed, rule.new_run()).refused == 5


# trails


def followed(*scenarios):
    """The turns of each agent."""
    trail, found = Trail(), {}
    for run in scenarios:
        for step in run.steps:
            agent, turns = trail.follow(step)
            found.setdefault(agent, []).extend(turns)
            trail.answered(step, step.at + step.takes)
    return found


def test_a_trail_has_each_turn_once():
    [turns] = followed(ALTERNATING).values()
    assert turns == [
        Turn("I look.", (Use("look", json.dumps({"at": at}, separators=(",", ":")), "nothing"),))
        for at in ["log", "page"] * 4
    ]


def test_a_trail_of_untold_answers_is_read_from_requests():
    silent = replace(SAME, steps=[replace(step, answer=b"") for step in SAME.steps])
    assert followed(silent) == followed(SAME)


def test_an_agent_that_begins_anew_is_another_one():
    later = [replace(step, at=step.at + 500) for step in SAME.steps]
    assert [len(turns) for turns in followed(SAME, replace(SAME, steps=later)).values()] == [8, 8]


@pytest.mark.parametrize(
    ("text", "call"),
    [
        ("THOUGHT: x\n\n```bash\nls -l\n```", ("bash", '{"command":"ls -l"}')),
        ("Thought: x\nAction: find\nAction Input: {\"b\": 1, \"a\": 2}", ("find", '{"a":2,"b":1}')),
        ("I look.\n\n<read>\n<path>a.py</path>\n</read>", ("read", '{"path":"a.py"}')),
        (
            "[[ ## next_thought ## ]]\nx\n\n[[ ## next_tool_name ## ]]\nfind\n\n"
            "[[ ## next_tool_args ## ]]\n{}\n\n[[ ## completed ## ]]",
            ("find", "{}"),
        ),
        ("Thought: x\n<code>\nprint(1)\n</code>", ("python", '{"code":"print(1)"}')),
        ('<tool_call>\n{"name": "find", "arguments": {}}\n</tool_call>', ("find", "{}")),
        ('{"memory": "x", "action": [{"click": {"index": 3}}]}', ("click", '{"index":3}')),
        ("I could not find it.", None),
    ],
)  # fmt: skip
def test_calls_that_are_written_as_text_are_read(text, call):
    assert read_written(text) == ([call] if call else [])


# the protocol


class Counting:
    """Warns of the second call and refuses the fourth; notes what it is told."""

    name = "counting"
    told: list = []  # noqa: RUF012 - all runs of a test

    def new_run(self):
        return CountingRun()


class CountingRun:
    reason = "the fourth call"

    def __init__(self):
        self.calls = 0

    def __call__(self, step):
        self.calls += 1
        return {2: "warn", 4: "refuse"}.get(self.calls, "allow")

    def answered(self, step, at):
        Counting.told.append((step.answer, at))


def test_a_detector_is_asked_before_each_call_and_told_of_answers_at_their_times(monkeypatch):
    monkeypatch.setattr(Counting, "told", [])
    played = ask(SAME, Counting().new_run())
    assert (played.warned, played.refused, played.why) == (1, 3, "the fourth call")
    assert (played.calls, played.warnings) == (4, (1,))
    assert Counting.told == [(step.answer, step.at + 4.0) for step in SAME.steps[:3]]


def test_a_function_without_more_is_an_asker():
    played = ask(SAME, lambda step: "refuse" if step.at >= 30 else "allow")
    assert (played.refused, played.why) == (3, "")


def test_the_default_preset_is_a_detector_like_the_others():
    detector, expected = presets()[0], play(SAME, Guard.from_preset("default", secret=b"bench"))
    played = ask(SAME, detector.new_run())
    assert played.refused is not None
    assert (played.refused, played.why) == (expected.refused, expected.why)


@pytest.fixture
def module(monkeypatch):
    """A module with detectors of strangers."""
    monkeypatch.setattr(Counting, "told", [])
    strange = SimpleNamespace(made=Counting(), Class=Counting, make=lambda: Counting(), wrong=3)
    strange.__dict__["nothing"] = lambda: None
    monkeypatch.setitem(sys.modules, "strange", strange)


@pytest.mark.parametrize("attribute", ["made", "Class", "make"])
def test_a_detector_is_found_by_module_and_attribute(module, attribute):
    assert ask(SAME, load_detector(f"strange:{attribute}").new_run()).refused == 3


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ("strange", "a detector is a URL or module:attribute"),
        ("no.such.module:x", "No module named"),
        ("strange:missing", "missing"),
        ("strange:nothing", "has no `name`"),
    ],
)
def test_what_is_no_detector_is_said(module, spec, said):
    with pytest.raises(DetectorError, match=said):
        load_detector(spec)


def test_the_command_plays_a_detector_of_a_stranger(module, monkeypatch, capsys):
    told = SimpleNamespace(scenarios=lambda seed: [SAME, replace(WORK, is_loop=False)])
    monkeypatch.setattr("bench.loops.__main__.MODULES", {"dev": (told,)})
    main(["--detector", "strange:Class"])
    _, row, refused = capsys.readouterr().out.splitlines()
    assert row.replace("|", "").split() == ["told", "1", "1", "1", "3", "1", "1", "1"]
    assert refused == "honest refused: run at 3: the fourth call"


@pytest.fixture
def server():
    """A detector over HTTP that refuses the fourth call; it keeps what it gets."""
    got, wants = [], {}

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self):
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            got.append(asked)
            verdict = "refuse" if asked.get("call") == 3 else "allow"
            reply = json.dumps({"verdict": verdict, "reason": "fourth", **wants}).encode()
            self.send_response(wants.get("status", 200))
            self.send_header("Content-Length", str(len(reply)))
            self.end_headers()
            self.wfile.write(reply)

        def log_message(self, *about):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        server.block_on_close = False
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield SimpleNamespace(url=f"http://127.0.0.1:{server.server_port}/x", got=got, wants=wants)
        server.shutdown()


def run_over_http(server):
    asker = HttpDetector(server.url).new_run()
    played = ask(SAME, asker)
    asker.close()
    return played


def test_a_detector_answers_over_http(server):
    played = run_over_http(server)
    assert (played.refused, played.why, played.cpu_s) == (3, "fourth", 0.0)
    first, *_, last = server.got
    assert (first["call"], last["call"], len({one["run"] for one in server.got})) == (0, 3, 1)
    assert set(first) == {"run", "call", "at", "path", "headers", "caller", "body"}
    assert first["body"] == SAME.steps[0].body
    assert last["at"] - first["at"] == 30.0


def test_a_detector_over_http_gets_answers_if_it_asks_for_them(server):
    server.wants["wants_answers"] = True
    run_over_http(server)
    answers = [one for one in server.got if "answer" in one]
    assert [one["call"] for one in answers] == [0, 1, 2]
    assert answers[0]["answer"].encode() == SAME.steps[0].answer


@pytest.mark.parametrize("wrong", [{"verdict": "maybe"}, {"status": 500}])
def test_a_wrong_reply_over_http_is_said(server, wrong):
    server.wants.update(wrong)
    asker = HttpDetector(server.url).new_run()
    with pytest.raises(DetectorError, match="replied with"):
        ask(SAME, asker)
    asker.close()


def test_a_url_is_a_detector():
    assert load_detector("http://127.0.0.1:9/x") == HttpDetector("http://127.0.0.1:9/x")


# packages


FAKE = """
import json, sys
print(json.dumps({first}), flush=True)
for line in sys.stdin:
    asked = json.loads(line)
    calls = [use for turn in asked["turns"] for use in turn["uses"]]
    verdict = "refuse" if any(use["arguments"] == {{"at": "page"}} for use in calls) else "allow"
    print(json.dumps({{"verdict": verdict, "reason": "page", "cpu": 0.5}}), flush=True)
"""


@pytest.fixture
def python(monkeypatch, tmp_path):
    """A worker that stands in for a package's."""

    def make(first):
        path = tmp_path / "worker.py"
        path.write_text(FAKE.format(first=first))
        monkeypatch.setattr("bench.loops.packages.WORKER", path)
        monkeypatch.setattr("bench.loops.packages._workers", {})
        return sys.executable

    return make


def test_a_package_gets_the_turns_of_an_agent_in_a_process_of_its_own(python):
    program = python({"ready": True})
    asker = PackageAsker(program, "any")
    played = ask(ALTERNATING, asker)
    assert (played.refused, played.why, played.cpu_s) == (2, "page", 1.5)
    worker(program, "any").end()


def test_a_package_that_cannot_be_used_is_said(python):
    with pytest.raises(DetectorError, match="any cannot be used: no such module"):
        Worker(python({"error": "no such module"}), "any")


def test_without_an_environment_every_package_is_missing(tmp_path):
    found, notes = usable(tmp_path)
    assert (found, set(notes)) == ([], set(package_worker.ADAPTERS))


# scores and report


def case(is_loop=True, *, refused=None, warnings=(), kind="told", begins=2, steps=12):
    played = Played(min(warnings, default=None), refused, "", 10, 0.001, tuple(warnings))
    return Case("d", "dev", "n", kind, is_loop, steps, begins, played)


@pytest.mark.parametrize(
    ("found", "caught_at", "saved"),
    [
        (case(refused=5), 5, 7),
        (case(refused=2), 2, 10),
        (case(refused=1), None, 10),
        (case(warnings=(4,)), None, 0),
        (case(warnings=(1, 4), kind="restarts"), 4, 0),
        (case(), None, 0),
    ],
    ids=["refused", "at once", "early", "warned", "restarts", "missed"],
)
def test_a_loop_is_caught_from_where_it_begins(found, caught_at, saved):
    assert (found.caught_at, found.saved) == (caught_at, saved)


def test_a_score_counts_loops_and_honest_runs():
    score = Score.of(
        [
            case(refused=5),
            case(refused=9),
            case(refused=1),
            case(warnings=(3,)),
            case(False, refused=3, begins=0),
            case(False, warnings=(3,), begins=0),
            case(False, begins=0),
        ]
    )
    assert (score.loops, score.caught, score.loops_flagged, score.early) == (4, 2, 4, 1)
    assert (score.honest, score.honest_refused, score.honest_flagged) == (3, 1, 2)
    assert (score.lag, score.waste_saved) == (5, (7 + 3 + 10) / 40)
    assert score.cpu_us == pytest.approx(100)


@pytest.fixture(scope="module")
def compared():
    """Two scenarios, asked of all detectors that need no other environment."""
    told = {"dev": [SAME], "test": [replace(WORK, name="work", is_loop=False)]}
    return list(judge_all(Entrants(), told, processes=1))


def test_all_detectors_are_asked_about_all_scenarios(compared):
    names = [one.name for one in (*presets(), *rules())]
    assert [(one.detector, one.split) for one in compared] == [
        (name, split) for split in ("dev", "test") for name in names
    ]


def test_the_report_is_a_table_json_and_a_chart(compared, tmp_path):
    for page in PAGES:
        path = tmp_path / page
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("before\n<!-- results -->\nold\n<!-- end of results -->\nafter\n")
    (tmp_path / "docs" / "pictures").mkdir()
    write(compared, {"lost": "not installed"}, 0, tmp_path)
    texts = {(tmp_path / page).read_text() for page in PAGES}
    [text] = texts
    assert (text.startswith("before"), text.endswith("after\n"), "old" in text) == (1, 1, 0)
    assert "| 3 equal calls in a row | 1 | 1.00 | 1 | 0 | 0 | 0 | 3 | 67% |" in text
    assert "- lost: not installed" in text
    write(compared, {}, 0, tmp_path)
    assert (tmp_path / PAGES[0]).read_text().count("**dev**") == 1
    results = json.loads((tmp_path / RESULTS).read_text())
    assert results["splits"]["dev"]["OpenHands"]["recall"] == 1.0
    assert results["kinds"]["OpenHands"]["test/told"]["honest_refused"] == 0


def test_the_chart_is_xml_with_a_point_for_each_detector(compared):
    scores = scores_of(compared)
    root = ElementTree.fromstring(chart(scores, GROUPS))
    space = "{http://www.w3.org/2000/svg}"
    points = list(root.iter(f"{space}circle"))
    named = [point.find(f"{space}title").text for point in points]
    assert named == [name for found in scores.values() for name in found]
    assert {point.get("class") for point in points} == {"ours", "preset", "rule"}
    width, height = map(float, root.get("viewBox").split()[2:])
    for point in points:
        assert 0 < float(point.get("cx")) < width
        assert 0 < float(point.get("cy")) < height
