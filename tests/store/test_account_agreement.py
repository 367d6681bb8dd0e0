"""Memory and Redis keep the same accounts, whatever is asked of them."""

from itertools import count, cycle

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.examples import examples
from tests.store.charging import DAY, T, bucket, budget, settle, spend, take, used

from looptrap.detect.window import Window
from looptrap.store.memory import MemoryStore
from looptrap.store.model import RESERVATION_S, UNLIMITED, Charge, Hit, Settlement
from looptrap.store.redis.request import ACCOUNT_SLACK_S, KEY_SLACK_S, record_key

RUNS = count()
"""Every run has accounts of its own: the server keeps those of the runs before."""


KEYS = st.sampled_from([b"a", b"b"])
ACCOUNTS = st.tuples(
    st.sampled_from([(0.0, False), (60.0, False), (3_600.0, False), (7.0, True), (0.3, True)]),
    st.sampled_from([0, 7, 100, 10**9 + 1, UNLIMITED]),
)
AMOUNTS = st.integers(0, 120) | st.integers(0, UNLIMITED)
STEPS = st.lists(
    st.one_of(
        st.tuples(
            st.just("charge"), st.lists(st.tuples(KEYS, ACCOUNTS, AMOUNTS), min_size=1, max_size=3)
        ),
        st.tuples(st.just("settle"), st.integers(0, 9), AMOUNTS, st.booleans()),
        st.tuples(st.just("hit"), KEYS),
        st.tuples(st.just("release"), KEYS),
        st.tuples(
            st.just("wait"), st.floats(0, 5) | st.sampled_from([30.5, 61.0, 960.0, 30 * DAY])
        ),
    ),
    max_size=40,
)


class Pair:
    """Both stores, and a clock for them."""

    def __init__(self, shared):
        self.memory, self.shared, self.run = MemoryStore(), shared, next(RUNS)
        self.now, self.granted = T + 0.1, []

    def key(self, name):
        return b"\0\1%b %d" % (name, self.run)

    def charge(self, asked):
        charges = [
            Charge(self.key(name), amount, limit, seconds, leaks)
            for name, ((seconds, leaks), limit), amount in asked
        ]
        balances = self.memory.charge(charges, self.now)
        assert self.shared.charge(charges, self.now) == balances
        self.granted += [one for one in zip(charges, balances, strict=True) if one[1].is_granted]

    def settle(self, index, actual, is_unreserved):
        if self.granted:
            charge, balance = self.granted.pop(index % len(self.granted))
            settlement = Settlement(charge, balance.place, actual)
            for store in (self.memory, self.shared):
                store.settle([settlement.unreserved if is_unreserved else settlement], self.now)

    def hit(self, name):
        hits = [Hit(self.key(name), Window(5.0))]
        assert self.shared.hit(hits, self.now) == self.memory.hit(hits, self.now)

    def release(self, name):
        self.memory.release(self.key(name))
        self.shared.release(self.key(name))

    def wait(self, seconds):
        self.now += seconds


@settings(max_examples=examples(300))
@given(steps=STEPS)
@example(
    steps=[
        ("charge", [(b"a", ((7.0, True), 7), 1), (b"a", ((7.0, True), 0), 0)]),
        ("charge", [(b"a", ((7.0, True), 0), 1)]),
    ]
)
def test_memory_and_redis_agree_on_any_sequence(shared, steps):
    pair = Pair(shared)
    for name, *arguments in steps:
        getattr(pair, name)(*arguments)


@pytest.mark.parametrize(
    ("charge", "actual", "seconds"),
    [
        pytest.param(
            budget(9), None, RESERVATION_S + ACCOUNT_SLACK_S, id="as long as a reservation"
        ),
        pytest.param(budget(9, seconds=60), 9, 60 + ACCOUNT_SLACK_S, id="as long as the period"),
        pytest.param(
            budget(9, seconds=0), 9, 30 * DAY + ACCOUNT_SLACK_S, id="thirty days without one"
        ),
        pytest.param(
            budget(50, seconds=60), 50, 60 + 2 * ACCOUNT_SLACK_S, id="longer if half is used"
        ),
        pytest.param(
            budget(50), None, RESERVATION_S + 2 * ACCOUNT_SLACK_S, id="longer if half is reserved"
        ),
        pytest.param(budget(90, seconds=60), 9, 60 + ACCOUNT_SLACK_S, id="no longer if it was not"),
        pytest.param(bucket(10), None, 0.5, id="until a bucket has run out"),
        pytest.param(bucket(10, 1, 3_600.0), UNLIMITED, 30 * DAY, id="thirty days of a debt"),
        pytest.param(budget(9), 0, None, id="nothing is kept of what was given back"),
    ],
)
def test_an_account_is_kept_by_the_server(place, shared, charge, actual, seconds):
    place.empty()
    balance = take(shared, charge)
    if actual is not None:
        settle(shared, charge, balance, actual)
        used(shared, charge)
    left = place.client().pttl(record_key(charge.key))
    if seconds is None:
        assert left == -2
    else:
        assert 0 <= (seconds + KEY_SLACK_S) * 1000 - left < 5_000


@pytest.mark.parametrize(
    "charge",
    [budget(9), budget(9, seconds=0), bucket(9)],
    ids=["a budget", "one without a period", "a bucket"],
)
def test_an_account_of_a_clock_that_was_ahead_is_kept_no_longer(place, shared, charge):
    spend(shared, charge, now=T + 1e9)
    shared.hit([Hit(charge.key, Window(5.0))], T)
    longest = 30 * DAY + ACCOUNT_SLACK_S + KEY_SLACK_S
    assert 0 < place.client().pttl(record_key(charge.key)) <= longest * 1000
    place.empty()


class Alone(Pair):
    """The shared store with a clock that jumps: nobody can agree with that."""

    def __init__(self, shared, jumps):
        super().__init__(shared)
        self.memory, self.jumps = shared, cycle(jumps)

    def charge(self, asked):
        self.now += next(self.jumps)
        for name, ((seconds, leaks), limit), amount in asked:
            charge = Charge(self.key(name), amount, limit, seconds, leaks)
            self.granted.append((charge, take(self.shared, charge, self.now)))

    def hit(self, name):
        self.shared.hit([Hit(self.key(name), Window(5.0))], self.now)


JUMPS = st.lists(st.sampled_from([-1e9, -40.0, 0.0, 40.0, 1e9]), min_size=1, max_size=5)


@settings(max_examples=examples(20))
@given(steps=STEPS, jumps=JUMPS)
def test_no_account_is_immortal_whatever_the_clock_says(place, shared, steps, jumps):
    alone = Alone(shared, jumps)
    for name, *arguments in steps:
        getattr(alone, name)(*arguments)
    spend(shared, budget(1, seconds=60.0))
    client = place.client()
    lives = {key: client.pttl(key) for key in client.scan_iter("lt:*")}
    longest = (30 * DAY + 2 * ACCOUNT_SLACK_S + KEY_SLACK_S) * 1000
    assert {key: left for key, left in lives.items() if left == -1 or left > longest} == {}
    place.empty()
