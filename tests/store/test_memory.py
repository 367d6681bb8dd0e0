"""What is the memory store's own: bounds."""

import pytest

from looptrap.detect.window import HIT_LIMIT, Window, WindowKind
from looptrap.store.memory import MemoryStore
from looptrap.store.model import Hit, Trip

T = 1_800_000_000.0
WINDOW = Window(60)


def key(number: int) -> bytes:
    return number.to_bytes(16, "big")


def test_stale_keys_leave_without_being_touched():
    store = MemoryStore()
    for number in range(1_000):
        store.hit([Hit(key(number), WINDOW)], T)
    for number in range(40):
        store.hit([Hit(key(10_000 + number), WINDOW)], T + 61)
    assert len(store) == 40


def test_a_touched_key_stays_in_front_of_nobody():
    store = MemoryStore()
    store.hit([Hit(key(1), WINDOW)], T)
    store.hit([Hit(key(2), WINDOW)], T + 1)
    store.hit([Hit(key(1), WINDOW)], T + 50)
    store.hit([Hit(key(3), WINDOW)], T + 62)
    assert store.hit([Hit(key(1), WINDOW)], T + 63)[0].hits == 2


def test_a_full_store_evicts_what_was_touched_longest_ago_and_counts_it():
    store = MemoryStore(max_fingerprints=3)
    for number in range(3):
        store.hit([Hit(key(number), WINDOW)], T + number)
    store.hit([Hit(key(0), WINDOW)], T + 3)
    store.hit([Hit(key(9), WINDOW)], T + 4)
    assert (len(store), store.evicted) == (3, 1)
    assert store.hit([Hit(key(0), WINDOW)], T + 5)[0].hits == 3
    assert store.hit([Hit(key(1), WINDOW)], T + 6)[0].hits == 1


def test_the_oldest_goes_first_whatever_its_window():
    store = MemoryStore(max_fingerprints=2)
    store.hit([Hit(key(1), Window(3_600, WindowKind.FIXED))], T)
    store.hit([Hit(key(2), WINDOW)], T + 1)
    store.hit([Hit(key(3), WINDOW)], T + 2)
    assert store.hit([Hit(key(2), WINDOW)], T + 3)[0].hits == 2


def test_cooldowns_are_bounded_and_leave_when_over():
    store = MemoryStore(max_fingerprints=100)
    store.trip([Trip(key(number), 30, 6) for number in range(250)], T)
    assert len(store) == 100
    store.trip([Trip(key(999), 30, 6)], T + 31)
    store.trip([Trip(key(998), 30, 6)], T + 31)
    assert len(store) == 2


def test_a_key_keeps_a_bounded_number_of_hits():
    store = MemoryStore()
    for number in range(HIT_LIMIT + 50):
        (count,) = store.hit([Hit(b"k", Window(3_600))], T + number / 100)
    assert count.hits == HIT_LIMIT


@pytest.mark.slow
def test_five_million_distinct_keys_stay_within_the_bound():
    store = MemoryStore(max_fingerprints=10_000)
    for number in range(5_000_000):
        store.hit([Hit(key(number), WINDOW)], T + number / 1_000_000)
    assert len(store) == 10_000
    assert store.evicted == 4_990_000
