"""Agents that call tools in plain text: their loops are seen, and people are not taken for them."""

import json

import pytest

from looptrap import Guard, LoopDetectedError
from looptrap.detect.trajectory import Trajectory
from looptrap.dialect.model import Request
from looptrap.dialect.registry import read

T = 1_800_000_000.0
TASK = {"role": "user", "content": "Make the tests of this project pass, please, all of them."}
WORDS = "alpha bravo charlie delta echo foxtrot golf hotel india juliett".split()
case = pytest.param

OBSERVED = [
    case("Observation: {}", id="ReAct"),
    case("Observation:\n{}", id="observation on its own line"),
    case("<returncode>0</returncode>\n<output>\n{}\n</output>", id="tags"),
    case(
        "EXECUTION RESULT of [run]:\n{}\n[Command finished with exit code 0]", id="execution result"
    ),
    case("[execute_command for 'ls'] Result:\n{}", id="brackets"),
    case("{}\n(Open file: n/a)\n(Current directory: /src)\nbash-$", id="a shell that waits"),
    case("Tool output: {}", id="tool output"),
]


def acted(number, action="ls -la src"):
    thought = ["Let me look.", "Hm, once more.", "I should look.", "Perhaps now."][number % 4]
    return {"role": "assistant", "content": f"{thought}\n```bash\n{action}\n```"}


def ask(messages):
    return {"model": "m", "max_tokens": 9, "messages": messages}


def run(rounds, form, result="total 0", action="ls -la src"):
    messages = [TASK]
    for n in range(rounds):
        said = acted(n, action(n) if callable(action) else action)
        told = result(n) if callable(result) else result
        messages += [said, {"role": "user", "content": form.format(told)}]
    return messages


def refusal(messages, path="/v1/chat/completions"):
    """Return the signal that refuses a history; None when it passes."""
    try:
        Guard.from_preset("default").check(ask(messages), path=path, now=T)
    except LoopDetectedError as error:
        return error.evidence[0].signal
    return None


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/messages"])
@pytest.mark.parametrize("form", OBSERVED)
def test_the_same_action_with_the_same_outcome_is_a_repeat(form, path):
    assert refusal(run(4, form), path) is None
    assert refusal(run(6, form), path) == "repeat"


@pytest.mark.parametrize("form", OBSERVED)
def test_another_outcome_or_another_action_is_progress(form):
    words = "alpha bravo charlie delta echo foxtrot golf hotel india juliett".split()
    assert refusal(run(10, form, result=lambda n: f"{WORDS[n]} passed")) is None
    assert (
        refusal(run(10, form, action=lambda n: f"cat {WORDS[n]}.py", result=words.__getitem__))
        is None
    )


@pytest.mark.parametrize("form", OBSERVED[:2])
def test_the_same_error_after_ever_other_actions_is_seen(form):
    error = "bash: syntax error near unexpected token `('"
    assert refusal(run(9, form, error, lambda n: f"please {WORDS[n]} (now)")) == "same_error"


@pytest.mark.parametrize(
    "text",
    [
        case("I get the error 'total 0' again, could you look at it once more?", id="a question"),
        case("Result: it still does not work for me. What now?", id="a report"),
        case("Output is empty on my machine, too, whatever I try here.", id="about output"),
        case("Here is what I see:\n```\ntotal 0\n```\nIs that right, or not?", id="with a block"),
    ],
)
def test_a_person_who_answers_code_begins_anew(text):
    messages = [TASK]
    for n in range(8):
        messages += [acted(n), {"role": "user", "content": f"{text} I mean {WORDS[n]}."}]
    body = json.dumps(ask(messages)).encode()
    call = read(Request(path="/v1/chat/completions", body=body))
    assert Trajectory(call).latest(1) == []


def written_out(arguments):
    """Return an action as some harnesses write it: the API's own form, with an id each time."""

    def action(number):
        call = {"name": "find_part", "arguments": arguments(number)}
        made = {"id": f"call_{number:x}9b", "type": "function", "function": call}
        return f"Calling tools:\n[{made!r}]"

    return action


def called(rounds, arguments):
    messages, action = [TASK], written_out(arguments)
    for n in range(rounds):
        told = {"role": "user", "content": "Observation:\nERROR: the catalogue is offline"}
        messages += [{"role": "assistant", "content": action(n)}, told]
    return messages


def test_the_id_of_a_call_that_is_written_out_is_no_difference():
    assert refusal(called(4, lambda n: {"number": 5})) is None
    assert refusal(called(5, lambda n: {"number": 5})) == "repeat"


def test_an_id_that_is_an_argument_is_one():
    assert refusal(called(5, lambda n: {"id": f"{WORDS[n]}-{WORDS[9 - n]}"})) is None


def test_an_action_in_text_is_no_unknown_tool():
    tools = [{"type": "function", "function": {"name": "bash"}}]
    messages = run(7, "Observation: {}", WORDS.__getitem__, lambda n: f"cat {WORDS[n]}")
    Guard.from_preset("default").check({**ask(messages), "tools": tools}, now=T)


def element(number, path):
    words = ["Let me look.", "Once more.", "I check this again.", "Next: look at the code."]
    return {
        "role": "assistant",
        "content": f"<thinking>\n{WORDS[number % 10]}\n</thinking>\n{words[number % 4]}\n\n"
        f"<read_file>\n<path>{path}</path>\n</read_file>",
    }


def told(number, path, result):
    state = f"<environment_details>\n# Time\n8:0{number}\n{20_000 + 381 * number:,} tokens used"
    return {
        "role": "user",
        "content": f"[read_file for '{path}'] Result:\n{result}\n{state}\n</environment_details>",
    }


def test_elements_are_the_action_and_what_a_harness_adds_in_tags_is_no_result():
    def run(count, path, result):
        rounds = ((element(n, path(n)), told(n, path(n), result(n))) for n in range(count))
        return [TASK, *(message for pair in rounds for message in pair)]

    same = run(6, lambda n: "src/app.py", lambda n: "import this")
    assert refusal(same) == "repeat"
    assert refusal(run(9, lambda n: "queue.txt", lambda n: f"{WORDS[n]} waits")) is None
    assert refusal(run(9, lambda n: f"{WORDS[n]}.py", lambda n: WORDS[n])) is None
