"""A run that was ended here, and that its harness urges on, is refused again at once."""

import pytest
from tests.detect.runs import DIALECTS, PATHS, Person, bash, says

from looptrap import Guard, LoopDetectedError
from looptrap.policy.verdict import Verdict, final_text

NAGS = {
    "mini-swe-agent": "No tool calls found in the response. Every response needs to use the 'bash'"
    " tool at least once to execute commands.",
    "Inspect": "Please proceed to the next step using your best judgement.",
    "Cline": "[ERROR] You did not use a tool in your previous response! Please retry with a tool"
    " use.\n\n# Next Steps\n\nIf you have completed the user's task, use the submit tool.",
    "continue": "Continue",
}
LS, CAT = bash("ls", "a.txt"), bash("cat a.txt", "hello")
WORK = [bash(f"cat {word}.txt", f"all about the {word}") for word in "one two three four".split()]
T = 1_800_000_000.0

by_nag = pytest.mark.parametrize("nag", NAGS.values(), ids=NAGS)
in_each_dialect = pytest.mark.parametrize("write", DIALECTS.values(), ids=DIALECTS)


def play(write, nag, move, calls=61, seconds=1):
    """Return which calls pass where each refusal is a last message, and the harness says `nag`."""
    guard, steps, passed = Guard.from_preset("default", secret=b"test"), [], []
    for number in range(calls):
        try:
            body = write(steps, ["bash"])
            guard.check(body, path=PATHS[write], caller="team", now=T + seconds * number)
        except LoopDetectedError as error:
            verdict = Verdict(reason="loop_detected", evidence=error.evidence)
            steps += [says(final_text(verdict)), Person(nag)]
        else:
            passed.append(number)
            steps.append(move(len(passed)))
    return passed


@in_each_dialect
@by_nag
@pytest.mark.parametrize("loop", [[LS], [LS, CAT]], ids=["repeat", "cycle"])
def test_a_handful_of_calls_gets_through(write, nag, loop):
    passed = play(write, nag, lambda number: loop[number % len(loop)])
    assert len(passed) <= 8


@in_each_dialect
@by_nag
def test_the_model_gets_a_turn_to_change_its_approach(write, nag):
    def move(number):
        return LS if number <= 5 else bash(f"grep -n {number * 7919}", f"line {number * 31}")

    passed = play(write, nag, move)
    assert len(passed) >= 59


@in_each_dialect
def test_a_person_begins_anew(write):
    refused = [*[LS] * 5, says("Looptrap ended this run (recursive_loop_detected) because …")]
    steps = [*refused, Person("Look into the other folder."), *WORK, LS, LS]
    Guard.from_preset("default").check(write(steps, ["bash"]), path=PATHS[write], now=T)
