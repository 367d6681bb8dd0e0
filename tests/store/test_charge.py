"""What every store promises about accounts. Time is an argument: nothing here sleeps."""

from datetime import datetime

import pytest
from tests.store.charging import (
    DAY,
    HOUR,
    MINUTE,
    WEEK,
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
from tests.store.serving import KINDS

from looptrap.detect.window import Window
from looptrap.store.model import (
    RESERVATION_BUCKET_S,
    RESERVATION_S,
    UNLIMITED,
    Balance,
    Hit,
    Trip,
)

NEVER = 0.0


@pytest.fixture(scope="module", params=["memory", *KINDS, "cluster"])
def place(request):
    yield from places(request.param)


@pytest.fixture
def store(place):
    yield from stores(place)


@pytest.mark.parametrize(
    ("amounts", "granted"),
    [
        pytest.param([100], [True], id="all at once"),
        pytest.param([101], [False], id="more than there is"),
        pytest.param([60, 40, 1], [True, True, False], id="to the last cent and no further"),
        pytest.param([60, 41, 40], [True, False, True], id="a refusal takes nothing"),
        pytest.param([100, 0], [True, True], id="nothing can always be had"),
    ],
)
@pytest.mark.parametrize("charge", [budget, bucket], ids=["a budget", "a bucket"])
def test_what_is_granted_never_passes_the_limit(store, charge, amounts, granted):
    assert [take(store, charge(one, 100)).is_granted for one in amounts] == granted
    taken = sum(one for one, is_so in zip(amounts, granted, strict=True) if is_so)
    assert used(store, charge(0, 100)) == taken


def test_charges_of_one_call_are_decided_each_by_itself_and_answered_in_order(store):
    charges = [budget(7, key=b"\0\0a"), budget(101, key=b"\1\1b"), bucket(7, key=b"\2\2c")]
    balances = store.charge([*charges, charges[0]], T)
    assert [(one.is_granted, one.used) for one in balances] == [
        (True, 7),
        (False, 0),
        (True, 7),
        (True, 14),
    ]


def test_accounts_of_other_periods_and_buckets_are_others_under_the_same_key(store):
    charges = [
        budget(1, seconds=HOUR),
        budget(2, seconds=DAY),
        budget(3, seconds=NEVER),
        bucket(4, key=b"\0\0b"),
    ]
    store.charge(charges, T)
    assert [one.used for one in store.charge(charges, T)] == [2, 4, 6, 8]


# Reserved, settled, given back


@pytest.mark.parametrize(
    ("actual", "then_used"),
    [
        pytest.param(60, 60, id="as estimated"),
        pytest.param(25, 25, id="less: the rest is there again"),
        pytest.param(0, 0, id="refused or failed: all of it is there again"),
        pytest.param(130, 130, id="more, even than the limit"),
    ],
)
@pytest.mark.parametrize("charge", [budget, bucket], ids=["a budget", "a bucket"])
def test_what_was_used_takes_the_place_of_what_was_reserved(store, charge, actual, then_used):
    reserved = charge(60, 100)
    balance = take(store, reserved)
    settle(store, reserved, balance, actual)
    assert used(store, reserved) == then_used
    assert take(store, charge(1, 100)).is_granted == (then_used < 100)


def test_a_settlement_leaves_the_reservations_of_others_alone(store):
    first, second = budget(30), budget(50)
    balances = store.charge([first, second], T)
    assert balances[0].place == balances[1].place  # these are kept as one number
    settle(store, first, balances[0], 10)
    assert used(store, first) == 60
    settle(store, second, balances[1], 20)
    assert used(store, first) == 30


@pytest.mark.parametrize("passed", [0.0, 0.5, 29.0, 59.75])
def test_a_reservation_that_nobody_settles_ends_by_itself(store, passed):
    now = T + passed
    take(store, budget(100), now)
    assert used(store, budget(100), now + RESERVATION_S - 0.25) == 100
    assert used(store, budget(100), now + RESERVATION_S + RESERVATION_BUCKET_S) == 0


def test_what_is_settled_late_is_spent_and_takes_nothing_from_others(store):
    late, later = budget(100), T + RESERVATION_S + RESERVATION_BUCKET_S
    balance = take(store, late)
    take(store, budget(80), later)
    settle(store, late, balance, 90, later)
    assert used(store, late, later) == 170


def test_only_what_is_reserved_has_a_place(store):
    assert take(store, budget(1)).place == T + RESERVATION_S
    assert [take(store, one).place for one in (budget(0), budget(200), bucket(1))] == [0, 0, 0]


# Periods


@pytest.mark.parametrize(
    ("seconds", "now", "end"),
    [
        pytest.param(300, "2026-11-16T12:34:56", "2026-11-16T12:35:00", id="five minutes"),
        pytest.param(HOUR, "2026-11-16T12:34:56", "2026-11-16T13:00:00", id="an hour"),
        pytest.param(DAY, "2026-11-16T12:34:56", "2026-11-17T00:00:00", id="a day"),
        pytest.param(WEEK, "2026-11-15T23:59:59", "2026-11-16T00:00:00", id="a week's Sunday"),
        pytest.param(WEEK, "2026-11-16T00:00:00", "2026-11-23T00:00:00", id="a week's Monday"),
    ],
)
def test_a_period_ends_when_a_clock_on_the_wall_would_say_so(store, seconds, now, end):
    now, end = (datetime.fromisoformat(f"{one}+00:00").timestamp() for one in (now, end))
    assert spend(store, budget(100, seconds=seconds), now=now).left == end - now
    assert not take(store, budget(1, seconds=seconds), end - 0.5).is_granted
    assert take(store, budget(1, seconds=seconds), end).is_granted


def test_a_new_period_keeps_what_is_reserved_for_calls_that_still_run(store):
    running, end = budget(30), T + DAY
    balance = take(store, running, end - 1)
    spend(store, budget(70), now=end - 1)
    assert used(store, running, end - 1) == 100
    assert used(store, running, end) == 30
    settle(store, running, balance, 20, end)
    assert used(store, running, end) == 20


def test_a_clock_that_is_a_little_slow_does_not_begin_the_last_period_anew(store):
    end = T + DAY
    spend(store, budget(60), now=end + 0.25)
    balance = take(store, budget(1), end - 0.25)
    assert (balance.used, balance.left) == (61, DAY + 0.25)
    assert used(store, budget(1), end + 0.5) == 61


def test_a_clock_that_was_years_ahead_blocks_nobody_for_years(store):
    ahead = T + 1e8
    spend(store, budget(50), now=ahead)
    take(store, budget(50), ahead)
    take(store, bucket(40), ahead)
    assert used(store, budget(1)) == 0
    assert used(store, bucket(1)) == 40  # of a bucket only a fall of its level counts …
    assert used(store, bucket(1), T + 3) == 20  # … and that goes on when its seconds are over


def test_without_a_period_what_is_spent_stays_until_nobody_asks_for_thirty_days(store):
    total = budget(60, seconds=NEVER)
    assert spend(store, total).left == 0
    assert used(store, total, T + 29 * DAY) == 60
    assert not take(store, total, T + 58 * DAY).is_granted
    assert used(store, total, T + 88 * DAY) == 0


# Limits that change from call to call


def test_a_lower_limit_binds_the_call_that_brings_it_and_no_other(store):
    spend(store, budget(50))
    assert not take(store, budget(10, limit=40)).is_granted
    assert take(store, budget(10)).is_granted
    assert take(store, bucket(10)).is_granted
    assert take(store, bucket(1, limit=5)) == Balance(False, 10, 6 * 2.0 / 5)
    assert take(store, bucket(30)).is_granted


@pytest.mark.parametrize("charge", [budget, bucket], ids=["a budget", "a bucket"])
def test_a_limit_of_nothing_grants_nothing(store, charge):
    assert not take(store, charge(1, 0)).is_granted
    assert take(store, charge(1, 0)).left > 0
    assert take(store, charge(0, 0)).is_granted
    spend(store, charge(1, 1))
    for amount in (0, 1):
        balance = take(store, charge(amount, 0))
        assert (balance.is_granted, balance.used, balance.left > 0) == (False, 1, True)


@pytest.mark.parametrize("charge", [budget, bucket], ids=["a budget", "a bucket"])
def test_the_largest_amounts_are_counted_exactly(store, charge):
    limit = UNLIMITED - 1
    assert take(store, charge(limit - 2, limit)).used == limit - 2
    assert take(store, charge(2, limit)).used == limit
    assert not take(store, charge(1, limit)).is_granted
    settle(store, charge(0, limit), Balance(True, 0, 0), UNLIMITED)
    assert used(store, charge(0, limit)) == UNLIMITED
    assert not take(store, charge(1, UNLIMITED)).is_granted


# Buckets


def test_a_bucket_gives_its_burst_at_once_and_then_its_rate(store):
    assert [take(store, bucket(1)).is_granted for _ in range(41)] == [True] * 40 + [False]
    for half in range(1, 9):
        granted = [take(store, bucket(1), T + half / 2).is_granted for _ in range(12)]
        assert granted == [True] * 10 + [False] * 2


@pytest.mark.parametrize(
    ("level", "amount", "left"),
    [
        pytest.param(40, 10, 0.5, id="full: until so much has run out"),
        pytest.param(32, 10, 0.1, id="nearly full"),
        pytest.param(30, 10, 0.0, id="granted"),
        pytest.param(30, 41, 1.5, id="never room: until nothing is used"),
        pytest.param(0, 41, 0.0, id="never room, and nothing is used"),
        pytest.param(140, 10, 5.5, id="a debt is waited for"),
        pytest.param(140, 41, 2.0, id="never room: a full bucket's time at most"),
    ],
)
def test_a_bucket_says_when_there_is_room(store, level, amount, left):
    spend(store, bucket(min(level, 40)), level)
    balance = take(store, bucket(amount))
    assert (balance.is_granted, balance.left) == (amount + level <= 40, pytest.approx(left))


def test_a_debt_runs_out_like_everything_else(store):
    spend(store, bucket(10), 60)
    assert [used(store, bucket(0), T + seconds) for seconds in (0, 1, 2, 3, 4)] == [
        60,
        40,
        20,
        0,
        0,
    ]


def test_a_debt_is_forgiven_when_nobody_asks_for_thirty_days(store):
    heavy = bucket(1, 1, HOUR)
    spend(store, heavy, 1_000)
    assert used(store, heavy, T + 29 * DAY) == 1_000 - 29 * 24
    assert used(store, heavy, T + 59 * DAY) == 0


def test_what_is_given_back_late_does_not_make_room_in_advance(store):
    early = bucket(40)
    balance = take(store, early)
    take(store, bucket(5), T + 2)
    settle(store, early, balance, 0, T + 2)
    assert used(store, early, T + 2) == 0
    granted = [take(store, bucket(one), T + 2).is_granted for one in (40, 1)]
    assert granted == [True, False]


# Released, and beside hits


@pytest.mark.parametrize("charge", [budget, bucket], ids=["a budget", "a bucket"])
def test_a_release_forgets_an_account(store, charge):
    spend(store, charge(40))
    assert store.release(charge(0).key)
    assert used(store, charge(0)) == 0
    assert not store.release(charge(0).key)


def test_a_settlement_of_before_a_release_frees_no_more_than_there_is(store):
    before, after = budget(60), budget(10)
    balance = take(store, before)
    store.release(before.key)
    take(store, after)
    settle(store, before, balance, 5)
    assert used(store, after) == 5
    assert take(store, budget(95)).is_granted


def test_an_account_of_which_all_was_given_back_is_forgotten(store):
    charges = [budget(40), budget(40, seconds=NEVER), bucket(40, key=b"\0\0b")]
    for charge in charges:
        spend(store, charge, 0)
    assert not store.release(b"\0\0b")


@pytest.mark.parametrize("hits", [1, 100], ids=["few hits", "many hits"])
def test_hits_cooldowns_and_accounts_under_one_key_leave_each_other_alone(store, hits):
    key, window = b"\0\0b", Window(60)
    store.hit([Hit(key, window)] * hits, T)
    spend(store, budget(60))
    take(store, bucket(30, key=key))
    assert store.hit([Hit(key, window)], T)[0].hits == hits + 1
    store.trip([Trip(key, 30, 7)], T)
    assert used(store, budget(0)) == 60
    assert used(store, bucket(0, key=key)) == 30
    assert store.hit([Hit(key, window)], T + 1)[0].hits == 8
    assert used(store, budget(0), T + MINUTE) == 60
