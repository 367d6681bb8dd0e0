"""Calls that are spelt in other ways, and calls that only look like each other."""

import json
import time
from itertools import cycle, islice

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.detect.forgetful import ForgetfulAgent
from tests.detect.runs import Use, count, openai, together
from tests.test_default_policy import in_both_dialects

from looptrap.detect.call_spelling import MAX_SPELLED_CHARS, spelling
from looptrap.detect.redacted_message import Redactor
from looptrap.dialect.content import canonical_arguments
from looptrap.dialect.model import ToolCall
from looptrap.policy.action import Action

case = pytest.param


def shell(*commands):
    return [{"command": command} for command in commands]


SAME = [
    case(shell("pytest -x -q", "pytest -q -x"), id="flags in another order"),
    case(shell("pytest --tb=short -q a.py", "pytest -q --tb=short a.py"), id="flags with values"),
    case(shell("grep -n 'foo bar' a", 'grep -n "foo bar" a'), id="other quotes"),
    case(shell("grep -n 'foo' a", "grep -n foo a"), id="quotes that are not needed"),
    case(
        [{"command": "make", "description": why} for why in ("Build it", "Run the build", "")],
        id="another description of a command",
    ),
    case(
        [
            {"command": "make", "security_risk": risk, "summary": why}
            for risk, why in (("LOW", "Build it"), ("MEDIUM", "Run the build again"))
        ],
        id="another risk and summary of a command",
    ),
    case(
        [
            {"old_string": "a", "new_string": "b", "instruction": why, "file_path": "x.py"}
            for why in ("Fix it.", 'Say "b" now, with \\ in it.')
        ],
        id="another instruction for an edit",
    ),
    case(shell("pytest  -q", "pytest -q", " pytest -q "), id="more spaces"),
    case(shell("make -s;", "make -s", "make -s ;"), id="a semicolon"),
    case(shell("make -s 2>&1", "make -s", "make -s 2>&1 | cat"), id="errors and output together"),
    case(shell("cd /repo && make", "cd /repo; make", "cd '/repo' && make"), id="a place before"),
    case(shell("cat\u200b a.py", "cat a.py", "cat \u0430.py"), id="letters that look the same"),
    case(
        [{"cmd": ["bash", "-lc", "make -s -k"]}, {"cmd": ["bash", "-lc", "make -k -s"]}],
        id="a shell in a list",
    ),
    case(
        [{"query": "failing test parser"}, {"query": "parser failing test"}],
        id="words of a search in another order",
    ),
    case(
        ['{"path": "a.py", "line": 3}', '{ "line":3,  "path":"a.py" }'],
        id="JSON that is written in another way",
    ),
]
OTHER = [
    case(
        [{"title": "Bug", "description": text} for text in ("It hangs", "It crashes")],
        id="a description that is the content",
    ),
    case(
        [{"command": "add", "summary": text} for text in ("It hangs", "It crashes")],
        id="a summary that is the content",
    ),
    case(
        [{"command": command, "description": "Build"} for command in ("make", "make test")],
        id="another command under the same description",
    ),
    case(shell("mv a b", "mv b a"), id="operands in another order"),
    case(shell("grep -n foo a b", "grep -n foo b a"), id="files in another order"),
    case(shell("sed -i s/a/b/ x", "sed -i s/b/a/ x"), id="another replacement"),
    case(shell("git checkout a -- b", "git checkout b -- a"), id="operands on both sides"),
    case(shell("git checkout a -- b", "git checkout -- a b"), id="what follows two dashes"),
    case(shell("head -n 5 a", "head -n 6 a"), id="numbers"),
    case(shell("cd /a && make", "cd /b && make"), id="places"),
    case(shell("echo 2>err", "echo 2 >err"), id="a redirection and an operand"),
    case(shell("make > f 2>&1", "make > f"), id="errors into a file"),
    case(shell("echo '$HOME'", 'echo "$HOME"'), id="quotes that matter"),
    case(shell("ls '*.py'", "ls *.py"), id="quotes that keep a pattern"),
    case(shell("echo 'a  b'", "echo 'a b'"), id="spaces in quotes"),
    case(shell("find . -a -o", "find . -o -a"), id="flags whose order matters"),
    case(shell("run --a=1 --a=2", "run --a=2 --a=1"), id="flags of the same name"),
    case(shell("head -n 5 -c 3 a", "head -c 5 -n 3 a"), id="flags that take a value"),
    case(shell("git log -S foo", "git log -s foo"), id="case"),
    case(shell("python - <<E\nx  = 1\nE", "python - <<E\nx = 1\nE"), id="scripts"),
    case([{"query": "select a from b"}, {"query": "select b from a"}], id="queries of a language"),
    case([{"query": "a AND NOT b"}, {"query": "b AND NOT a"}], id="operators"),
    case([{"query": "rows 5 to 9"}, {"query": "rows 9 to 5"}], id="a range"),
    case([{"query": "parser test"}, {"query": "lexer test"}], id="other words"),
    case([{"path": "a b.py"}, {"path": "b a.py"}], id="words that are no search"),
    case([{"text": "a  b"}, {"text": "a b"}], id="spaces in a text"),
    case([{"code": "print('a')"}, {"code": 'print("a")'}], id="code"),
]


