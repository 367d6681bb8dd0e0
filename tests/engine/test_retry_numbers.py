"""Prompts that say how often they were sent are counted, however long their pauses are."""

import pytest

from looptrap import Guard, LoopDetectedError
from looptrap.dialect.model import Outcome

T = 1_800_000_000.0
INVOICE = "Return the invoice of Nord Oil as JSON: 12 barrels, sum five hundred euros."
case = pytest.param


def numbered(n, about=INVOICE):
    return f"{about}\n\n[10:{n:02}:07] Attempt {n}. The last answer was refused: no total in it."


def query(n):
    return (
        f"Write SQL for: {INVOICE}\n\nYour query of 10:{n:02}:00 failed (try {n} of 50):\n"
        f"ERROR: there is no function month\n[query d{n:02}8249e, 1{n}.5 ms]"
    )


def run(n):
    return (
        f"You look after a job.\n2026-11-15T10:{n:02}:00Z run {n}, pid 4{n}10: FAILED\nno column x"
    )


def first_refused(prompts, pause, *, takes=2.0, overlap=False):
    """Send prompts with pauses after each answer; return which is refused."""
    guard, now, open_tickets = Guard.from_preset("default"), T, []
    for number, prompt in enumerate(prompts):
        body = {"model": "m", "messages": [{"role": "user", "content": prompt}]}
        try:
            ticket = guard.check(body, now=now)
        except LoopDetectedError:
            return number
        if overlap:
            open_tickets.append(ticket)
            continue
        now += takes
        guard.conclude(ticket, Outcome(200), now=now)
        now += pause
    return None


@pytest.mark.parametrize("pause", [1, 60, 500])
@pytest.mark.parametrize("write", [numbered, query, run])
def test_the_eighth_attempt_is_refused_whatever_the_pauses(write, pause):
    assert first_refused([write(n) for n in range(1, 20)], pause) == 7


@pytest.mark.parametrize(
    ("prompts", "pause"),
    [
        case([numbered(n) for n in range(1, 20)], 1_000, id="a quarter of an hour apart"),
        case([numbered(3)] * 20, 60, id="the same number each time: a timer's prompt has it"),
        case(
            [numbered(n, f"{INVOICE} Order {item}.") for item in range(8) for n in range(1, 5)],
            60,
            id="a few attempts at each of many things",
        ),
        case([numbered(n * 7) for n in range(1, 20)], 60, id="numbers that do not go on"),
        case([f"{INVOICE} Page {n}." for n in range(20)], 60, id="numbers of something else"),
    ],
)
def test_honest_prompts_with_numbers_pass(prompts, pause):
    assert first_refused(prompts, pause) is None


def test_a_sample_that_is_sent_at_once_is_one_attempt():
    assert first_refused([numbered(n) for n in range(1, 13)], 0, overlap=True) is None
