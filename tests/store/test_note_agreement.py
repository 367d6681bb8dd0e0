"""Memory and Redis keep the same notes, whatever is asked of them."""

from itertools import count, cycle

from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.examples import examples

from looptrap.detect.window import Window
from looptrap.store.memory import MemoryStore
from looptrap.store.model import RUN_MEMORY_S, Hit, Note
from looptrap.store.redis.request import KEY_SLACK_S, record_key

T = 1_800_000_000.0
RUNS = count()
"""Every run has notes of its own: the server keeps those of the runs before."""

KEYS = st.sampled_from([b"a", b"b", b"c"])
VALUES = st.binary(max_size=5) | st.sampled_from([b"", b"\r\n", b"x" * 300, bytes(4_096)])
LIMITS = st.sampled_from([0, 1, 4, 310, 4_096])
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("remember"), st.lists(st.tuples(KEYS, VALUES, LIMITS), max_size=4)),
        st.tuples(st.just("recall"), st.lists(KEYS, max_size=4)),
        st.tuples(st.just("hit"), KEYS, st.integers(1, 70)),
        st.tuples(st.just("release"), KEYS),
        st.tuples(st.just("wait"), st.sampled_from([0.25, 30.0, 1_800.0, 3_599.75, 3_600.0])),
    ),
    max_size=40,
)


class Pair:
    """Both stores, and a clock for them that ticks quarters of a second."""

    def __init__(self, shared):
        self.memory, self.shared, self.run, self.now = MemoryStore(), shared, next(RUNS), T

    def key(self, name):
        return b"\0\1%b %d" % (name, self.run)

    def remember(self, written):
        notes = [Note(self.key(name), value, limit) for name, value, limit in written]
        self.memory.remember(notes, self.now)
        self.shared.remember(notes, self.now)

    def recall(self, names):
        keys = [self.key(name) for name in names]
        assert self.memory.recall(keys, self.now) == [*self.shared.recall(keys, self.now)]

    def hit(self, name, number):
        hits = [Hit(self.key(name), Window(5.0))] * number
        assert self.shared.hit(hits, self.now) == self.memory.hit(hits, self.now)

    def release(self, name):
        # What is over is forgotten by each in its own time.
        self.memory.release(self.key(name))
        self.shared.release(self.key(name))

    def wait(self, seconds):
        self.now += seconds


@settings(max_examples=examples(200))
@given(steps=STEPS)
@example(
    steps=[
        ("remember", [(b"a", b"one", 4)]),
        ("hit", b"a", 70),
        ("remember", [(b"a", b"two", 4)]),
        ("wait", 3_599.75),
        ("recall", [b"a"]),
        ("wait", 0.25),
    ]
)
def test_memory_and_redis_agree_on_any_sequence(shared, steps):
    pair = Pair(shared)
    for name, *arguments in steps:
        getattr(pair, name)(*arguments)
    pair.recall([b"a", b"b", b"c"])


class Alone(Pair):
    """The shared store with a clock that jumps: nobody can agree with that."""

    def __init__(self, shared, jumps):
        super().__init__(shared)
        self.memory, self.jumps = shared, cycle(jumps)

    def remember(self, written):
        self.now = T + next(self.jumps)
        super().remember(written)

    def recall(self, names):
        self.shared.recall([self.key(name) for name in names], self.now)

    def hit(self, name, number):
        self.shared.hit([Hit(self.key(name), Window(5.0))] * number, self.now)


JUMPS = st.lists(st.sampled_from([-1e9, -40.0, 0.0, 40.0, 1e9]), min_size=1, max_size=5)


@settings(max_examples=examples(20))
@given(steps=STEPS, jumps=JUMPS)
def test_no_note_is_immortal_or_gone_at_once_whatever_the_clock_says(place, shared, steps, jumps):
    alone = Alone(shared, jumps)
    for name, *arguments in steps:
        getattr(alone, name)(*arguments)
    alone.remember([(b"last", b"value", 0)])
    alone.recall([b"last"])
    client = place.client()
    lives = {key: client.pttl(key) for key in client.scan_iter("lt:*")}
    longest = (RUN_MEMORY_S + KEY_SLACK_S) * 1000
    assert {key: left for key, left in lives.items() if left == -1 or left > longest} == {}
    assert lives[record_key(alone.key(b"last"))] > RUN_MEMORY_S * 1000
    place.empty()
