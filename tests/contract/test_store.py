"""What every store promises. Time is an argument: nothing here sleeps."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.store.charging import places, stores
from tests.store.serving import KINDS

from looptrap.detect.scope import Window, WindowKind
from looptrap.store.memory import MemoryStore
from looptrap.store.model import MAX_MARKS, Hit, Trip

T = 1_800_000_000.0
ROLLING, FIXED, REFRESHED = (Window(60, kind) for kind in WindowKind)


@pytest.fixture(scope="module", params=["memory", *KINDS, "cluster"])
def place(request):
    """Where a store counts: here, or in these servers."""
    yield from places(request.param)


@pytest.fixture
def store(place):
    yield from stores(place)


def counts(store, times, window=ROLLING, key=b"k", **options):
    """Hit one key at these seconds after T and return what was counted each time."""
    return [store.hit([Hit(key, window)], T + t, **options)[0].hits for t in times]


@pytest.mark.parametrize(
    ("window", "times", "expected"),
    [
        pytest.param(ROLLING, [0, 1, 2], [1, 2, 3], id="rolling counts every hit"),
        pytest.param(ROLLING, [0, 59.9, 60, 119], [1, 2, 2, 3], id="rolling forgets at its edge"),
        pytest.param(ROLLING, [0, 60], [1, 1], id="rolling: a hit W seconds old is out"),
        pytest.param(ROLLING, [0, 30, 61, 91, 500], [1, 2, 2, 2, 1], id="rolling slides"),
        pytest.param(FIXED, [0, 30, 59.9, 60, 61], [1, 2, 3, 1, 2], id="fixed ends W after first"),
        pytest.param(REFRESHED, [0, 50, 100, 150, 210], [1, 2, 3, 4, 1], id="refreshed extends"),
    ],
)
def test_windows_count(store, window, times, expected):
    assert counts(store, times, window) == expected


def test_keys_and_windows_are_counted_apart(store):
    hits = [Hit(b"a", ROLLING), Hit(b"b", ROLLING), Hit(b"a", FIXED)]
    store.hit(hits, T)
    store.hit([Hit(b"a", ROLLING)], T + 1)
    assert [count.hits for count in store.hit(hits, T + 2)] == [3, 2, 2]


def test_a_cooldown_outlives_its_window(store):
    counts(store, range(6))
    store.trip([Trip(b"k", 300, 6)], T + 5)
    (count,) = store.hit([Hit(b"k", ROLLING)], T + 200)
    assert (count.hits, count.cooldown_left) == (7, 105)
    (count,) = store.hit([Hit(b"k", ROLLING)], T + 306)
    assert (count.hits, count.cooldown_left) == (1, 0)


def test_refusals_in_a_cooldown_raise_the_count_and_not_the_window(store):
    counts(store, range(6))
    store.trip([Trip(b"k", 30, 6)], T + 5)
    assert counts(store, range(6, 16)) == list(range(7, 17))
    assert counts(store, [36]) == [7]  # the six before the trip, and this one


@pytest.mark.parametrize(
    ("first", "second", "left"),
    [(30, 10, 29), (10, 30, 30)],
    ids=["the old deadline is later", "the new deadline is later"],
)
def test_tripping_again_takes_the_later_deadline(store, first, second, left):
    store.trip([Trip(b"k", first, 6)], T)
    store.trip([Trip(b"k", second, 6)], T + 1)
    assert store.hit([Hit(b"k", ROLLING)], T + 1)[0].cooldown_left == left


@pytest.mark.parametrize(
    ("after", "left"),
    [
        pytest.param(0, 30, id="as it begins"),
        pytest.param(29, 1, id="shortly before its end"),
        pytest.param(30, 0, id="over"),
    ],
)
def test_what_is_left_of_a_cooldown_can_be_asked(store, after, left):
    store.trip([Trip(b"k", 30, 6)], T)
    assert store.cooldown_left(b"k", T + after) == pytest.approx(left)
    assert store.cooldown_left(b"other", T + after) == 0


def test_asking_for_a_cooldown_is_no_hit(store):
    store.trip([Trip(b"k", 30, 6)], T)
    for key in (b"k", b"other"):
        store.cooldown_left(key, T + 1)
    assert counts(store, [2]) == [7]
    assert counts(store, [2], key=b"other") == [1]
    assert not store.release(b"never seen")


def test_tripping_again_keeps_counting_refusals(store):
    store.trip([Trip(b"k", 30, 6)], T)
    assert counts(store, [1, 2]) == [7, 8]
    store.trip([Trip(b"k", 30, 8)], T + 2)
    assert counts(store, [3]) == [9]


def test_two_transport_retries_are_not_hits(store):
    assert counts(store, [0]) == [1]
    assert counts(store, [1, 2, 3, 4], retry=True) == [1, 1, 2, 3]


def test_the_allowance_for_retries_is_a_windows_worth(store):
    counts(store, [0])
    assert counts(store, [1, 2], retry=True) == [1, 1]
    counts(store, [62])
    assert counts(store, [63, 64, 65], retry=True) == [1, 1, 2]


def test_a_retry_without_a_first_try_counts_nothing(store):
    assert counts(store, [0], retry=True) == [0]


def test_a_retry_during_a_cooldown_is_refused_like_any_other(store):
    store.trip([Trip(b"k", 30, 6)], T)
    (count,) = store.hit([Hit(b"k", ROLLING)], T + 1, retry=True)
    assert (count.hits, count.cooldown_left) == (7, 29)


def test_a_release_forgets_cooldown_and_hits(store):
    counts(store, range(6))
    store.trip([Trip(b"k", 30, 6)], T + 5)
    assert store.release(b"k")
    assert counts(store, [6]) == [1]
    assert not store.release(b"unknown")


def test_no_hits_no_counts(store):
    assert list(store.hit([], T)) == []


def test_a_clock_set_back_loses_no_hits(store):
    assert counts(store, [10, 5, 11]) == [1, 2, 3]


@given(gaps=st.lists(st.floats(0, 90), min_size=1, max_size=40))
def test_a_rolling_window_counts_exactly_the_hits_of_the_last_w_seconds(gaps):
    store, now, times = MemoryStore(), T, []
    for gap in gaps:
        now += gap
        times.append(now)
        expected = sum(1 for time in times if time > now - 60)
        assert store.hit([Hit(b"k", ROLLING)], now)[0].hits == expected


@given(
    hits=st.lists(st.tuples(st.sampled_from([b"a", b"b", b"c"]), st.floats(0, 50)), max_size=40),
    kind=st.sampled_from(WindowKind),
)
def test_other_keys_never_change_a_count(hits, kind):
    together, alone, now = MemoryStore(), MemoryStore(), T
    for key, gap in hits:
        now += gap
        (count,) = together.hit([Hit(key, Window(60, kind))], now)
        if key == b"a":
            assert alone.hit([Hit(key, Window(60, kind))], now)[0] == count


def recall(store, mark, time=0.0, key=b"k", window=ROLLING):
    """Leave a mark and return what else was remembered."""
    return store.hit([Hit(key, window, mark)], T + time)[0].marks


def test_marks_are_remembered_under_their_key_the_longest_unseen_first(store):
    assert recall(store, b"one") == ()
    assert recall(store, b"two", 1) == (b"one",)
    assert recall(store, b"one", 2) == (b"two",)
    assert recall(store, b"three", 3) == (b"two", b"one")
    assert recall(store, b"one", 4, key=b"other") == ()


def test_marks_are_forgotten_when_nobody_left_one_for_a_window(store):
    recall(store, b"one")
    assert recall(store, b"two", 59) == (b"one",)
    assert recall(store, b"three", 118) == (b"one", b"two")
    assert recall(store, b"four", 178) == ()


def test_only_so_many_marks_are_remembered(store):
    marks = [b"%d" % n for n in range(MAX_MARKS + 5)]
    for mark in marks:
        recall(store, mark)
    assert recall(store, b"new") == tuple(marks[5:])


def test_marks_neither_count_nor_are_counted(store):
    assert counts(store, [0, 1]) == [1, 2]
    (count,) = store.hit([Hit(b"k", ROLLING, b"mark")], T + 2)
    assert (count.hits, count.cooldown_left) == (0, 0)
    assert counts(store, [3]) == [3]


def test_releasing_a_key_forgets_its_marks(store):
    recall(store, b"one")
    assert store.release(b"k")
    assert recall(store, b"two", 1) == ()
