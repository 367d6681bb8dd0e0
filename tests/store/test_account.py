"""Laws that accounts keep whatever happens to them, and the bounds of those in memory."""

from itertools import count

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.examples import examples
from tests.store.charging import (
    DAY,
    T,
    bucket,
    budget,
    places,
    settle,
    spend,
    stores,
    take,
    used,
)

from looptrap.bounded import MAX_EXPIRED_AT_ONCE
from looptrap.store.account import Accounts
from looptrap.store.memory import MemoryStore
from looptrap.store.model import RESERVATION_BUCKET_S, RESERVATION_S, Charge, Settlement

RUNS = count()
"""Every run has accounts of its own: a server keeps those of the runs before."""

LIMIT = 100
HOUR = 3_600


@pytest.fixture(scope="module", params=["memory", "valkey"])
def place(request):
    yield from places(request.param)


@pytest.fixture(scope="module")
def store(place):
    yield from stores(place)


AMOUNTS = st.integers(0, LIMIT + 1)
WAITS = st.sampled_from([0.0, 0.5, 30.0, 60.0, 400.0, 900.0, 1_800.0])
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("charge"), AMOUNTS),
        st.tuples(st.just("settle"), st.integers(0, 9), st.floats(0, 1)),
        st.tuples(st.just("wait"), WAITS),
    ),
    max_size=30,
)


class Books:
    """One account, kept by a store and beside it the long way: every entry on a line of its own."""

    def __init__(self, store, seconds, *, leaks=False):
        self.store, self.seconds, self.now = store, seconds, T
        self.key = b"\0\0%d" % next(RUNS)
        self.account = Charge(self.key, 0, LIMIT, seconds, leaks)
        self.reserved = []  # charges and balances that are still to be settled
        self.spent = []  # when, and what
        self.is_late = False

    def charge(self, amount):
        charge = Charge(self.key, amount, LIMIT, self.seconds, self.account.leaks)
        balance = take(self.store, charge, self.now)
        if balance.is_granted:
            self.reserved.append((charge, balance))
        return balance

    def settle(self, index, share):
        if not self.reserved:
            return
        charge, balance = self.reserved.pop(index % len(self.reserved))
        self.is_late |= balance.place <= self.now
        self.spent.append((self.now, int(share * charge.amount)))
        settlement = Settlement(charge, balance.place, self.spent[-1][1])
        self.store.settle([settlement], self.now)

    def wait(self, seconds):
        self.now += seconds

    @property
    def used(self):
        start = self.now - (self.now - T) % self.seconds if self.seconds else 0
        held = sum(charge.amount for charge, one in self.reserved if one.place > self.now)
        return held + sum(actual for when, actual in self.spent if when >= start)


@settings(max_examples=examples(150))
@given(steps=STEPS, seconds=st.sampled_from([0, 300, HOUR]))
def test_no_cent_is_lost_and_none_is_granted_twice(store, steps, seconds):
    books = Books(store, seconds)
    for name, *arguments in steps:
        before = books.used
        answer = getattr(books, name)(*arguments)
        if name == "charge":
            [amount] = arguments
            assert answer.is_granted == (before + amount <= LIMIT)
            assert answer.used == books.used
        if not books.is_late:
            assert books.used <= LIMIT  # spent and reserved, as no call used more than estimated
    assert used(store, books.account, books.now) == books.used


@settings(max_examples=examples(75))
@given(steps=STEPS, seconds=st.sampled_from([0, 300, HOUR]))
def test_when_all_is_settled_or_given_up_only_what_was_used_is_gone(store, steps, seconds):
    books = Books(store, seconds)
    for name, *arguments in steps:
        getattr(books, name)(*arguments)
    while books.reserved[1:]:
        books.settle(0, 0.5)
    books.wait(RESERVATION_S + RESERVATION_BUCKET_S)  # whoever held the last of them has crashed
    books.reserved.clear()
    assert used(store, books.account, books.now) == books.used


@settings(max_examples=examples(100))
@given(
    steps=st.lists(
        st.tuples(st.integers(1, LIMIT), st.sampled_from([0.0, 0.001, 0.5, 7.0])), max_size=30
    )
)
def test_no_stretch_of_time_gets_more_than_a_burst_and_its_rate(store, steps):
    books, granted = Books(store, 10.0, leaks=True), []
    for amount, wait in steps:
        books.wait(wait)
        if books.charge(amount).is_granted:
            granted.append((books.now, amount))
    for first, (start, _) in enumerate(granted):
        taken = 0
        for end, amount in granted[first:]:
            taken += amount
            assert taken <= LIMIT + (end - start) * LIMIT / 10.0 + 1e-3


@settings(max_examples=examples(100))
@given(steps=STEPS)
def test_a_bucket_never_gives_more_in_all_than_has_run_into_it(store, steps):
    books = Books(store, 10.0, leaks=True)
    for name, *arguments in steps:
        getattr(books, name)(*arguments)
        kept = sum(charge.amount for charge, _ in books.reserved)
        net = kept + sum(actual for _, actual in books.spent)
        assert net <= LIMIT + (books.now - T) * LIMIT / 10.0 + 1e-3


# Bounds


def key(number: int) -> bytes:
    return number.to_bytes(16, "big")


