"""What a harness puts around a result says nothing; what the result says counts."""

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.detect.forgetful import ForgetfulAgent
from tests.detect.runs import Use, anthropic, count, openai, trajectory
from tests.test_default_policy import in_both_dialects

from looptrap.detect.failure import failure_of
from looptrap.detect.harness_note import without_notes
from looptrap.policy.action import Action

case = pytest.param


def codex(n, output, status=0):
    return (
        f"Chunk ID: {0x2A399F + n * 7919:06x}\nWall time: {n * 0.0512:.4f} seconds\n"
        f"Process exited with code {status}\nOriginal token count: {12 + n % 3}\nOutput:\n{output}"
    )


def old_codex(n, output, status=0):
    return f"Exit code: {status}\nWall time: {n * 0.3:.1f} seconds\nOutput:\n{output}"


def codex_json(n, output, status=0):
    metadata = f'{{"exit_code":{status},"duration_seconds":{n * 0.3:.1f}}}'
    return f'{{"output":"{output}","metadata":{metadata}}}'


def gemini(n, output, status=0):
    return (
        f"Command: make\nDirectory: (root)\nOutput: {output or '(empty)'}\nError: (none)\n"
        f"Exit Code: {status}\nSignal: (none)\nBackground PIDs: {8_000 + n}\n"
        f"Process Group PGID: {8_695 + n * 41}"
    )


def short_gemini(n, output, status=0):
    shown = f"\nExit Code: {status}" if status else ""
    return f"Output: {output or '(empty)'}{shown}\nProcess Group PGID: {8_695 + n * 41}"


def reminded(n, output, status=0):
    nag = (
        f"The TodoWrite tool hasn't been used recently. Here are {n} errors to fix:" + " x" * 90 * n
    )
    return f"{output}\n\n<system-reminder>\n{nag}\n</system-reminder>" if n % 2 else output


def reminded_before(n, output, status=0):
    return f"<system-reminder>Failed {n} times.</system-reminder>\n{output}" if n % 2 else output


def editor(n, output, status=0):
    state = (
        f"# VSCode Open Tabs\nsrc/{'abcdefghi'[n]}.py\n\n# Current Time\n11/15/2026, 10:0{n}:00 AM"
    )
    use = f"# Current Cost\n$0.{n}7\n\n# Context Window Usage\n{n * 1000} / 200K tokens used"
    return f"{output}\n<environment_details>\n{state}\n\n{use}\n</environment_details>"


def openhands(n, output, status=0):
    return (
        f"{output}\n[The command completed with exit code {status}.]\n"
        f"[Current working directory: /srv/{n}]\n[Python interpreter: /venv/{n}/bin/python]\n"
        f"[Command finished with exit code {status}]"
    )


def subagent(n, output, status=0):
    return (
        f"{output}\nagentId: a{n}c41f\n"
        f"<usage>total_tokens: {n * 977}, tool_uses: {n}, duration_ms: {n * 7919}</usage>"
    )


def saved(n, output, status=0):
    return f"{output}\n[output truncated. Full output saved to: /tmp/out/toolu_{n}Qx{n * 7}.txt]"


FRAMES = [
    case(frame, id=frame.__name__)
    for frame in (
        *(codex, old_codex, codex_json, gemini, short_gemini, reminded, reminded_before, editor),
        *(openhands, subagent, saved),
    )
]
COMMITS = ("5f3a9b1c", "0badcafe", "deadbeef", "c0ffee12", "9b1c5f3a", "1234abcd")


def calls(frame, outputs):
    return [
        Use("bash", {"command": "make"}, frame(n, output)) for n, output in enumerate(outputs, 1)
    ]


@in_both_dialects
@pytest.mark.parametrize("frame", FRAMES)
def test_the_same_output_in_a_frame_is_a_repeat(write, frame):
    assert count("repeat", write, calls(frame, ["built 3 of 9 parts"] * 6)) == 6


