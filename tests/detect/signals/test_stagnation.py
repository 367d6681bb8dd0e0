"""Many rounds that bring nothing new."""

import pytest
from tests.detect.runs import Person, Use, bash, count
from tests.detect.signals.steps import LS, case, edit, in_both_dialects


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
