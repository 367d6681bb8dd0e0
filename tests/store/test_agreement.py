"""Memory and Redis give the same answers to whatever is asked of them."""

from itertools import count, cycle

from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.examples import examples

from looptrap.detect.window import HIT_LIMIT, Window, WindowKind
from looptrap.store.memory import MemoryStore
from looptrap.store.model import MAX_MARKS, Hit, Trip
from looptrap.store.redis.request import record_key

T = 1_800_000_000.0
RUNS = count()
"""Every run counts under keys of its own: the server keeps those of the runs before."""


KEYS = st.sampled_from([b"a", b"b", b"c"])
SECONDS = st.sampled_from([1, 3, 30])
MARKED = st.binary(min_size=1, max_size=3) | st.sampled_from([b"\0", b"x" * 300])
HITS = st.lists(
    st.tuples(KEYS, SECONDS, st.sampled_from(WindowKind), st.just(b"") | MARKED), max_size=3
)
ROWS = [kind for kind in WindowKind if kind.awaits_answers]
CALLS = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 2)), min_size=1, max_size=8)
"""Seconds that each of some calls takes, and the pause after it."""
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("hit"), HITS, st.booleans()),
        st.tuples(st.just("burst"), KEYS, SECONDS, st.integers(1, 100), st.booleans()),
        st.tuples(st.just("trip"), KEYS, SECONDS, st.integers(0, 10_000)),
        st.tuples(st.just("release"), KEYS),
        st.tuples(st.just("answer"), KEYS, SECONDS, st.sampled_from(ROWS)),
        st.tuples(st.just("calls"), KEYS, SECONDS, st.sampled_from(ROWS), CALLS),
        st.tuples(st.just("continued"), KEYS, SECONDS, st.integers(1, 20)),
        st.tuples(st.just("wait"), st.integers(0, 32) | st.integers(895, 905)),
    ),
    max_size=40,
)


class Pair:
    """Both stores, and a clock for them that ticks whole seconds.

    With `jitter` it is a little slow at times, so that it goes back from one ask to the next; half
    a second on top of each window then keeps it clear which hits are out. Without, hits lie on the
    very edge of windows.
    """

    def __init__(self, shared, jitter):
        self.memory, self.shared, self.run = MemoryStore(), shared, next(RUNS)
        self.jitter, self.ticks, self.asked = jitter, 0, count()
        self.touched = {}

    def key(self, name):
        return b"\0\1%b %d" % (name, self.run)

    def seconds(self, seconds):
        return seconds + 0.5 if self.jitter else float(seconds)

    @property
    def now(self):
        return T + self.ticks - (0.2 if self.jitter and next(self.asked) % 2 else 0.0)

    def hit(self, hits, retry):
        hits = [Hit(self.key(k), Window(self.seconds(s), kind), mark) for k, s, kind, mark in hits]
        now = self.now
        assert self.shared.hit(hits, now, retry=retry) == self.memory.hit(hits, now, retry=retry)
        self.touched |= {hit.key: self.ticks for hit in hits}

    def burst(self, name, seconds, number, is_done):
        """Hit a rolling window often, and see to it that the next hit finds it over, or not."""
        self.hit([(name, seconds, WindowKind.ROLLING, b"")] * number, False)
        self.ticks += seconds + 1 if is_done else seconds // 2

    def trip(self, name, seconds, hits):
        trips, now = [Trip(self.key(name), self.seconds(seconds), hits)], self.now
        self.memory.trip(trips, now)
        self.shared.trip(trips, now)
        self.touched[trips[0].key] = self.ticks

    def calls(self, name, seconds, kind, calls):
        """Send calls one after the other."""
        for takes, pause in calls:
            self.hit([(name, seconds, kind, b"")], False)
            self.ticks += takes
            self.answer(name, seconds, kind)
            self.ticks += pause

    def continued(self, name, seconds, times):
        """Continue answers, so that waves are taken off."""
        window = Window(self.seconds(seconds), WindowKind.STREAK)
        hits, now = [Hit(self.key(name), window, continues=True)] * times, self.now
        assert self.shared.hit(hits, now) == self.memory.hit(hits, now)

    def answer(self, name, seconds, kind):
        window = Window(self.seconds(seconds), kind)
        hits, now = [Hit(self.key(name), window)], self.now
        self.memory.answer(hits, now)
        self.shared.answer(hits, now)

    def release(self, name):
        key = self.key(name)
        known = self.memory.release(key), self.shared.release(key)
        touched = self.touched.pop(key, None)
        if touched is None:
            assert known == (False, False)
        elif touched == self.ticks:
            assert known == (True, True)
        # Else it may be over, and each forgets in its own time.

    def wait(self, seconds):
        self.ticks += seconds


