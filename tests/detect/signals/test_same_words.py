"""The same sentences beside the calls, whatever is called."""

import pytest
from tests.detect.runs import Use, bash, count, together
from tests.detect.signals.steps import WORDS, case, in_both_dialects

FIX = "The output still shows the old value, so the merge did not work. I will change the merge."
RUN = "The merge function is changed now. I will run the script again and look at what it prints."
READ = "The page does not show the function that I am looking for. I will scroll down to find it."


def fix(n, text=FIX):
    """An edit that lands, each time another one."""
    edit = {"path": "merge.py", "old": f"value = {n}", "new": f"value = {n + 1}"}
    return together(Use("edit", edit, f"edited line {n}"), text=text)


def run(n, text=RUN):
    return together(bash("python merge.py", f"merged: {n}"), text=text)


def replayed(rounds, say_fix=lambda n: FIX, say_run=lambda n: RUN):
    return [step for n in range(rounds) for step in (fix(n, say_fix(n)), run(n, say_run(n)))]


@in_both_dialects
@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        case(replayed(6), 9, id="edit and run in the same words"),
        case([fix(n) for n in range(12)], 10, id="one sentence over and over"),
        case(replayed(6, lambda n: f"{FIX} Try {n}."), 0, id="a number in them is content"),
        case(replayed(6, lambda n: f"{WORDS[n]}: {FIX}"), 0, id="each edit announced by its own"),
        case(replayed(6, lambda n: "Fix it.", lambda n: "Run it."), 0, id="phrases"),
        case(
            [together(Use("scroll_down", {}, f"page {n}"), text=READ) for n in range(12)],
            0,
            id="reading on",
        ),
        case(
            [*replayed(5), fix(9, f"That is it. {FIX}"), run(9, f"At last. {RUN}")],
            0,
            id="new words at the end",
        ),
    ],
)
def test_same_words(write, steps, expected):
    assert count("same_words", write, steps) == expected


@in_both_dialects
@pytest.mark.parametrize("calls_a_round", range(1, 6))
def test_a_replay_is_noticed_however_many_calls_a_round_has(write, calls_a_round):
    def edits(n):
        uses = [
            Use("edit", {"path": f"{word}.py", "new": f"{word} = {n}"}, f"edited {n}")
            for word in WORDS[:calls_a_round]
        ]
        return together(*uses, text=FIX)

    counts = [count("same_words", write, [edits(n) for n in range(m)]) for m in range(2, 24)]
    noticed = [found for found in counts if found >= 5]
    assert len(noticed) >= 5
