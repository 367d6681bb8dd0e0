"""Almost the same call that brings the same nothing."""

import pytest
from tests.detect.runs import Person, Use, bash, count
from tests.detect.signals.steps import LS, WORDS, case, edit, in_both_dialects


@in_both_dialects
@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        case([edit("return sum(xs)" + " " * n) for n in range(6)], 6, id="variants that fail"),
        case(
            [
                edit("return sum(xs)" + " " * n, f"Error: {WORDS[n]} cannot be {WORDS[-n]}")
                for n in range(6)
            ],
            1,
            id="each time with another error",
        ),
        case(
            [Use("search", {"query": "frobnicate", "attempt": n}, "no results") for n in range(6)],
            6,
            id="a counter around what brings nothing",
        ),
        case(
            [edit("return sum(xs)"), LS, edit("return sum(xs) "), LS, edit(" return sum(xs)")],
            3,
            id="others between",
        ),
        case([edit("return sum(xs)")] * 4 + [edit("return sum(xs)", "ok")], 0, id="then it works"),
        case([edit("return sum(xs) ")] + [edit("return sum(xs)")] * 4, 6, id="four to the letter"),
        case(
            [*[edit("return sum(xs)")] * 2, edit("return sum(xs) "), *[edit("return sum(xs)")] * 2],
            6,
            id="four to the letter, around a variant",
        ),
        case(
            [bash("python total.py", "Error: no such file")] + [edit("return sum(xs)")] * 4,
            5,
            id="four to the letter after another failure: perhaps a stutter",
        ),
        case(
            [edit("return sum(xs)" + " " * (n % 3)) for n in range(5)],
            5,
            id="three variants in turn",
        ),
        case(
            [*[edit("return sum(xs)")] * 2, LS, edit("return sum(xs) "), edit("return sum(xs)")],
            4,
            id="a look between breaks the run of failures",
        ),
        case([Use("read_log", {"pump": 5}, "timed out")] * 5, 5, id="a poll that fails"),
        case(
            [bash(f"grep -rn {word} src/{word[::-1]}", "no matches found") for word in WORDS],
            1,
            id="a sweep of different searches",
        ),
        case([bash(f"cat {word}.txt", "some text") for word in WORDS], 0, id="what brings results"),
        case(
            [edit("return sum(xs)"), bash("echo " + "y" * 80, "error")],
            1,
            id="another tool that fails",
        ),
        case(
            [Use(tool, {"path": "total.py"}, "fatal: x") for tool in ("edit", "patch", "edit")],
            2,
            id="the same arguments for another tool",
        ),
        case([edit("return sum(xs)")] * 3 + [Person("Try b.py"), LS], 0, id="a user resets"),
    ],
)
def test_near_repeat(write, steps, expected):
    assert count("near_repeat", write, steps) == expected


def chunk(number, status=1):
    first = number * 100_000 + 1
    tried = f"lines {first}-{first + 99_999}: 0 hits, {9_000 + number * 731 % 4_000} tries/s"
    said = f"Exit code {status}\n{tried}" if status else tried
    return bash(f"./try.sh --from {first} --count 100000 words.txt", said)


@in_both_dialects
@pytest.mark.parametrize("status", [1, 0])
def test_one_chunk_after_the_other_counts_half_if_its_result_names_it(write, status):
    assert count("near_repeat", write, [chunk(number, status) for number in range(7)]) < 6


@in_both_dialects
def test_the_same_chunk_again_counts_whole(write):
    assert count("near_repeat", write, [chunk(number % 2) for number in range(7)]) >= 6