@settings(max_examples=examples(100))
@given(steps=STEPS, jitter=st.booleans())
@example(steps=[("hit", [(b"a", 3, WindowKind.REFRESHED, b"")], True)] * 5, jitter=True)
@example(
    steps=[("hit", [(b"a", 3, WindowKind.ROLLING, b"%d" % (i % 18))], False) for i in range(40)],
    jitter=True,
)
def test_memory_and_redis_agree_on_any_sequence(shared, steps, jitter):
    pair = Pair(shared, jitter)
    for name, *arguments in steps:
        getattr(pair, name)(*arguments)


class Alone(Pair):
    """The shared store with a clock that jumps: nobody can agree with that."""

    def __init__(self, shared, jumps):
        super().__init__(shared, jitter=False)
        self.memory, self.jumps = shared, cycle(jumps)

    @property
    def now(self):
        return T + self.ticks + next(self.jumps)

    def hit(self, hits, retry):
        hits = [Hit(self.key(k), Window(s, kind), mark) for k, s, kind, mark in hits]
        self.shared.hit(hits, self.now, retry=retry)

    def release(self, name):
        self.shared.release(self.key(name))


JUMPS = st.lists(st.sampled_from([-1e9, -40.0, 0.0, 40.0, 1e9]), min_size=1, max_size=5)


@settings(max_examples=examples(20))
@given(steps=STEPS, jumps=JUMPS)
def test_no_key_is_immortal_or_gone_at_once_whatever_the_clock_says(place, shared, steps, jumps):
    alone = Alone(shared, jumps)
    for name, *arguments in steps:
        getattr(alone, name)(*arguments)
    shared.hit([Hit(alone.key(b"last"), Window(30.0))], alone.now)
    client = place.client()
    lives = {key: client.pttl(key) for key in client.scan_iter("lt:*")}
    # At most as long as a streak is remembered, a cooldown of 30 s and the slack; -1 is for ever.
    assert {key: left for key, left in lives.items() if left == -1 or left > 941_000} == {}
    assert lives[record_key(alone.key(b"last"))] > 30_000


def test_both_keep_the_same_bounded_number_of_hits(shared):
    pair = Pair(shared, jitter=False)
    hits = [Hit(pair.key(b"a"), Window(30.0))] * 250
    for _ in range(HIT_LIMIT // 250 + 2):
        pair.ticks += 0.01
        last = pair.memory.hit(hits, T + pair.ticks)[-1]
        assert shared.hit(hits, T + pair.ticks)[-1] == last
    assert last.hits == HIT_LIMIT


def test_both_forget_the_mark_that_was_not_seen_for_longest(shared):
    pair = Pair(shared, jitter=False)
    for number in range(MAX_MARKS + 5):
        pair.hit([(b"a", 3, WindowKind.ROLLING, b"%d" % number)], False)
    (count,) = shared.hit([Hit(pair.key(b"a"), Window(3.0), b"new")], T)
    assert count.marks == tuple(b"%d" % number for number in range(5, MAX_MARKS + 5))
