"""The same words over and over, and nothing done."""

import pytest
from tests.detect.runs import Person, count, says, together
from tests.detect.signals.steps import GOODBYE, LS, WORDS, case, in_both_dialects

PLAN = "\n".join(f"{n}. Read the {word} and then mend it." for n, word in enumerate(WORDS))


def rows(page):
    return says("\n".join(f"row,{n},active,EUR,NULL" for n in range(page * 30, page * 30 + 30)))


def verses(n):
    refrain = "Roll on, roll on, until the depot calls, till evening falls."
    return says("\n".join(f"At {word}{n} a woman boards the tram.\n{refrain}" for word in WORDS))


@in_both_dialects
@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        case([GOODBYE] * 4, 4, id="goodbye and goodbye"),
        case(
            [
                says(f"{word} I am sorry for the confusion, let me try again.")
                for word in ("Oh,", "So,", "Well,")
            ],
            3,
            id="apologies, almost equal",
        ),
        case([rows(n) for n in range(6)], 0, id="a long list that goes on"),
        case([verses(n) for n in range(6)], 0, id="verses with a refrain"),
        case([rows(0)] * 4, 4, id="the same list again"),
        case([says(f"Update {n}\n{PLAN}") for n in range(4)], 4, id="a plan with a counter"),
        case([GOODBYE], 0, id="said once"),
        case([GOODBYE, LS, GOODBYE], 0, id="something done between"),
        case([GOODBYE, GOODBYE, LS], 0, id="something done at last"),
        case([together(LS, text="Let me look.")] * 4, 0, id="the same words with each call"),
        case([says(f"{word} {word[::-1]} " * 5) for word in WORDS], 0, id="something new said"),
        case([GOODBYE, GOODBYE, Person("Wait!"), GOODBYE], 0, id="a user's message resets"),
    ],
)
def test_monologue(write, steps, expected):
    assert count("monologue", write, steps) == expected
