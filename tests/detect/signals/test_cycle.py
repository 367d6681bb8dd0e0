"""A few rounds that come round and round."""

import pytest
from tests.detect.runs import Person, bash, count, says, together
from tests.detect.signals.steps import CAT, LS, WORDS, case, edit, in_both_dialects

PWD = bash("pwd", "/src")
PYTEST = bash("pytest -q", "1 failed, 4 passed")
EDIT = edit("total = 0")


def blocks(size):
    """A block of rounds, each another one, three times."""
    return [bash(f"cat {n}.txt", f"text {n}") for n in range(size)] * 3


@in_both_dialects
@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        case([LS, CAT] * 3, 3, id="two rounds, three times"),
        case([LS, CAT, PWD] * 4, 4, id="three rounds, four times"),
        case([bash(word, word) for word in WORDS[:8]] * 3, 3, id="eight rounds, three times"),
        case([bash(word, word) for word in WORDS[:9]] * 2, 2, id="nine rounds, twice"),
        case(
            [*[bash(word, word) for word in WORDS[:9]] * 2, *(bash(w, w) for w in WORDS[:7])],
            3,
            id="nine rounds, almost three times",
        ),
        case(blocks(14)[:29], 2, id="fourteen rounds, twice"),
        case(blocks(14)[:30], 3, id="sixteen rounds came again in a block of fourteen"),
        case(blocks(20)[:39], 0, id="twenty rounds, almost twice"),
        case(blocks(20)[:40], 3, id="twenty rounds, twice"),
        case(blocks(21), 0, id="twenty-one rounds are too many"),
        case([*blocks(14)[:27], bash("make", "done"), *blocks(14)[28:30]], 0, id="a new result"),
        case([PWD, *[LS, CAT] * 3], 3, id="after something else"),
        case([*[LS, CAT] * 3, PWD], 0, id="then something new"),
        case([LS, CAT, LS], 0, id="not yet twice"),
        case([LS] * 8, 0, id="one call over and over is a repeat"),
        case(
            [step for n in range(4) for step in (LS, bash("make", f"{n} done"))],
            0,
            id="one result changes",
        ),
        case(
            [step for n in range(4) for step in (CAT, bash("date -r a", f"done in {n}s"))],
            4,
            id="only a duration changes",
        ),
        case([CAT, PYTEST] * 3, 2, id="a look and a check, three times"),
        case([CAT, PYTEST] * 4, 3, id="a look and a check, four times"),
        case([CAT, EDIT] * 3, 3, id="a look and an edit that fails"),
        case([LS, CAT, PYTEST] * 3, 3, id="two looks and a check"),
        case([LS, CAT, Person("Again"), LS, CAT], 0, id="a user's message resets"),
        case([says("Hm."), LS] * 4, 0, id="talk between"),
        case([together(LS, PWD), CAT, together(PWD, LS), CAT], 2, id="order of parallel calls"),
    ],
)
def test_cycle(write, steps, expected):
    assert count("cycle", write, steps) == expected
