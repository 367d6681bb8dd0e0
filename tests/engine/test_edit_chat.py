"""aider's chats: an edit and what came of it is a round, and equal runs or lines are no loop."""

import pytest
from tests.engine.edit_session import Answer, EditSession, edit

from looptrap import Guard

LINE = "Find out why the build fails and mend it."
REMARKS = ("Let me look.", "", "I see it now.", "This is the place.", "")


def report(failing):
    lines = [f"FAILED test_app.py::test_part_{n} - part {n} is missing" for n in failing]
    return "\n".join([*lines, f"{len(failing)} failed, {12 - len(failing)} passed"])


def rejected(old):
    return (
        "# 1 SEARCH/REPLACE block failed to match!\n\n## SearchReplaceNoExactMatch: This SEARCH"
        f" block failed to exactly match lines in app.py\n<<<<<<< SEARCH\nSTEP = {old}\n"
    )


def step(old, new, number=0, test=True):
    """Return an edit that is made, after which as many tests pass."""
    text = edit(old, new, say=REMARKS[number % len(REMARKS)])
    failed = report(range(new, 12)) if test else ""
    return Answer(text, files={"app.py": f"STEP = {new}\n"}, test=failed)


def by_turns(*steps):
    return lambda number: step(*steps[number % len(steps)], number)


@pytest.fixture
def guard():
    return Guard.from_preset("default")


def say(session, lines, model):
    """Say lines until a call is refused; return the number of the refused call, if any."""
    for line in lines:
        if not session.say(line, model):
            return session.calls + 1
    return None


STUCK = {
    "an edit that does not fit": (
        lambda number: Answer(edit(99, 1, say=REMARKS[number % 5]), rejected=rejected(99)),
        8,
    ),
    "an edit that changes nothing": (by_turns((0, 0)), 8),
    "two edits by turns": (by_turns((0, 1), (1, 0)), 8),
    "three edits by turns": (by_turns((0, 1), (1, 2), (2, 0)), 12),
    "a malformed edit": (
        lambda _: Answer(
            "Here is the edit for app.py, as you asked:\n<<<<<<< SEARCH\nSTEP = 0",
            rejected="Here is the edit for app.py, as you asked:\n<<<<<<< SEARCH\n^^^ Bad name",
        ),
        8,
    ),
}


@pytest.mark.parametrize("reminds_in", ["system", "user"])
@pytest.mark.parametrize("commits", [False, True], ids=["no git", "git"])
@pytest.mark.parametrize("kind", STUCK)
def test_a_stuck_chat_is_refused(guard, kind, commits, reminds_in):
    model, latest = STUCK[kind]
    session = EditSession(guard, commits=commits, reminds_in=reminds_in)
    refused = say(session, [LINE] * 6, model)
    assert refused is not None
    assert refused <= latest


def test_another_line_of_the_user_begins_another_turn(guard):
    lines = [f"{LINE} Mind part {number}." for number in range(6)]
    assert say(EditSession(guard), lines, by_turns((0, 0))) is None


def one_file_after_the_other(number):
    name = f"part_{number}.py"
    return Answer(edit("", "LICENCE", name), files={name: "# LICENCE\n"})


HONEST = {
    "24 different edits": (lambda n: step(n, n + 1, n, test=False), [LINE] * 24),
    "the same edit in 24 files": (one_file_after_the_other, [LINE] * 24),
    "edits after each of which one test more passes": (lambda n: step(n, n + 1, n), ["Go on."] * 3),
    "an edit, and a question about it": (
        lambda n: Answer(f"It says {n // 2}.") if n % 2 else step(n // 2, n // 2 + 1, n),
        ["Raise it by one and read it."] * 12,
    ),
    "the same question twice in a row": (
        lambda n: Answer(f"It is for part {n // 2}."),
        [line for n in range(12) for line in [f"What is part {n} for?"] * 2],
    ),
    "the same question, and other answers": (
        lambda n: Answer(f"Part {n} weighs {7 * n + 3} kg."),
        ["What does it say?"] * 12,
    ),
    "an edit that does not fit, mended at the next line": (
        lambda n: (
            Answer(edit(99, 1), rejected=rejected(99))
            if n % 4 < 2
            else step(n, n + 1, n, test=False)
        ),
        [LINE] * 8,
    ),
    "a stutter, and then the right edit": (
        lambda n: step(0, 0) if n < 2 else step(n - 2, n - 1, n),
        [LINE] * 3,
    ),
}


@pytest.mark.parametrize("reminds_in", ["system", "user"])
@pytest.mark.parametrize("kind", HONEST)
def test_honest_work_is_not_noticed(guard, kind, reminds_in):
    model, lines = HONEST[kind]
    session = EditSession(guard, reminds_in=reminds_in)
    assert say(session, lines, model) is None
    assert set(session.actions) == {"allow"}


def test_a_user_may_ask_the_same_about_an_output_that_moves(guard):
    session = EditSession(guard)
    for number in range(12):
        session.run("sh poll.sh", f"step {number} of 12")
        assert session.say("Is it packed?", lambda n: Answer("Not yet."))
    assert set(session.actions) == {"allow"}


def test_a_person_may_ask_the_same_after_each_answer(guard):
    session = EditSession(guard)
    for _ in range(12):
        assert session.say(
            "Is the build of the program packed by now?", lambda n: Answer("Not yet.")
        )
        session.now += 20
    assert set(session.actions) == {"allow"}


def test_the_same_answer_to_the_same_line_is_refused(guard):
    session = EditSession(guard)
    assert say(session, [LINE] * 12, lambda _: Answer("I need to see the file parser.py.")) == 6


# Runs that begin alike

ONE_TEST_MORE = HONEST["edits after each of which one test more passes"]


def one_after_the_other(guard, count, model, line=LINE, files=None, lines=1):
    """Start aider again and again; return how many starts passed."""
    now = None
    for number in range(count):
        named = files(number) if files else None
        session = EditSession(guard, files=named, answer_s=0.2, **({"now": now} if now else {}))
        if say(session, [line] * lines, model):
            return number
        now = session.now + 1
    return count


@pytest.mark.parametrize("lines", [1, 3])
def test_eight_equal_runs_are_no_loop(guard, lines):
    model, [line, *_] = ONE_TEST_MORE
    assert one_after_the_other(guard, 8, model, line, lines=lines) == 8


def test_eight_runs_of_one_call_each_are_no_loop(guard):
    assert one_after_the_other(guard, 8, lambda _: step(0, 1, test=False)) == 8


def test_a_script_may_say_the_same_while_the_files_change(guard):
    def files(number):
        return {"app.py": f"STEP = {number}\n"}

    model = HONEST["24 different edits"][0]
    assert one_after_the_other(guard, 30, model, files=files) == 30


def test_a_script_may_say_the_same_about_one_file_after_the_other(guard):
    def files(number):
        return {f"part_{number}.py": "STEP = 0\n"}

    assert one_after_the_other(guard, 30, lambda _: step(0, 1, test=False), files=files) == 30


MANY = range(20, 25)
"""Equal calls without a session that pass: as many as sixteen runs side by side send, and more."""


def test_the_same_call_again_and_again_is_refused_late(guard):
    passed = one_after_the_other(guard, 60, lambda _: Answer("I need to see parser.py."))
    assert passed in MANY


def test_equal_runs_without_end_are_refused(guard):
    assert one_after_the_other(guard, 60, lambda n: step(n, n + 1, n)) in MANY
