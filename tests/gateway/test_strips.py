"""Strips beside the loop: the latest history of each incident, in a share of the time."""

import pytest
from tests.admin.looping import reading

from looptrap.detect.trajectory import Trajectory
from looptrap.dialect.body import read_body
from looptrap.engine import Ticket
from looptrap.incident import strip as module
from looptrap.incident.model import Sighting
from looptrap.incident.strip import MAX_BURST_S, REDRAW_INTERVAL_S, THREAD_TIME_SHARE, StripBuilder

SECRET = b"k" * 32


class Timer:
    """A time that stands still until it is told otherwise; it may pass with every look."""

    def __init__(self):
        self.now, self.step = 100.0, 0.0

    def __call__(self):
        self.now += self.step
        return self.now


@pytest.fixture
def timer():
    return Timer()


@pytest.fixture
def strips(timer):
    return StripBuilder(SECRET, timer=timer)


def ticket(times=3):
    call = read_body(reading(times), "/v1/chat/completions")
    made = Ticket(call)
    made.trajectory = Trajectory(call)
    return made


def seen(session="s", signal="repeat"):
    return Sighting(time=0.0, caller="key:ci", session=session, signal=signal, fingerprint="1h-ab")


def drawn(strips):
    """Return what is due: sessions, and how many rounds their strips have."""
    return {marks[0][-1]: len(one.order) for marks, one in strips.build(strips.waiting())}


def test_of_one_incident_the_latest_history_is_drawn(strips):
    for times in (3, 4, 5):
        strips.enqueue(seen(), ticket(times))
    strips.enqueue(seen("other"), ticket(2))
    assert drawn(strips) == {"s": 5, "other": 2}
    assert drawn(strips) == {}


def test_one_that_goes_on_is_drawn_again_after_a_while(strips, timer):
    strips.enqueue(seen(), ticket(3))
    assert drawn(strips) == {"s": 3}
    strips.enqueue(seen(), ticket(4))
    assert drawn(strips) == {}
    timer.now += REDRAW_INTERVAL_S
    assert drawn(strips) == {"s": 4}


@pytest.mark.parametrize(
    ("signal", "made"),
    [("conversation", ticket()), ("similar_prompt", ticket()), ("repeat", Ticket(ticket().call))],
    ids=["counted", "counted, nearly the same", "without a history"],
)
def test_where_no_history_repeats_there_is_nothing_to_draw(strips, signal, made):
    strips.enqueue(seen(signal=signal), made)
    assert drawn(strips) == {}


def test_only_a_share_of_the_time_goes_into_it(strips, timer):
    for number in range(10):
        strips.enqueue(seen(f"s{number}"), ticket())
    timer.step = 2 * MAX_BURST_S
    assert len(drawn(strips)) == 1
    timer.step = 0.0
    assert drawn(strips) == {}
    timer.now += 2 * MAX_BURST_S / THREAD_TIME_SHARE
    assert len(drawn(strips)) == 9


def test_only_so_many_wait(strips, monkeypatch):
    monkeypatch.setattr(module, "MAX_WAITING_HISTORIES", 2)
    for number in range(4):
        strips.enqueue(seen(f"s{number}"), ticket())
    assert drawn(strips) == {"s0": 3, "s1": 3}


def test_only_so_much_waits_and_room_is_made_by_drawing(strips, monkeypatch):
    monkeypatch.setattr(module, "MAX_WAITING_BYTES", 2 * len(ticket().call.request.body))
    for name in ("a", "b", "c"):
        strips.enqueue(seen(name), ticket())
    assert drawn(strips) == {"a": 3, "b": 3}
    for name in ("d", "d", "e"):  # of one incident, the latest takes the place of the others
        strips.enqueue(seen(name), ticket())
    assert drawn(strips) == {"d": 3, "e": 3}


def test_one_that_cannot_be_drawn_harms_no_other(strips, caplog):
    broken = ticket()
    broken.trajectory = object()
    strips.enqueue(seen("broken"), broken)
    strips.enqueue(seen("fine"), ticket())
    assert drawn(strips) == {"fine": 3}
    assert "could not be built" in caplog.text