@in_both_dialects
@pytest.mark.parametrize("frame", FRAMES)
@pytest.mark.parametrize(
    "outputs",
    [
        case([f"built {n} of 9 parts" for n in range(6)], id="progress"),
        case([f"id: {n}" for n in range(4711, 4717)], id="the id of an order"),
        case([f"offset {n * 4096}" for n in range(6)], id="an offset"),
    ],
)
def test_another_output_in_a_frame_is_another_result(write, frame, outputs):
    assert count("repeat", write, calls(frame, outputs)) == 0


@in_both_dialects
@pytest.mark.parametrize(
    "frame", [f for f in FRAMES if f.id not in ("codex_json", "subagent", "saved")]
)
@pytest.mark.parametrize(
    "outputs",
    [
        case([f"PID: {n * 41}" for n in range(3, 9)], id="a process that was asked for"),
        case(COMMITS, id="the commit that was made"),
        case([f"2026-11-{n:02}" for n in range(1, 7)], id="a date"),
    ],
)
def test_never_is_all_that_a_result_says_taken_for_noise(write, frame, outputs):
    assert count("repeat", write, calls(frame, outputs)) == 0


@pytest.mark.parametrize("frame", FRAMES)
def test_a_trimmed_run_is_judged_like_a_whole_one(frame):
    agents = ForgetfulAgent(), ForgetfulAgent(keeps=2)
    loop = calls(frame, ["built 3 of 9 parts"] * 6)
    found = [[agent.does(use).verdict.action for use in loop] for agent in agents]
    assert found[0].index(Action.BLOCK) == 4
    # What is masked in the first result is not remembered.
    assert found[1].index(Action.BLOCK) in (4, 5)


@pytest.mark.parametrize("frame", FRAMES)
def test_a_trimmed_run_that_gets_on_is_left_alone(frame):
    agent = ForgetfulAgent(keeps=2)
    ticket = agent.does(*calls(frame, [f"built {n} of 9 parts" for n in range(8)]))
    assert ticket.verdict.action is Action.ALLOW


@pytest.mark.parametrize("frame", [f for f in FRAMES if f.id != "codex_json"])
@pytest.mark.parametrize("output", ["make: *** no rule for target. error 2", "all is well"])
def test_a_frame_hides_no_failure_and_makes_none(frame, output):
    failures = {failure_of(without_notes(frame(n, output))) for n in (1, 2, 3)}
    if frame in (codex, old_codex, gemini, openhands):
        assert failures == {None}  # the exit status decides
        failures = {failure_of(without_notes(frame(n, output, 2))) for n in (1, 2, 3)}
        assert None not in failures
    else:
        assert (None in failures) is (output == "all is well")
    assert len(failures) == 1


@in_both_dialects
def test_a_note_that_comes_once_hides_no_stagnation(write):
    failure = "E   ModuleNotFoundError: No module named 'yaml'\n1 error in 0.12s"
    steps = [
        step
        for n in range(12)
        for step in (
            Use("edit", {"path": "a.py", "old": f"x{n}", "new": f"y{n}"}, "The file was updated."),
            Use("bash", {"command": "pytest"}, reminded(n, failure)),
        )
    ]
    assert count("stagnation", write, steps) == count(
        "stagnation", write, [Use(s.tool, s.arguments, without_notes(s.result)) for s in steps]
    )
    assert count("stagnation", write, steps) >= 8


@pytest.mark.parametrize(
    "note",
    [
        case("<system-reminder>The file is empty.</system-reminder>", id="a reminder"),
        case("Wasted call — file unchanged since your last Read.", id="a call that was wasted"),
        case("(End of file - total 0 lines)", id="the end of a file"),
        case("[Current working directory: /w]\n[Command finished with exit code 0]", id="a place"),
    ],
)
def test_a_result_that_is_only_a_note_says_what_the_note_says(note):
    assert without_notes(note) == note
    steps = [Use("read", {"path": "a.py"}, note)] * 6
    assert count("repeat", openai, steps) == 6


