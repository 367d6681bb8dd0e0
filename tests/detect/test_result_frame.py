"""What a harness writes around every result is learned from the run, and its noise left out."""

import json
from random import Random

import pytest
from tests.detect.runs import Use, bash, count, trajectory
from tests.detect.signals.steps import case, in_both_dialects

from looptrap.detect.result_frame import learn_frame

COMMANDS = ("ls src", "cat setup.cfg", "git log -2", "grep -rn total src", "pytest -q")
OUTPUTS = (
    "app.py\nmodel.py",
    "[metadata]\nname = shop",
    "a1 Add totals\nb2 Begin",
    "src/app.py:3:total = 0\nsrc/app.py:9:print(total)",
    "E   assert 4 == 5\n1 failed",
)


def below(output, chance, status=0):
    seconds, job = chance.randrange(9_999) / 1_000, chance.randrange(10_000, 99_999)
    return f"{output}\n\n[exit {status} · {seconds:.3f} s · job {job}]"


def above(output, chance, status=0):
    worker, used = chance.randrange(100, 999), chance.randrange(100)
    return f"host-{worker} used {used} % of its quota, exit {status}\n{output}"


def around(output, chance, status=0):
    return below(above(output, chance, status), chance, status)


def two_lines(output, chance, status=0):
    return f"{output}\n---\ncpu {chance.random():.2f}\nmemory {chance.randrange(9_999)}"


def as_json(output, chance, status=0):
    about = {
        "pid": chance.randrange(9_999),
        "took": chance.random(),
        "left": chance.randrange(9_999),
    }
    return json.dumps({"status": status, "output": output, "about": about})


def in_tags(output, chance, status=0):
    return f"<output>\n{output}\n</output>\n<job>{chance.randrange(9_999)}</job>\n</result>"


def run(frame, *commands):
    """Return calls with their results, in a frame."""
    chance = Random(7)
    known = dict(zip(COMMANDS, OUTPUTS, strict=True))
    return [bash(command, frame(known[command], chance)) for command in commands]


in_all_frames = pytest.mark.parametrize(
    "frame", [below, above, around, two_lines, as_json, in_tags]
)


@in_both_dialects
@in_all_frames
def test_equal_calls_repeat_whatever_noise_is_around_their_results(write, frame):
    looks = run(frame, *COMMANDS, *["pytest -q"] * 6)
    assert count("repeat", write, looks) == 7
    in_turn = run(frame, *COMMANDS, *["pytest -q", "ls src"] * 4)
    assert count("cycle", write, in_turn) >= 3


@in_both_dialects
def test_a_status_that_comes_back_is_kept(write):
    chance = Random(7)
    statuses = (0, 0, 1, 0, 2, 0, 0, 1, 0, 0)
    rounds = [
        bash(command, below("", chance, status))
        for command, status in zip([*COMMANDS] * 2, statuses, strict=True)
    ]
    results = [round_.result for round_ in trajectory(write, rounds).latest(10)][::-1]
    assert results == [f"[exit {one} · # s · job #]" if one else "" for one in statuses]


def fight(rounds):
    """A game that says below each result how it stands."""
    left = 90
    for number in range(rounds):
        tool = ("attack", "attack", "look", "inventory")[number % 4]
        left -= 3 if tool == "attack" else 0
        yield Use(tool, {}, f"You {tool}.\nThe orc has {left} of its strength left.")


@in_both_dialects
@pytest.mark.parametrize(
    "rounds",
    [
        case(list(fight(12)), id="a state that stays while the agent looks"),
        case(
            [
                bash(f"sleep {n}; tail -3 train.log", f"start\nepoch {n} loss {9 / n}")
                for n in range(1, 12)
            ],
            id="the log of one command",
        ),
        case(
            [
                Use(tool, {"id": 1}, f"Item 1\nprice {n * 7.5}")
                for n in range(6)
                for tool in ("get", "peek")
            ],
            id="what two tools say",
        ),
        case(
            [
                bash(command, f"{text}\n{'x' * 300} {n}")
                for n, (command, text) in enumerate(zip(COMMANDS, OUTPUTS, strict=True))
            ],
            id="long lines",
        ),
        case(run(lambda output, _: output, *COMMANDS), id="nothing around them"),
    ],
)
def test_what_a_few_kinds_of_calls_say_is_content(write, rounds):
    results = [round_.result for round_ in trajectory(write, rounds).latest(12)][::-1]
    assert results == [use.result for use in rounds]


def test_one_result_without_the_frame_keeps_all_that_it_says():
    chance = Random(7)
    framed = [
        (command, below(text, chance)) for command, text in zip(COMMANDS, OUTPUTS, strict=True)
    ]
    frame = learn_frame(framed)
    assert frame is not None
    assert frame.without_noise(framed[0][1]) == OUTPUTS[0]
    assert frame.without_noise("Cancelled by the user.") == "Cancelled by the user."
    assert frame.without_noise("") == ""


def test_too_few_results_show_no_frame():
    chance = Random(7)
    framed = [
        (command, below(text, chance)) for command, text in zip(COMMANDS, OUTPUTS, strict=True)
    ]
    assert learn_frame(framed[:4]) is None
    assert learn_frame([]) is None


WHY = "I look at this now because the test failed before and the reason may be in here".split()


def explained(command, chance, result, name="intent"):
    """A call with an argument that says why it is made, in other words each time."""
    return Use("bash", {"command": command, name: " ".join(chance.sample(WHY, 9))}, result)


def explained_run(*commands, name="intent"):
    chance, known = Random(7), dict(zip(COMMANDS, OUTPUTS, strict=True))
    return [explained(command, chance, known[command], name) for command in commands]


@in_both_dialects
def test_what_every_tool_is_told_why_makes_no_other_call(write):
    looks = explained_run(*COMMANDS, *["pytest -q"] * 6)
    assert count("repeat", write, looks) == 7
    assert trajectory(write, looks).latest(1)[0].arguments == '{"command":"pytest -q"}'


def searched(tool, chance):
    words = [chance.randbytes(3).hex() for _ in range(4)]
    found = f"{len(words)} hits: {' '.join(words[::-1])} and {chance.randbytes(4).hex()}"
    return Use(tool, {"about": f"what is known of {' '.join(words)} today", "most": 10}, found)


@in_both_dialects
@pytest.mark.parametrize(
    "rounds",
    [
        case(
            [searched(tool, Random(n)) for n in range(6) for tool in ("web", "news", "papers")],
            id="what is searched for decides the result",
        ),
        case(explained_run(*["pytest -q"] * 8), id="one program only"),
        case(explained_run(*COMMANDS, name="task"), id="an argument that says what to do"),
        case(explained_run(*COMMANDS[:4]), id="few calls"),
    ],
)
def test_arguments_that_a_few_tools_take_are_content(write, rounds):
    called = [round_.calls[0].arguments for round_ in trajectory(write, rounds).latest(40)][::-1]
    assert [json.loads(one) for one in called] == [use.arguments for use in rounds]
