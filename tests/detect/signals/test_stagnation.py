"""Many rounds that bring nothing new."""

import pytest
from tests.detect.runs import Person, Use, bash, count, together
from tests.detect.signals.steps import LS, case, edit, in_both_dialects

HITS = "\n".join(f"src/total_{n}.py:{n}: total = sum(values)" for n in range(9))
RED = "2 failed, 30 passed"
FIX = "The test is still red, since the total is computed in the wrong place. I will move it now."
RUN = "The total is moved to the right place now. I will run the test again to see it turn green."


def asks(n, hits=None):
    """Search for something in other words each time."""
    found = HITS if hits is None else f"{HITS}\nsrc/{'x' * hits}.py:1: total = {hits}"
    return Use("search_code", {"query": f"total {'value ' * n}"}, found)


def clicks(n, screen=0):
    """Click somewhere else each time; the result is a screenshot."""
    place = {"action": "left_click", "coordinate": [40 + n, 80]}
    return Use("computer", place, f"[image {screen:016x}]")


def computer_call(n, screen=0):
    """The same in the form of OpenAI's computer calls, with other actions in between."""
    kind = ("click", "double_click", "move")[n % 3]
    return Use("computer", {"type": kind, "x": 40 + n, "y": 80}, f"[image {screen:016x}]")


def said(n):
    return together(edit(f"x{n}" * n, f"Saved line {n}."), text=FIX)


@in_both_dialects
@pytest.mark.parametrize(
    ("steps", "is_seen"),
    [
        case([bash(f"find / -name {n}", "") for n in range(20)], True, id="a stuck search"),
        case(
            [
                step
                for n in range(10)
                for step in (edit(f"x{n}" * n, "Saved."), bash("make", "2 bad"))
            ],
            True,
            id="edit and run, the output never changes",
        ),
        case([bash(f"find / -name {n}", "") for n in range(15)], False, id="not for long yet"),
        case([asks(n) for n in range(20)], True, id="the same hits, asked in other words"),
        case(
            [
                step
                for n in range(12)
                for step in (
                    Use("reserve_voucher", {"shop": "main"}, f'{{"id": "{n:032x}"}}'),
                    Use("assign_voucher", {"to": f"customer {n}"}, "assigned"),
                )
            ],
            False,
            id="what is taken again is used each time",
        ),
        case(
            [
                step
                for n in range(12)
                for step in (
                    bash("git bisect bad", f"{400 - 9 * n} revisions left, {'now ' * n}this one"),
                    bash("make bench", "TOO SLOW: error"),
                )
            ],
            False,
            id="the same outcome for each revision of a bisection",
        ),
        case(
            [bash("git checkout old", "on old"), bash("make bench", "TOO SLOW: error")] * 12,
            True,
            id="the same revision over and over",
        ),
        case([clicks(n) for n in range(20)], True, id="clicks here and there, the same screen"),
        case([clicks(n, n) for n in range(24)], False, id="clicks that lead to other screens"),
        case([computer_call(n) for n in range(24)], True, id="computer calls, the same screen"),
        case([computer_call(n, n) for n in range(24)], False, id="computer calls that lead on"),
        case(
            [Use("find", {"type": "file", "name": f"x{n}"}, HITS) for n in range(6)]
            + [Use("find", {"type": "file", "name": f"y{n}"}, f"{HITS}{n}") for n in range(18)],
            False,
            id="a type that says nothing about the call",
        ),
        case([asks(n, hits=n) for n in range(24)], False, id="other hits for each question"),
        case(
            [Use("fetch", {"id": n}, HITS) for n in range(24)],
            False,
            id="a batch with equal results is no search",
        ),
        case(
            [step for n in range(8) for step in (edit(f"x{n}" * n, "Saved."), bash("test", RED))],
            False,
            id="a test that stays red for a while, whatever is edited",
        ),
        case(
            [step for n in range(12) for step in (edit(f"x{n}" * n, "Saved."), bash("test", RED))],
            True,
            id="a test that stays red for ever",
        ),
        case([bash("test", RED)] * 20, True, id="a test that stays red, and nothing is edited"),
        case(
            [step for n in range(12) for step in (said(n), together(bash("test", RED), text=RUN))],
            True,
            id="a test that stays red, and each edit is announced in the same words",
        ),
        case([bash(f"cat {n}", chr(97 + n) * 9) for n in range(25)], False, id="all results new"),
        case(
            [*[bash(f"find / -name {n}", "") for n in range(24)], bash("cat a", "found it")],
            False,
            id="the latest result is new",
        ),
        case(
            [LS, *[bash(f"find / -name {n}", "") for n in range(18)], LS],
            False,
            id="the latest result came long ago",
        ),
        case(
            [*[bash(f"find / -name {n}", "") for n in range(24)], Person("Try /etc"), LS],
            False,
            id="a user's message resets",
        ),
        case(
            [step for n in range(12) for step in (edit(f"x{n}" * n, "Saved."), bash("tsc", ""))],
            False,
            id="a check that keeps quiet after each edit",
        ),
        case(
            [
                step
                for n in range(12)
                for step in (edit(f"x{n}" * n, "Saved."), bash("make", "Build succeeded."))
            ],
            False,
            id="a build that goes well after each edit",
        ),
        case(
            [
                step
                for n in range(12)
                for step in (edit(f"x{n}" * n, "Saved."), bash("mypy", f"Found {40 - n} errors"))
            ],
            False,
            id="ever fewer errors after each edit",
        ),
        case(
            [
                step
                for n in range(10)
                for step in (
                    bash(f"cat {n}", chr(97 + n) * 9),
                    edit(f"x{n}" * n, "Saved."),
                    bash("git diff", f"+{n}"),
                    bash("make", "error: no rule"),
                )
            ],
            True,
            id="a call that fails the same way, every fourth round",
        ),
        case(
            [Use("python", {"code": f"x{n} = " + "y" * 400}, "") for n in range(24)],
            False,
            id="long scripts without a word are no search",
        ),
    ],
)
def test_stagnation(write, steps, is_seen):
    # What the preset warns at, where it looks at twenty rounds.
    assert (count("stagnation", write, steps) >= 6) is is_seen