@pytest.mark.parametrize(
    "text",
    [
        case("see <system-reminder> in prompts.py", id="a word about it"),
        case("a\n<system-reminder>x</system-reminder>\nb", id="inside a text"),
        case("Command: make is the word", id="a first word"),
        case("Output: 5", id="an output without a frame"),
        case("Exit code: 3\nusage: make", id="a status"),
        case("[1,\n[2]]", id="a list"),
        case("</system-reminder>", id="an end without a beginning"),
    ],
)
def test_what_only_looks_like_a_note_stays(text):
    assert without_notes(text) == text


def test_what_a_command_prints_in_the_background_is_news():
    def state(n):
        return (
            "Command is running.\n<environment_details>\n# Current Time\n10:00\n\n"
            f"# Actively Running Terminals\n## make\n### New Output\n{n} of 9\n\n"
            "# Current Mode\nact\n</environment_details>"
        )

    assert count("repeat", anthropic, [Use("wait_for", {}, state(n)) for n in range(9)]) == 0


@given(text=st.text(max_size=300) | st.text("<system-reminder>/\n[]$ usage", max_size=300))
def test_notes_are_taken_once_and_leave_something(text):
    rest = without_notes(text)
    assert len(rest) <= len(text)
    assert bool(rest.strip()) is bool(text.strip())


@pytest.mark.parametrize(
    "text",
    [
        "<system-reminder>" * 20_000 + "</system-reminder>",
        "<system-reminder></system-reminder>" * 10_000,
        "Output: " + "\nSignal: (none)" * 20_000,
        "x\n" + "[a]\n" * 50_000 + "]",
        "<environment_details>" + "# Inactive Terminals\n" * 9_000 + "</environment_details>",
    ],
    ids=["openings", "blocks", "labels", "brackets", "terminals"],
)
def test_hostile_results_take_little_time(text):
    started = time.process_time()
    for _ in range(5):
        without_notes(text)
    assert time.process_time() - started < 0.5


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        case('{"output":"a\\nb"}', "a\nb", id="the only text of an object"),
        case('{"result":"No such file here"}', "No such file here", id="a line of words"),
        case('{"exit_code":1,"output":"a\\nb"}', 'a\nb\n{"exit_code":1}', id="other values below"),
        case('[{"type":"text","text":"a\\nb"}]', "a\nb", id="parts of a content"),
        case(
            '{"content":[{"type":"text","text":"a b"}],"isError":true}',
            'a b\n{"content":[{"type":"text"}],"isError":true}',
            id="as MCP writes it",
        ),
        case('{"status":"success","data":{"output":"a\\nb"}}', None, id="deeper in it"),
        case('{"error":"a\\nb"}', '{"error":"a\\nb"}', id="an error keeps its name"),
        case('{"id":"T-100"}', '{"id":"T-100"}', id="an id is no text"),
        case('{"one":"a\\nb","two":"c\\nd"}', '{"one":"a\\nb","two":"c\\nd"}', id="two texts"),
        case("{not JSON}", "{not JSON}", id="no JSON"),
        case("[]", "[]", id="nothing"),
    ],
)
def test_a_text_in_json_is_read_as_if_it_stood_alone(text, expected):
    found = without_notes(text)
    assert found == expected if expected is not None else found.startswith("a\nb\n{")


@in_both_dialects
@pytest.mark.parametrize("wrap", ['{{"result":{}}}', '[{{"type":"text","text":{}}}]'])
def test_failures_in_json_are_failures(write, wrap):
    text = "File app.py, line 12\n    total = (1\n            ^\nSyntaxError: '(' was never closed"
    plain = trajectory(write, [Use("bash", {"command": "make"}, text)]).newest
    wrapped = wrap.format(json.dumps(text))
    found = trajectory(write, [Use("bash", {"command": "make"}, wrapped)]).newest
    assert found.failure == plain.failure is not None
    assert found.result == plain.result == text
