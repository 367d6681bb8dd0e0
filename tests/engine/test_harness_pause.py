"""A harness that urges an agent on is told from persons and timers, who do not answer at once."""

import pytest
from tests.detect.runs import Person, bash, openai, says

from looptrap import Guard
from looptrap.engine.policy_engine import MAX_PAUSES, MIN_PAUSE_S, HarnessPauses
from looptrap.errors import RefusedError

BEAT = "Heartbeat: look whether anything needs your attention, and report."
T = 1_800_000_000.0


def first_refused(turn, seconds, takes=2):
    """Send the conversation after each beat, and after each call in it; return which is refused."""
    guard, steps, now = Guard.from_preset("default", secret=b"test"), [], T
    for number in range(24):
        steps.append(Person(BEAT))
        for step in turn:
            try:
                ticket = guard.check(openai(steps, ["mail"]), caller="team", now=now)
            except RefusedError:
                return number
            now += takes
            guard.conclude(ticket, now=now)
            steps.append(step)
        now += seconds
    return None


TALK, WORK = [says("All quiet.")], [bash("mail --new", "no new mail"), says("All quiet.")]


@pytest.mark.parametrize("turn", [TALK, WORK], ids=["talk", "work"])
@pytest.mark.parametrize("seconds", [16, 60, 1_800])
def test_a_person_or_a_timer_may_ask_the_same_for_ever(turn, seconds):
    assert first_refused(turn, seconds) is None


@pytest.mark.parametrize("turn", [TALK, WORK], ids=["talk", "work"])
@pytest.mark.parametrize("takes", [2, 90], ids=["quick answers", "slow answers"])
def test_a_harness_that_answers_at_once_is_part_of_the_loop(turn, takes):
    assert 3 <= first_refused(turn, 1, takes) <= 6


def test_a_pause_begins_when_the_latest_request_is_answered():
    pauses = HarnessPauses()
    assert pauses.comes_after_pause(b"a", True, T)
    assert not pauses.comes_after_pause(b"a", True, T + 1)
    assert not pauses.comes_after_pause(b"a", False, T + 900)
    pauses.note_answer(b"a", T + 960)
    assert not pauses.comes_after_pause(b"a", True, T + 961)
    assert pauses.comes_after_pause(b"a", True, T + 961 + MIN_PAUSE_S)
    assert pauses.comes_after_pause(b"a", False, T + 970)
    assert pauses.comes_after_pause(b"b", False, T)


def test_only_so_many_conversations_are_remembered():
    pauses = HarnessPauses()
    for number in range(2 * MAX_PAUSES):
        pauses.comes_after_pause(b"%d" % number, True, T)
    assert not pauses.comes_after_pause(b"%d" % (MAX_PAUSES + 1), True, T)
    assert pauses.comes_after_pause(b"%d" % (MAX_PAUSES - 1), True, T)
