"""What every store promises. Time is an argument: nothing here sleeps."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.store.charging import places, stores
from tests.store.serving import KINDS

from looptrap.detect.window import MAX_CONTINUED, Window, WindowKind
from looptrap.store.memory import MemoryStore
from looptrap.store.model import MAX_MARKS, Hit, Trip

T = 1_800_000_000.0
ROLLING, FIXED, REFRESHED = (
    Window(60, kind) for kind in (WindowKind.ROLLING, WindowKind.FIXED, WindowKind.REFRESHED)
)
STREAK = Window(15, WindowKind.STREAK)
SERIAL = Window(15, WindowKind.SERIAL)


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


class Calls:
    """Equal calls to a store: each begins, and ends when it is answered."""

    def __init__(self, store, window=STREAK):
        self.store = store
        self.hit = Hit(b"k", window)

    def begin(self, now, **options):
        """Begin a call; return the waves so far."""
        return self.store.hit([self.hit], T + now, **options)[0].hits

    def answer(self, now):
        self.store.answer([self.hit], T + now)

    def go_on(self, now):
        """Continue the answer to one of them."""
        key, window = self.hit.key, self.hit.window
        assert self.store.hit([Hit(key, window, continues=True)], T + now)[0].hits == 0

    def sequence(self, times, seconds):
        """Begin calls at these times, each answered after these seconds; return the waves."""
        found = []
        for time in times:
            found.append(self.begin(time))
            if found[-1] > 1:
                self.answer(time + seconds)
        return found


@pytest.mark.parametrize(
    ("seconds", "pause", "expected"),
    [
        pytest.param(1, 0.1, [1, 2, 3, 4, 5, 6], id="one right after the other"),
        pytest.param(12, 0.5, [1, 2, 3, 4, 5, 6], id="slow answers"),
        pytest.param(600, 5, [1, 2, 3, 4, 5, 6], id="an hour of them"),
        pytest.param(1, 15, [1, 2, 3, 4, 5, 6], id="a pause as long as it may be"),
        pytest.param(1, 15.5, [1, 2, 1, 2, 1, 2], id="a timer that idles in between"),
        pytest.param(1, 59, [1, 2, 1, 2, 1, 2], id="a timer of a minute"),
        pytest.param(1, 1_000, [1, 1, 1, 1, 1, 1], id="long forgotten"),
    ],
)
def test_a_streak_counts_what_begins_soon_after_an_answer(store, seconds, pause, expected):
    times = [number * (seconds + pause) for number in range(6)]
    assert Calls(store).sequence(times, seconds) == expected


def test_what_is_under_way_at_once_is_one_wave(store):
    calls = Calls(store)
    assert [calls.begin(0.01 * number) for number in range(8)] == [1] + [2] * 7
    for number in range(7):
        calls.answer(10 + number)
    assert calls.begin(17) == 3


def test_more_twins_than_a_sample_has_count_each(store):
    calls = Calls(store)
    assert [calls.begin(number / 100) for number in range(20)] == [1] + [2] * 16 + [3, 4, 5]


def test_a_call_that_is_never_answered_holds_a_streak_for_a_quarter_of_an_hour(store):
    calls = Calls(store)
    assert [calls.begin(time) for time in (0, 1, 100, 901, 902)] == [1, 2, 2, 1, 2]


def test_a_client_that_waits_out_its_refusal_goes_on_with_its_streak(store):
    calls = Calls(store)
    calls.sequence(range(0, 12, 2), 1)
    store.trip([Trip(b"k", 30, 6)], T + 11)
    assert calls.begin(20) == 7, "in the cooldown"
    assert calls.begin(42) == 7, "a second after it"
    calls.answer(43)
    assert calls.begin(60) == 1, "after a pause"


def test_a_transport_retry_of_a_streak_is_no_wave_and_under_way(store):
    calls = Calls(store)
    calls.sequence([0, 2], 1)
    assert calls.begin(4, retry=True) == 2
    assert calls.begin(6) == 2, "beside the retry"
    calls.answer(7)
    calls.answer(8)
    assert calls.begin(9) == 3


def test_a_continued_answer_takes_a_wave_off_but_never_the_first_two(store):
    calls = Calls(store)
    calls.go_on(0)
    assert calls.sequence([0, 2, 4, 6], 1) == [1, 2, 3, 4]
    for number in range(5):
        calls.go_on(7 + number / 10)
    assert calls.sequence([8, 10], 1) == [3, 4]


def test_calls_that_are_each_continued_count_only_so_often(store):
    calls, found = Calls(store), []
    for number in range(22):
        found += calls.sequence([2 * number], 1)
        calls.go_on(2 * number + 1.5)
    assert found == [1, 2] + [3] * (MAX_CONTINUED + 1) + [4, 5, 6]


def test_a_pause_lets_waves_be_taken_off_again(store):
    calls = Calls(store)
    for start in (0, 1_000):
        assert calls.sequence([start, start + 2, start + 4], 1) == [1, 2, 3]
        calls.go_on(start + 5)
        assert calls.sequence([start + 6], 1) == [3]


def test_what_is_under_way_stays_so_when_a_wave_is_taken_off(store):
    calls = Calls(store)
    calls.sequence([0, 2], 1)
    assert calls.begin(4) == 3
    calls.go_on(5)
    assert calls.begin(6) == 2, "beside the one before"
    calls.answer(7)
    calls.answer(8)
    assert calls.begin(9) == 3


def test_a_continued_answer_takes_nothing_off_a_cooldown_or_another_key(store):
    calls = Calls(store)
    calls.sequence(range(0, 12, 2), 1)
    store.trip([Trip(b"k", 30, 6)], T + 11)
    store.hit([Hit(b"other", STREAK, continues=True)], T + 12)
    assert calls.begin(20) == 7
    assert store.cooldown_left(b"k", T + 20) == pytest.approx(21)


@pytest.mark.parametrize("window", [ROLLING, FIXED, REFRESHED, SERIAL])
def test_only_streaks_have_waves_to_take_off(store, window):
    calls = Calls(store, window)
    before = [calls.begin(number / 10) for number in range(3)]
    calls.go_on(1)
    alone = Calls(MemoryStore(), window)
    assert [*before, calls.begin(2)] == [*map(alone.begin, (0, 0.1, 0.2)), alone.begin(2)]


GAPS = st.integers(0, 160).map(lambda quarters: quarters / 4) | st.just(900.0)
"""Seconds that floats add up exactly."""


@given(st.lists(st.tuples(GAPS, st.sampled_from(["begin", "answer", "go on"])), max_size=40))
def test_streaks_are_counted_as_written_down_here(events):
    """The memory store against the rule in the words of the documentation."""
    store, now, taken_off = MemoryStore(), 0.0, 0
    calls, waves, twins, began, ended, under_way = Calls(store), 0, 0, -1e9, None, 0
    for gap, event in events:
        now += gap
        if event == "go on":
            calls.go_on(now)
            if waves > 2 and taken_off < MAX_CONTINUED:
                waves, taken_off = waves - 1, taken_off + 1
            continue
        if event == "answer":
            if waves > 1:
                calls.answer(now)
                under_way, ended = max(under_way - 1, 0), now
            continue
        if not waves or now - began >= 900:
            waves, twins, began, ended, under_way, taken_off = 1, 1, now, None, 0, 0
        elif under_way:
            twins += 1
            waves += twins > 16
        elif ended is None or now - ended <= 15:
            waves, twins, began = waves + 1, 1, now
        else:
            waves, twins, began, ended, under_way, taken_off = 1, 1, now, None, 0, 0
        under_way += waves > 1
        assert calls.begin(now) == waves


@pytest.mark.parametrize(
    ("seconds", "pause", "expected"),
    [
        pytest.param(1, 0.25, [1, 2, 3, 4, 5, 6], id="one right after the other"),
        pytest.param(12, 6, [1, 2, 3, 4, 5, 6], id="a pause of half of an answer"),
        pytest.param(12, 6.5, [1, 2, 1, 2, 1, 2], id="a longer pause"),
        pytest.param(600, 15, [1, 2, 3, 4, 5, 6], id="a pause as long as it may be"),
        pytest.param(600, 15.5, [1, 2, 1, 2, 1, 2], id="a longer one after a slow answer"),
        pytest.param(0, 1, [1, 2, 1, 2, 1, 2], id="answers that take no time"),
        pytest.param(1, 1_000, [1, 1, 1, 1, 1, 1], id="long forgotten"),
    ],
)
def test_a_series_counts_what_begins_within_half_of_an_answer_after_it(
    store, seconds, pause, expected
):
    times = [number * (seconds + pause) for number in range(6)]
    assert Calls(store, SERIAL).sequence(times, seconds) == expected


def test_the_pause_in_a_series_is_measured_by_the_answer_right_before(store):
    calls = Calls(store, SERIAL)
    assert calls.sequence([0, 10], 8) == [1, 2]
    assert calls.sequence([20], 2) == [3]
    assert calls.sequence([23], 8) == [4], "a second after an answer of two"
    assert calls.sequence([34], 2) == [5], "three after one of eight"
    assert calls.sequence([38], 1) == [1], "two after one of two"


def test_calls_that_overlap_begin_a_series_anew(store):
    calls = Calls(store, SERIAL)
    assert calls.sequence([0, 4, 8], 3) == [1, 2, 3]
    assert calls.begin(12) == 4
    assert calls.begin(13) == 1, "beside the fourth"
    assert calls.begin(14) == 1, "beside it too"
    calls.answer(15)
    assert calls.sequence([16, 20], 3) == [2, 3]


def test_an_answer_from_before_a_series_is_none_of_its_answers(store):
    calls = Calls(store, SERIAL)
    assert [calls.begin(0), calls.begin(1), calls.begin(2)] == [1, 2, 1]
    calls.answer(3)  # the second
    assert calls.begin(4) == 2
    assert calls.begin(5) == 1, "the one before is still under way"


def test_a_call_that_is_never_answered_holds_a_series_for_a_quarter_of_an_hour(store):
    calls = Calls(store, SERIAL)
    assert [calls.begin(time) for time in (0, 1, 100, 900, 901, 902)] == [1, 2, 1, 1, 1, 2]


def test_a_client_that_waits_out_its_refusal_goes_on_with_its_series(store):
    calls = Calls(store, SERIAL)
    calls.sequence(range(0, 22, 2), 1.5)
    assert calls.begin(22) == 12
    store.trip([Trip(b"k", 30, 12)], T + 22)
    calls.answer(22)  # refused at once
    assert calls.begin(40) == 13, "in the cooldown"
    assert calls.begin(60) == 13, "eight seconds after it: less than half of it"
    store.trip([Trip(b"k", 30, 13)], T + 60)
    calls.answer(60)
    assert calls.begin(106) == 1, "after a longer pause"


def test_a_transport_retry_in_a_series_belongs_to_its_call(store):
    calls = Calls(store, SERIAL)
    calls.sequence([0, 10], 8)
    assert calls.begin(20) == 3
    calls.answer(21)  # it failed
    assert calls.begin(25, retry=True) == 3
    calls.answer(28)
    assert calls.begin(32) == 4, "four seconds after a call that took eight in all"


def test_releasing_a_key_forgets_its_series(store):
    calls = Calls(store, SERIAL)
    assert calls.sequence([0, 4, 8], 3) == [1, 2, 3]
    assert store.release(b"k")
    assert calls.begin(12) == 1


@given(st.lists(st.tuples(GAPS, st.booleans()), max_size=40))
def test_series_are_counted_as_written_down_here(events):
    """The memory store against the rule in the words of the documentation."""
    store, now = MemoryStore(), 0.0
    calls, count, began, continues_until, under_way = Calls(store, SERIAL), 0, -1e9, None, 0
    for gap, is_answer in events:
        now += gap
        if is_answer:
            if under_way:
                calls.answer(now)
                under_way -= 1
                if count > 1:
                    continues_until = now + min(15, (now - began) / 2)
            continue
        if not count or now - began >= 900:
            count, began, continues_until, under_way = 1, now, None, 0
        elif under_way:
            count, continues_until = 1, None
        elif continues_until is None or now <= continues_until:
            count, began, under_way = count + 1, now, 1
        else:
            count, began, continues_until = 1, now, None
        assert calls.begin(now) == count
