"""A harness that urges an agent on is told from a timer that asks now and then."""

import pytest
from tests.detect.runs import Person, bash, openai, says

from looptrap import Guard
from looptrap.engine.policy_engine import MAX_PACES, TIMER_S, HarnessPaces
from looptrap.errors import RefusedError

BEAT = "Heartbeat: look whether anything needs your attention, and report."
T = 1_800_000_000.0


def first_refused(turn, seconds):
    """Send the conversation after each beat, and after each call in it; return which is refused."""
    guard, steps, now = Guard.from_preset("default", secret=b"test"), [], T
    for number in range(24):
        steps.append(Person(BEAT))
        for step in turn:
            try:
                ticket = guard.check(openai(steps, ["mail"]), caller="team", now=now)
            except RefusedError:
                return number
            guard.settle(ticket)
            now += 2
            steps.append(step)
        now += seconds
    return None


TALK, WORK = [says("All quiet.")], [bash("mail --new", "no new mail"), says("All quiet.")]


@pytest.mark.parametrize("turn", [TALK, WORK], ids=["talk", "work"])
@pytest.mark.parametrize("seconds", [60, 1_800])
def test_a_timer_may_ask_the_same_for_ever(turn, seconds):
    assert first_refused(turn, seconds) is None


@pytest.mark.parametrize("turn", [TALK, WORK], ids=["talk", "work"])
def test_a_harness_that_answers_at_once_is_part_of_the_loop(turn):
    assert 3 <= first_refused(turn, 3) <= 6


def test_the_pace_of_a_conversation_is_that_of_its_latest_message():
    paces = HarnessPaces()
    assert paces.is_timer(b"a", True, T)
    assert not paces.is_timer(b"a", True, T + 9)
    assert not paces.is_timer(b"a", False, T + 900)
    assert paces.is_timer(b"a", True, T + 900 + TIMER_S)
    assert paces.is_timer(b"a", False, T + 901 + TIMER_S)
    assert paces.is_timer(b"b", False, T)


def test_only_so_many_conversations_are_remembered():
    paces = HarnessPaces()
    for number in range(2 * MAX_PACES):
        paces.is_timer(b"%d" % number, True, T)
    assert not paces.is_timer(b"%d" % (MAX_PACES + 1), True, T)
    assert paces.is_timer(b"%d" % (MAX_PACES - 1), True, T)
