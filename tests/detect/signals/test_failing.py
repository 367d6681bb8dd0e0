"""One round after the other that fails, in ways that are not new."""

import pytest
from tests.detect.runs import Person, bash, count
from tests.detect.signals.steps import LS, NO_FILE, WORDS, case, in_both_dialects


@in_both_dialects
@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        case([bash("a", "fatal: x"), bash("b", NO_FILE)] * 2, 4, id="two that fail in turn"),
        case(
            [bash(word, f"{word}Error: {word[::-1]}") for word in WORDS],
            len(WORDS),
            id="one short command after the other, and nothing works",
        ),
        case(
            [
                step
                for word in WORDS[:5]
                for step in (bash(word, "x: not found"), bash(f"find {word}", ""))
            ]
            + [bash("b", NO_FILE)],
            11,
            id="searches without hits between them",
        ),
        case(
            [
                step
                for word in WORDS[:4]
                for step in (bash(word, "x: not found"), bash(f"sed -i s/{word}/x/ a.py", ""))
            ]
            + [bash("b", NO_FILE)],
            0,
            id="changes between them, which succeed in silence",
        ),
        case(
            [
                bash(f"python - <<E\n{f'{word} = 1 # ' * 30}\nE", f"{word}Error: {word[::-1]}")
                for word in WORDS
            ],
            1,
            id="a new failure of a new script gets on",
        ),
        case(
            [bash(f"order {' '.join(WORDS[:n])}", f"Error: missing {WORDS[n]}") for n in range(11)],
            2,
            id="each call brings what the failure before asked for",
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
