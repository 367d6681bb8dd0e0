"""What is the memory store's own about notes: bounds."""

import tracemalloc

import pytest

from looptrap.bounded import MAX_EXPIRED_AT_ONCE
from looptrap.detect.window import Window
from looptrap.store.memory import MemoryStore
from looptrap.store.model import RUN_MEMORY_S, Hit, Note
from looptrap.store.note import MAX_SEARCHED_NOTES, Notes

T = 1_800_000_000.0


def key(number, caller=1):
    """Return a key of a caller."""
    return caller.to_bytes(2, "big") + number.to_bytes(14, "big")


def write(store, *keys, now=T, limit=0):
    store.remember([Note(one, b"value", limit) for one in keys], now)


def known(store, *keys, now=T):
    """Return which of the keys have a note."""
    return [one for one, value in zip(keys, store.recall(keys, now), strict=True) if value]


@pytest.mark.parametrize("limit", [0, 100], ids=["replaced", "appended"])
def test_a_full_store_forgets_the_notes_written_longest_ago(limit):
    store = MemoryStore(max_runs=2)
    keys = [key(0, caller) for caller in range(10)]
    write(store, *keys[:8], limit=limit)
    write(store, keys[0], limit=limit)
    write(store, *keys[8:], limit=limit)
    assert known(store, *keys) == [keys[0], *keys[3:]]


@pytest.mark.parametrize("limit", [0, 100], ids=["replaced", "appended"])
def test_a_caller_has_a_quarter_of_the_room_and_loses_its_own_oldest_note(limit):
    store = MemoryStore(max_runs=3)
    mine, others = [key(number) for number in range(20)], [key(0, 2), key(1, 2)]
    write(store, *others)
    write(store, *mine[:3], limit=limit)
    write(store, mine[0], limit=limit)
    write(store, mine[3], limit=limit)
    assert known(store, *others, *mine) == [*others, mine[0], mine[2], mine[3]]
    write(store, *mine, limit=limit)
    assert known(store, *others, *mine) == [*others, *mine[-3:]]


def test_a_caller_without_room_writes_on_in_the_notes_it_has():
    store = MemoryStore(max_runs=2)
    write(store, key(0), key(1))
    store.remember([Note(key(0), b" more", 100)], T)
    assert store.recall([key(0), key(1)], T) == [b"value more", b"value"]


@pytest.mark.parametrize(
    ("older", "is_kept"),
    [
        pytest.param(MAX_SEARCHED_NOTES - 1, True, id="its oldest is the last one searched"),
        pytest.param(MAX_SEARCHED_NOTES, False, id="its oldest is one further"),
    ],
)
def test_a_caller_whose_notes_are_all_young_gets_no_further_one(older, is_kept):
    store = MemoryStore(max_runs=40)
    others = [key(number, 2 + number % 2) for number in range(older)]
    write(store, *others)
    mine = [key(number) for number in range(41)]
    write(store, *mine)
    assert known(store, *others) == others
    assert known(store, *mine) == (mine[1:] if is_kept else mine[:40])


@pytest.mark.parametrize("leave", ["released", "forgotten", "expired"])
def test_a_note_that_is_gone_makes_room_for_its_caller(leave):
    store = MemoryStore(max_runs=2)
    write(store, key(0))
    write(store, key(1), now=T + 1)
    now = T + 1
    if leave == "released":
        store.release(key(0))
    elif leave == "forgotten":
        store.remember([Note(key(0), b"")], now)
    else:
        now = T + RUN_MEMORY_S
    write(store, key(2), now=now)
    assert known(store, key(1), key(2), now=now) == [key(1), key(2)]


def test_stale_notes_leave_without_being_touched():
    notes = Notes(max_runs=1_000)
    notes.remember([Note(key(number), b"a", 9) for number in range(1_000)], T)
    for number in range(40):
        notes.remember([Note(key(10_000 + number, 2), b"a")], T + RUN_MEMORY_S)
    assert len(notes.entries) == 40


def test_nothing_is_appended_to_a_stale_note_that_has_not_left_yet():
    store = MemoryStore()
    stale = [key(number) for number in range(10 * MAX_EXPIRED_AT_ONCE)]
    write(store, *stale, limit=100)
    store.remember([Note(stale[-1], b"new", 100)], T + RUN_MEMORY_S)
    assert store.recall(stale[-2:], T + RUN_MEMORY_S) == [b"", b"new"]


def test_any_number_of_callers_and_notes_stays_within_the_bounds():
    notes = Notes(max_runs=50)
    for number in range(20_000):
        caller = number % 2_000 if number % 3 else 7
        notes.remember([Note(key(number, caller), b"a", 9)], T + number / 1_000)
    assert len(notes.entries) == 200
    assert sum(one[:2] == b"\0\7" for one in notes.entries) <= 50


def test_notes_are_not_counted_among_fingerprints_and_displace_none():
    store = MemoryStore(max_fingerprints=2, max_runs=100)
    store.hit([Hit(key(1), Window(60))], T)
    write(store, *map(key, range(100)))
    assert (len(store), store.evicted) == (1, 0)
    assert store.hit([Hit(key(1), Window(60))], T)[0].hits == 2


def test_a_run_costs_at_most_4_kb():
    runs, step, limit = 2_000, 120, 3_600
    store = MemoryStore()
    tracemalloc.start()
    try:
        for run in range(runs):
            for number in range(limit // step + 5):
                steps = Note(key(2 * run), number.to_bytes(step, "big"), limit)
                state = Note(key(2 * run + 1), number.to_bytes(60, "big"))
                store.remember([steps, state], T + run + number / 1_000)
        del steps, state
        ours = [tracemalloc.Filter(True, one) for one in ("*/looptrap/store/*", __file__)]
        taken = tracemalloc.take_snapshot().filter_traces(ours).statistics("filename")
    finally:
        tracemalloc.stop()
    last = store.recall([key(0), key(2 * runs - 1)], T + runs)
    assert [len(value) for value in last] == [limit, 60]
    assert limit + 60 < sum(one.size for one in taken) / runs <= 4_096
