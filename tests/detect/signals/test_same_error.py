"""The same error, whatever is tried."""

import pytest
from tests.detect.runs import Person, Use, anthropic, bash, count, openai
from tests.detect.signals.steps import CAT, LS, NO_FILE, WORDS, case, edit, in_both_dialects

NOTE = Use("todo_write", {"todos": "x"}, "Error: todos must be a list")


def orders(*fields, lacks):
    """An order with some fields, refused for lack of one."""
    error = f"1 validation error for Order\n{lacks}\n  Field required [type=missing]"
    return Use("place_order", dict.fromkeys(fields, "x"), error)


@in_both_dialects
@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        case([bash(f"cat {word}", NO_FILE) for word in WORDS[:6]], 6, id="whatever the arguments"),
        case([bash(word, f"error: line {n}") for n, word in enumerate(WORDS[:4])], 4, id="numbers"),
        case(
            [bash(word, f"bash: {word}: command not found") for word in WORDS[:5]],
            5,
            id="errors that echo what was asked",
        ),
        case([bash("cat a", NO_FILE), LS] * 3 + [bash("cat b", NO_FILE)], 4, id="in most rounds"),
        case([bash("cat a", NO_FILE)] * 4 + [LS], 0, id="the latest went well"),
        case([bash("cat a", NO_FILE)] * 4 + [NOTE], 0, id="the latest is a note that failed"),
        case([NOTE] * 4, 0, id="notes that fail"),
        case(
            [orders(*WORDS[: n + 1], lacks=WORDS[n + 1]) for n in range(8)],
            1,
            id="one missing field after the other",
        ),
        case([orders(WORDS[n], lacks="price") for n in range(6)], 6, id="a field that stays away"),
        case([bash(word, "") for word in WORDS], 0, id="empty success is no error"),
        case([bash(word, "no matches found") for word in WORDS], 0, id="no matches is no error"),
        case([bash(f"cat {word}", NO_FILE) for word in WORDS], 8, id="no more than it looks at"),
        case([bash("cat a", NO_FILE)] * 3 + [Person("Go on"), LS], 0, id="a user's message resets"),
        case(
            [bash("a", NO_FILE)] * 3 + [bash("b", "Traceback\nKeyError: 'total'")],
            1,
            id="another error",
        ),
        case(
            [bash(f"run {word}", f"KeyError: '{word}'") for word in WORDS],
            1,
            id="an error that names something else",
        ),
        case(
            [
                bash(f"cat /etc/{word}.conf", f"cat: /etc/{word}.conf: {NO_FILE}")
                for word in WORDS[:6]
            ],
            3,
            id="one file after the other that is not there",
        ),
        case(
            [bash(f"cat a.py {' ' * n}", f"cat: a.py: {NO_FILE}") for n in range(6)],
            6,
            id="one file in other spaces",
        ),
        case(
            [bash(word, "bash: fork: Resource temporarily unavailable") for word in WORDS[:8]],
            4,
            id="other calls, all put off",
        ),
        case(
            [
                step
                for word in WORDS[:6]
                for step in (Person(f"Do {word}"), bash("make", "error: x"))
            ],
            6,
            id="the same call, although a person spoke in between",
        ),
        case(
            [
                step
                for word in WORDS[:6]
                for step in (Person(f"Do {word}"), bash("make", f"error: cannot find {word * 9}"))
            ],
            1,
            id="another error after each thing that a person said",
        ),
        case(
            [bash(f"sed -i {n} && test", f"{9 - n} failed, {n} passed") for n in range(8)],
            1,
            id="ever fewer failures",
        ),
    ],
)
def test_same_error(write, steps, expected):
    assert count("same_error", write, steps) == expected


def test_same_error_sees_what_anthropic_flags():
    steps = [Use("bash", {"n": n}, "Not today", is_error=True) for n in range(4)]
    assert count("same_error", anthropic, steps) == 4
    assert count("same_error", openai, steps) == 0


@in_both_dialects
def test_the_same_call_that_fails_in_ever_other_ways_is_the_same_error(write):
    steps = [bash("deploy", f"Error: {word} {word[::-1]} is missing") for word in WORDS[:6]]
    assert count("same_error", write, steps) == 6
    others = [bash(f"try {word}", step.result) for word, step in zip(WORDS, steps, strict=False)]
    assert count("same_error", write, others) < 3


RED = "Exit code 1\nFAILED tests/test_sum.py::test_empty - assert 3 == 4\n1 failed, 8 passed"


def edit_of(path, number):
    return Use("edit", {"path": path, "new": f"return {number}"}, "The file was edited.")


def edits_and_tests(paths, results):
    pairs = zip(paths, results, strict=True)
    return [
        step
        for number, (path, result) in enumerate(pairs)
        for step in (edit_of(path, number), bash("pytest tests", result))
    ]


@in_both_dialects
@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        case(edits_and_tests(["sum.py"] * 9, [RED] * 9), 7, id="edits of one file"),
        case(edits_and_tests([f"{w}.py" for w in WORDS[:8]], [RED] * 8), 4, id="each in another"),
        case(
            edits_and_tests(["sum.py"] * 8, [f"AssertionError: {n} is not 40" for n in range(8)]),
            1,
            id="a figure that moves",
        ),
        case(
            edits_and_tests(["sum.py"] * 8, [RED] * 3 + ["1 failed, 9 passed"] + [RED] * 4),
            3,
            id="another result in between",
        ),
        case(
            edits_and_tests(
                ["sum.py"] * 9, [f"#{n} cached\n#{n + 7} took {n}.5 s\n{RED}" for n in range(9)]
            ),
            7,
            id="other noise around the same failure",
        ),
        case(
            [
                step
                for n in range(9)
                for step in (edit_of("Dockerfile", n), bash(f"make {WORDS[n % 2]} image", RED))
            ],
            7,
            id="other options of a build",
        ),
        case(
            [
                step
                for n in range(9)
                for step in (
                    edit_of("sum.py", n),
                    edit(f"x{n}", "Error: the old text was not found"),
                )
            ],
            1,
            id="edits that fail and others that do not",
        ),
        case(
            edits_and_tests(["sum.py"] * 24, [f"Error: {word}" for word in WORDS[:2]] * 12),
            7,
            id="two results in turn, over and over",
        ),
        case(
            edits_and_tests(["sum.py"] * 12, [f"Error: {n // 6} is {n % 3}" for n in range(12)]),
            1,
            id="three results in turn, then three others",
        ),
        case(
            [step for n in range(8) for step in (bash(f"git checkout {n}", ""), bash("make", RED))],
            1,
            id="another revision each time",
        ),
        case([step for _ in range(8) for step in (LS, CAT)] + [bash("make", RED)], 1, id="once"),
    ],
)
def test_failures_that_changes_leave_as_they_were(write, steps, expected):
    assert count("same_error", write, steps) == expected
