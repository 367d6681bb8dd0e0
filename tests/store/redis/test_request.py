"""Asks that share a command: which do, and that each gets its own answer."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.store.driving import WINDOW, ask, eventually, hit
from tests.store.serving import KINDS, server

from looptrap.detect.window import Window, WindowKind
from looptrap.store.memory import MemoryStore
from looptrap.store.model import Hit, Trip
from looptrap.store.redis.request import MAX_OPERATIONS, RequestBatch, hit_request, trip_request


@pytest.fixture(autouse=True)
def _empty(valkey):
    yield
    valkey.client().flushall()


async def test_asks_of_one_turn_of_the_loop_share_a_command(valkey, connect):
    store = await connect(valkey.url)
    before = valkey.client().info("commandstats").get("cmdstat_evalsha", {"calls": 0})["calls"]
    answers = await asyncio.gather(*(hit(store, b"\0%c" % (n % 7)) for n in range(70)))
    assert sorted(answers) == sorted([(count, False) for count in range(1, 11)] * 7)
    after = valkey.client().info("commandstats")["cmdstat_evalsha"]["calls"]
    assert (after - before, store.batches, store.asked) == (1, 1, 70)


async def test_a_lone_ask_is_sent_in_the_same_turn(valkey, connect):
    store = await connect(valkey.url)
    store.ask([Hit(b"\0\0k", WINDOW)], None, retry=False, then=lambda *_: None)
    assert store.batches == 0
    await asyncio.sleep(0)
    assert store.batches == 1


async def test_a_command_has_a_bounded_number_of_operations(valkey, connect):
    store = await connect(valkey.url)
    answers = await asyncio.gather(*(hit(store, b"\0\0k") for _ in range(2 * MAX_OPERATIONS + 1)))
    assert [count for count, _ in answers] == list(range(1, 2 * MAX_OPERATIONS + 2))
    assert store.batches == 3


async def test_asks_of_different_times_keep_their_order_and_their_time(valkey, connect):
    store = await connect(valkey.url)
    times = [1000.0, 1000.0, 1059.0, 1061.0, 1061.0, None]
    answers = await asyncio.gather(*(hit(store, b"\0\0k", now) for now in times))
    assert [count for count, _ in answers] == [1, 2, 3, 2, 3, 1]


async def test_every_kind_of_ask_can_share_a_command(valkey, connect):
    store = await connect(valkey.url)
    k, m = b"\0\0k", b"\0\0m"
    marked = [Hit(k, Window(60, WindowKind.FIXED)), Hit(m, WINDOW, b"one")]
    first = ask(store, marked, 1000.0)
    second = ask(store, [Hit(m, WINDOW, b"two"), Hit(k, Window(60, WindowKind.FIXED))], 1000.0)
    answers = await asyncio.gather(first, second)
    assert [[(count.hits, count.marks) for count in counts] for counts, _ in answers] == [
        [(1, ()), (0, ())],
        [(0, (b"one",)), (2, ())],
    ]
    answered = []
    store.trip([Trip(k, 30, 2)], 1000.0)
    for hits in (marked[:1], []):
        store.ask(hits, 1000.0, retry=True, then=lambda counts, *_: answered.append(counts))
    await eventually(lambda: len(answered) == 2)
    [count], none = answered
    assert (count.hits, count.cooldown_left, none) == (3, 30, [])
    assert store.batches == 2


@pytest.mark.parametrize("kind", KINDS)
async def test_the_servers_clock_counts_where_no_time_is_given(kind, connect):
    with server(kind) as one:
        stores = [await connect(one.url, clock=lambda: 0.0) for _ in range(2)]
        assert [await hit(store, b"\0\0k") for store in stores] == [(1, False), (2, False)]
        seconds, microseconds = one.client().time()
        now = seconds + microseconds / 1e6
        assert await hit(stores[0], b"\0\0k", now + 59) == (3, False)
        assert await hit(stores[0], b"\0\0k", now + 61) == (2, False)


HIT = st.builds(Hit, st.binary(min_size=2, max_size=4), st.just(WINDOW))
ASKS = st.lists(st.lists(HIT, max_size=4), min_size=1, max_size=8)


@given(asks=ASKS)
def test_each_ask_gets_its_own_replies(asks):
    batch, answers = RequestBatch(None), []
    for hits in asks:
        batch.add(
            hit_request(
                hits, False, lambda counts, *_: answers.append([one.hits for one in counts])
            )
        )
    batch.answer(list(range(len(batch.keys))))
    assert [len(one) for one in answers] == [len(hits) for hits in asks]
    assert [count for one in answers for count in one] == list(range(len(batch.keys)))


@given(asks=ASKS, order=st.randoms(use_true_random=False))
def test_parts_answered_in_any_order_answer_the_whole(asks, order):
    whole, answers = RequestBatch(None), []
    for hits in asks:
        whole.add(
            hit_request(
                hits, False, lambda counts, *_: answers.append([one.hits for one in counts])
            )
        )
    parts = list(enumerate(whole.parts()))
    order.shuffle(parts)
    for number, part in parts:
        assert answers == []
        part.answer([number])
    if parts:
        assert [count for one in answers for count in one] == sorted(n for n, _ in parts)


def test_a_part_that_fails_makes_the_whole_local():
    whole, answers = RequestBatch(1000.0), []
    whole.add(
        hit_request([Hit(b"a", WINDOW), Hit(b"b", WINDOW)], False, lambda *one: answers.append(one))
    )
    whole.add(trip_request([Trip(b"a", 30, 6)]))
    memory = MemoryStore()
    first, second, third = whole.parts()
    first.answer([5])
    second.answer_locally(memory, lambda: 0.0)
    third.answer([0])
    [(counts, *_, is_local)] = answers
    assert ([count.hits for count in counts], is_local) == ([1, 1], True)
    assert memory.hit([Hit(b"a", WINDOW)], 1001.0)[0].cooldown_left == 29


async def test_two_instances_see_every_count_once(valkey, connect):
    stores = [await connect(valkey.url) for _ in range(2)]
    found = [await asyncio.gather(*(hit(s, b"\0\0k") for s in stores * 5)) for _ in range(20)]
    counts = sorted(count for one in found for count, _ in one)
    assert counts == list(range(1, 201))