def spelt(arguments):
    return [spelling(canonical_arguments(one)) for one in arguments]


def uses(arguments, times=6, result="2 failed, 3 passed"):
    read = [json.loads(one) if isinstance(one, str) else one for one in arguments]
    return [Use("run", one, result) for one in islice(cycle(read), times)]


@pytest.mark.parametrize("arguments", SAME)
def test_another_spelling_is_the_same_call(arguments):
    assert len(set(spelt(arguments))) == 1


@in_both_dialects
@pytest.mark.parametrize("arguments", SAME)
def test_calls_in_other_spellings_are_repeats(write, arguments):
    assert count("repeat", write, uses(arguments)) == 6


@in_both_dialects
@pytest.mark.parametrize("arguments", SAME)
def test_with_other_results_they_are_not(write, arguments):
    steps = [Use(use.tool, use.arguments, f"{n} of 9") for n, use in enumerate(uses(arguments))]
    assert count("repeat", write, steps) == 0


@pytest.mark.parametrize("arguments", OTHER)
def test_another_call_stays_another(arguments):
    assert len(set(spelt(arguments))) == len(arguments)


@in_both_dialects
@pytest.mark.parametrize("arguments", OTHER)
def test_other_calls_are_no_repeats_of_each_other(write, arguments):
    assert count("repeat", write, uses(arguments, 2)) == 0


@in_both_dialects
def test_however_long_the_pause_before_it_a_look_is_the_same_poll(write):
    looks = shell("sleep 30; tail -n 4 a.log", "sleep 2m && tail -n 4 a.log")
    assert len(set(spelt(looks))) == 1
    assert count("repeat", write, uses(looks, 12)) == 3
    assert len(set(spelt(shell("sleep 30", "sleep 60")))) == 2


def test_bare_commands_are_spelt_too():
    assert spelling("pytest -x -q 2>&1") == spelling("pytest -q -x")
    assert spelling("mv a b") != spelling("mv b a")
    assert spelling("print('a')") == "print('a')"


@pytest.mark.parametrize("keeps", [0, 2], ids=["whole", "trimmed"])
@pytest.mark.parametrize("arguments", SAME)
def test_histories_and_memory_judge_them_alike(arguments, keeps):
    agent = ForgetfulAgent(keeps=keeps)
    actions = [agent.does(use).verdict.action for use in uses(arguments)]
    assert actions.index(Action.BLOCK) == 4


@pytest.mark.parametrize("keeps", [0, 2], ids=["whole", "trimmed"])
def test_a_batch_over_places_is_left_alone(keeps):
    agent = ForgetfulAgent(keeps=keeps)
    batch = [Use("run", {"command": f"cd /{name} && make -s"}, "done") for name in "abcdefghij"]
    assert agent.does(*batch).verdict.action is Action.ALLOW


@pytest.mark.parametrize("arguments", SAME + OTHER)
def test_captures_tell_the_same_calls_apart(arguments):
    redactor = Redactor(b"secret")
    texts = [canonical_arguments(one) for one in arguments]
    captured = {spelling(redactor.call(ToolCall("", "run", text)).arguments) for text in texts}
    assert len(captured) == len(set(spelt(arguments)))


def test_each_in_a_spelling_of_its_own():
    flags = ["-x -q -s", "-x -s -q", "-q -x -s", "-q -s -x", "-s -x -q", "-s -q -x"]
    steps = [Use("run", {"command": f"pytest {one}"}, "2 failed") for one in flags]
    agent = ForgetfulAgent()
    assert agent.does(*steps).verdict.action is Action.BLOCK
    assert count("repeat", openai, [*steps, steps[0]]) == 7


def test_parallel_calls_in_other_spellings_are_repeats():
    one = Use("run", {"command": "make -s -k"}, "made"), Use("run", {"command": "make a"}, "a")
    other = Use("run", {"command": "make -k -s"}, "made"), Use("run", {"command": "make a"}, "a")
    steps = [together(*one), together(*other[::-1])] * 3
    assert count("repeat", openai, steps) == 6


@given(text=st.text(max_size=60) | st.text("ab -;'\"|&>2\\ ", max_size=60))
def test_a_spelling_is_spelt_once(text):
    arguments = msgspec.json.encode({"command": text}).decode()
    assert spelling(spelling(arguments)) == spelling(arguments)
    assert spelling(spelling(text)) == spelling(text)


@pytest.mark.parametrize(
    "text",
    ["'" * 399, " -a" * 130, '"' * 399, "a;" * 199, ";" * 399, "2>&1 " * 79, "x" * 100_000],
    ids=["quotes", "flags", "double quotes", "semicolons", "operators", "redirections", "long"],
)
def test_hostile_commands_take_little_time(text):
    assert len(text) < MAX_SPELLED_CHARS or spelling(text) == text
    started = time.process_time()
    for number in range(50):
        spelling(json.dumps({"command": text, "n": number}))
        spelling(f"x {text}")
    assert time.process_time() - started < 0.5
