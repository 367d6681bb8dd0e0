"""A message into which a framework merged the rounds of a run is read as these rounds."""

import json

import pytest
from tests.detect.runs import PATHS, Use, bash, count, openai, together, trajectory
from tests.detect.signals.steps import CAT, LS, WORDS, case, in_both_dialects

from looptrap import Guard, LoopDetectedError
from looptrap.engine.policy_engine import MAX_TURN_ENDS, TurnEnds

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


def growing(uses, write, ids):
    """Yield the requests of a run whose one turn grows, with ids as providers make them."""
    for made in range(1, len(uses) + 1):
        body = json.dumps(write([together(*uses[:made])], ["bash"]))
        for number in range(made):
            body = body.replace(f'"call_0_{number}"', f'"call_{ids(number)}"')
        yield json.loads(body)


def random_id(number):
    return f"{number * 7919 + 104_729:012x}Qz"


def first_refused(bodies, write):
    guard = Guard.from_preset("default", secret=b"test")
    for number, body in enumerate(bodies, 1):
        try:
            guard.check(body, path=PATHS[write], caller="team", now=T + 2 * number)
        except LoopDetectedError:
            return number
    return None


NOISY = [
    bash("make", f"took {number * 37 % 11}.{number} s: Error: no rule") for number in range(12)
]


@in_both_dialects
def test_a_turn_that_grows_is_merged_whatever_its_results(write):
    assert first_refused(growing(NOISY, write, random_id), write) <= 8
    assert first_refused(growing(NOISY, write, str), write) is None  # such ids come again


@in_both_dialects
def test_work_in_a_turn_that_grows_is_none(write):
    uses = [bash(f"cat {word}", f"all about the {word}") for word in WORDS]
    assert first_refused(growing(uses, write, random_id), write) is None


@in_both_dialects
def test_the_same_parallel_calls_of_many_agents_are_not_merged(write):
    body = list(growing(NOISY[:4], write, random_id))[-1]
    assert first_refused([body] * 4, write) is None


def test_only_so_many_turns_are_remembered():
    ends = TurnEnds()
    for number in range(2 * MAX_TURN_ENDS):
        assert not ends.has_grown("team", [f"call_{number}x9Qz7", f"call_{number}x8Qz7"])
    assert not ends.has_grown("team", ["call_0000x7Qz7", "call_5x9Qz777"])
    latest = f"call_{2 * MAX_TURN_ENDS - 1}x9Qz7"
    assert ends.has_grown("team", ["call_0000x7Qz7", latest])
    assert not ends.has_grown("other", ["call_0000x7Qz7", latest])
