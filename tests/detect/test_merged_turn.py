"""A message into which a framework merged the rounds of a run is read as these rounds."""

import json

import pytest
from tests.detect.runs import Use, bash, count, openai, requests, together, trajectory
from tests.detect.signals.steps import CAT, LS, WORDS, case, in_both_dialects

from looptrap import Guard, LoopDetectedError

PWD = bash("pwd", "/src")
T = 1_800_000_000.0


def rolled(number):
    return Use("roll_dice", {}, f"{WORDS[number % len(WORDS)]}")


def refused_at(uses):
    """Send a run whose message of the assistant grows; return at which call it is refused."""
    guard = Guard.from_preset("default", secret=b"test")
    tools = sorted({use.tool for use in uses})
    for made in range(1, len(uses) + 1):
        body = openai([together(*uses[:made])], tools)
        try:
            guard.check(body, caller="team", now=T + 2 * made)
        except LoopDetectedError:
            return made
    return None


@pytest.mark.parametrize(
    "uses",
    [
        case([LS] * 20, id="one call"),
        case([CAT, PWD, *[LS] * 20], id="one call, after others"),
        case([LS, CAT] * 10, id="two in turn"),
        case([LS, CAT, PWD] * 7, id="three in turn"),
    ],
)
def test_a_loop_in_one_message_is_refused(uses):
    assert refused_at(uses) <= 9


@pytest.mark.parametrize(
    "uses",
    [
        case([bash(f"cat {word}", word) for word in WORDS[:8]], id="different arguments"),
        case([LS] * 3, id="three by mistake"),
        case([rolled(number) for number in range(10)], id="a sampler"),
        case([Use("flip_coin", {}, side) for side in ("heads", "tails") * 8], id="a coin"),
        case([Use("press_key", {"key": "Down"}, "ok")] * 8, id="keys"),
    ],
)
def test_parallel_calls_of_one_moment_are_not(uses):
    assert refused_at(uses) is None


@in_both_dialects
def test_its_calls_are_rounds_in_their_order(write):
    rounds = trajectory(write, [PWD, together(CAT, *[LS] * 7)]).latest(99)
    commands = [json.loads(round_.calls[0].arguments)["command"] for round_ in rounds]
    assert commands == ["ls"] * 7 + ["cat a.txt", "pwd"]
    assert all(round_.result for round_ in rounds)


@in_both_dialects
def test_work_that_was_merged_is_no_loop(write):
    def fix(word):
        return Use("edit", {"path": word, "new": word}, f"edited {word}")

    check = bash("pytest", "1 failed")
    uses = [step for word in WORDS[:8] for step in (fix(word), check)]
    assert count("repeat", write, [together(*uses)]) == 0
    assert count("cycle", write, [together(*uses)]) == 0


@in_both_dialects
def test_a_call_without_a_result_yet_is_left_out(write):
    rounds = trajectory(write, [together(*[LS] * 6, bash("ls", None))]).latest(99)
    assert len(rounds) == 6


def test_the_run_is_remembered_as_that_run():
    bodies = requests(openai, [together(*[LS] * made) for made in (1, 1, 1)])
    guard = Guard.from_preset("default", secret=b"test")
    for number, body in enumerate(bodies):
        guard.check(body, caller="team", now=T + number)