@pytest.mark.parametrize(
    ("charge", "passed"),
    [
        pytest.param(budget(5), DAY, id="a budget whose period is over"),
        pytest.param(budget(5, seconds=83 * DAY), DAY, id="one of which a day was left"),
        pytest.param(budget(5, seconds=0), 30 * DAY, id="one without a period"),
        pytest.param(bucket(5), 2.0, id="a bucket that has run out"),
    ],
)
def test_accounts_that_say_nothing_more_leave_in_small_batches(charge, passed):
    store = MemoryStore()
    amount, limit, rest = charge.amount, charge.limit, (charge.seconds, charge.leaks)
    for number in range(1_000):
        spend(store, Charge(key(number), amount, limit, *rest))
    later = T + passed
    for number in range(20):
        take(store, Charge(key(10_000 + number), amount, limit, *rest), later)
        assert len(store.accounts) >= 1_000 - MAX_EXPIRED_AT_ONCE * (number + 1)
    assert (len(store.accounts), store.accounts.evicted) == (20, 0)


@pytest.mark.parametrize("kind", [budget, bucket], ids=["budgets", "buckets"])
def test_the_longest_untouched_account_goes_first_when_there_are_too_many(kind):
    accounts = Accounts(3)
    charges = [kind(1, 40, DAY, key(number)) for number in range(4)]
    for number, charge in enumerate(charges[:3]):
        accounts.charge([charge], T + number)
    accounts.charge([charges[0]], T + 3)
    accounts.charge([charges[3]], T + 4)
    assert (len(accounts), accounts.evicted) == (3, 1)
    assert [accounts.charge([charges[number]], T + 5)[0].used for number in (0, 2, 1)] == [3, 2, 1]


@pytest.mark.parametrize(
    ("few", "many"),
    [
        pytest.param(budget, bucket, id="rates of many callers, and a budget"),
        pytest.param(bucket, budget, id="budgets of many callers, and a rate"),
    ],
)
def test_budgets_and_rates_take_no_room_from_one_another(few, many):
    accounts = Accounts(10)
    accounts.charge([few(7, 40, DAY, key(0))], T)
    for number in range(1, 1_000):
        accounts.charge([many(1, 40, DAY, key(number))], T + 1)
    assert accounts.charge([few(0, 40, DAY, key(0))], T + 1)[0].used == 7


@pytest.mark.parametrize(
    "amount",
    [pytest.param(1, id="that use little"), pytest.param(100, id="that use all they may at once")],
)
@pytest.mark.parametrize("used", [50, 100], ids=["half used", "used up"])
@pytest.mark.parametrize("seconds", [DAY, 0.0], ids=["a day", "without a period"])
def test_no_number_of_made_up_accounts_has_a_used_up_one_forgotten(used, amount, seconds):
    """As decisions are: what was reserved counts as used."""
    store = MemoryStore(max_fingerprints=20)
    spend(store, budget(used, seconds=seconds, key=key(0)))
    for number in range(1, 2_000):
        spend(store, budget(amount, seconds=seconds, key=key(number)), now=T + number / 100)
    assert take(store, budget(0, seconds=seconds, key=key(0)), T + 20).used == used
    assert len(store.accounts) == 20


def test_used_up_accounts_leave_half_of_the_room_to_others():
    accounts = Accounts(20)
    for number in range(100):
        accounts.charge([budget(100, key=key(number))], T)
    live = [budget(1, key=key(1_000 + number)) for number in range(10)]
    for _ in range(3):
        accounts.charge(live, T + 1)
    assert {balance.used for balance in accounts.charge(live, T + 2)} == {4}


def test_a_used_up_account_is_forgotten_when_its_period_ends():
    accounts = Accounts(20)
    accounts.charge([budget(100, key=key(number)) for number in range(10)], T)
    accounts.charge([budget(1, key=key(99))], T + DAY)
    assert len(accounts) == 1


def test_an_account_that_is_no_longer_used_up_has_no_privilege():
    store = MemoryStore(max_fingerprints=4)
    asked = budget(100, key=key(0))
    settle(store, asked, take(store, asked), 10)
    for number in range(1, 10):
        spend(store, budget(1, key=key(number)), now=T + number)
    assert take(store, budget(0, key=key(0)), T + 20).used == 0


@given(
    st.lists(st.tuples(st.integers(1, 9), st.integers(0, 120), st.integers(0, 120)), max_size=60),
    st.integers(2, 6),
)
def test_what_is_used_up_stays_so_whatever_others_do(steps, most):
    store = MemoryStore(max_fingerprints=most)
    spend(store, budget(100, key=key(0)))
    for number, amount, actual in steps:
        charge = budget(amount, key=key(number))
        balance = take(store, charge)
        if balance.is_granted:
            settle(store, charge, balance, actual)
        assert not take(store, budget(1, key=key(0))).is_granted
        assert len(store.accounts) <= most


def test_many_distinct_accounts_stay_within_the_bound():
    accounts = Accounts(1_000)
    for number in range(200_000):
        accounts.charge([budget(1, key=key(number))], T + number / 1_000)
    assert (len(accounts), accounts.evicted) == (1_000, 199_000)


def test_accounts_take_no_room_from_fingerprints():
    store = MemoryStore(max_fingerprints=2)
    store.charge([budget(1, key=key(number)) for number in range(5)], T)
    assert (len(store), store.evicted, len(store.accounts), store.accounts.evicted) == (0, 0, 2, 3)
