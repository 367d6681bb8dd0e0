"""One round after the other that fails, in ways that are not new."""

import pytest
from tests.detect.runs import Person, bash, count
from tests.detect.signals.steps import LS, NO_FILE, WORDS, case, in_both_dialects


@in_both_dialects
@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        case([bash("a", "fatal: x"), bash("b", NO_FILE)] * 2, 3, id="in turn: one less than all"),
        case(
            [bash(word, f"{word}Error: {word[::-1]}") for word in WORDS],
            1,
            id="a new failure of a new call gets on",
        ),
        case(
            [bash("make", f"{word}Error: {word[::-1]}") for word in WORDS],
            11,
            id="the same call that fails in ever other ways",
        ),
        case(
            [bash("make", f"{9 - n} failed, {n} passed") for n in range(9)],
            1,
            id="ever fewer failures get on",
        ),
        case([bash("a", "fatal: x")] * 3 + [LS, bash("b", NO_FILE)], 0, id="since one went well"),
        case([bash("a", "fatal: x")] * 3 + [LS], 0, id="the latest went well"),
        case([bash("a", "fatal: x")] * 30, 16, id="no more than it looks at"),
        case([bash(word, "") for word in WORDS], 0, id="empty success is no failure"),
        case([bash("a", "fatal: x"), Person("Go on"), LS], 0, id="a user's message resets"),
    ],
)
def test_failing(write, steps, expected):
    assert count("failing", write, steps) == expected
