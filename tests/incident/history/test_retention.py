"""Retention: the old goes, and what there is no room for; never what is open or not delivered."""

import pytest
from tests.incident.history.keeping import NOON, ids, incident, outgoing

DAY = 86_400.0


def sweep_all(history):
    while history.sweep():
        pass


def size(path):
    return path.stat().st_size


def test_closed_incidents_go_when_their_last_call_is_old(keep, clock):
    history = keep(keep=10 * DAY)
    history.put(
        [
            incident(1, closed=NOON + 9),
            incident(2),
            incident(3, last=NOON + 5 * DAY, closed=NOON + 5 * DAY),
        ]
    )
    clock.now = NOON + 11 * DAY
    sweep_all(history)
    assert ids(history.incidents().items) == ["00000003", "00000002"]


@pytest.mark.parametrize(
    ("other", "stays"),
    [
        ({}, True),
        ({"last": NOON + 5 * DAY, "closed": NOON + 5 * DAY}, True),
        ({"closed": NOON + 9}, False),
    ],
    ids=["one instance has it open", "one has seen it lately", "all have closed it long ago"],
)
def test_an_incident_goes_with_all_its_parts_or_not_at_all(keep, clock, other, stays):
    history = keep(keep=10 * DAY)
    history.put([incident(1, closed=NOON + 9), incident(1, instance="two", **other)])
    clock.now = NOON + 11 * DAY
    sweep_all(history)
    assert [part.calls for part in history.incidents().items] == ([2] if stays else [])


def test_delivered_and_dead_letters_go_pending_ones_never(keep, clock):
    history = keep(keep=10 * DAY)
    history.put([], outgoing(1, 2, 3))
    one, two, _three = history.outbox.lease(NOON, "me", 10, 30)
    history.outbox.mark_delivered(one, NOON)
    history.outbox.mark_dead(two, "no")
    clock.now = NOON + 9 * DAY
    sweep_all(history)
    assert history.outbox.counts() == {"pending": 1, "delivered": 1, "dead": 1}
    clock.now = NOON + 11 * DAY
    sweep_all(history)
    assert history.outbox.counts() == {"pending": 1, "delivered": 0, "dead": 0}


def test_beyond_the_size_the_oldest_closed_incidents_go_and_the_file_shrinks(keep, tmp_path):
    history = keep(max_size=1 << 20)
    history.put([incident(n, message="x" * 500, closed=NOON + n) for n in range(4000)])
    history.put([incident(n) for n in range(4000, 4010)], outgoing(*range(10)))
    history._database.checkpoint()
    assert size(tmp_path / "looptrap.db") > 3 << 20
    sweep_all(history)
    assert size(tmp_path / "looptrap.db") <= 1 << 20
    left = ids(history.incidents(limit=5000).items)
    assert left == [f"{n:08x}" for n in range(4009, 4009 - len(left), -1)]
    assert 500 < len(left) < 2000
    assert history.outbox.counts()["pending"] == 10


def test_then_delivered_letters_go_but_nothing_that_is_still_of_use(keep, tmp_path):
    history = keep(max_size=1 << 20)
    history.put([incident(n) for n in range(1000)], outgoing(*range(6000)))
    for letter in history.outbox.lease(NOON, "me", 3000, 30):
        history.outbox.mark_delivered(letter, NOON)
    for letter in history.outbox.lease(NOON, "me", 100, 30):
        history.outbox.mark_dead(letter, "no")
    sweep_all(history)
    assert history.outbox.counts() == {"pending": 2900, "delivered": 0, "dead": 100}
    assert len(history.incidents(limit=5000).items) == 1000


def test_what_was_dropped_for_its_age_makes_the_file_smaller(keep, clock, tmp_path):
    history = keep(keep=DAY)
    history.put([incident(n, closed=NOON) for n in range(5000)])
    history._database.checkpoint()
    before = size(tmp_path / "looptrap.db")
    clock.now = NOON + 2 * DAY
    sweep_all(history)
    assert size(tmp_path / "looptrap.db") < before / 5


def test_a_slice_is_small(keep, clock):
    history = keep(keep=DAY)
    history.put([incident(n, closed=NOON) for n in range(2000)])
    clock.now = NOON + 2 * DAY
    assert history.sweep()
    assert len(history.incidents(limit=5000).items) == 1500


def test_in_memory_it_is_the_same(keep, clock):
    history = keep("", keep=DAY, max_size=1 << 20)
    history.put([incident(n, closed=NOON + n) for n in range(5000)])
    sweep_all(history)
    assert 0 < len(history.incidents(limit=5000).items) < 3000
    clock.now = NOON + 2 * DAY
    sweep_all(history)
    assert history.incidents().items == []
