"""Notes that instances share: written and recalled with everything else, by somebody."""

import asyncio

import pytest
from tests.store.charging import budget
from tests.store.driving import WINDOW, eventually, recall
from tests.store.redis.test_cluster import keys_of
from tests.store.serving import cluster, server

from looptrap.store.model import Hit, Note

KEY, OTHER = b"\0\0key", b"\0\0other"


@pytest.fixture
def one():
    """Return a server that a test may do anything to."""
    with server() as started:
        yield started


def ask(store, hits, charges, recalls):
    """Ask for everything at once; return a list that gets the answer."""
    answers = []
    store.ask(
        hits,
        None,
        retry=False,
        then=lambda *answer: answers.append(answer),
        charges=charges,
        recalls=recalls,
    )
    return answers


async def test_hits_charges_and_notes_of_one_call_are_one_command(one, connect):
    store = await connect(one.url)
    store.remember([Note(KEY, b"ab", 9), Note(OTHER, b"x"), Note(KEY, b"c", 9)], None)
    hits, charges = [Hit(b"\0\0a", WINDOW)] * 2, [budget(1), budget(200)]
    answers = ask(store, hits, charges, [OTHER, b"\0\0unknown", KEY])
    await eventually(lambda: answers)
    [(counts, balances, recalled, is_local)] = answers
    assert [count.hits for count in counts] == [1, 2]
    assert [balance.is_granted for balance in balances] == [True, False]
    assert ([*recalled], is_local) == ([b"x", b"", b"abc"], False)
    assert store.batches == 1


async def test_a_call_without_keys_to_recall_gets_no_notes(one, connect):
    store = await connect(one.url)
    answers = ask(store, [Hit(KEY, WINDOW)], [budget(1)], ())
    await eventually(lambda: answers)
    assert [len(some) for some in answers[0][:3]] == [1, 1, 0]


async def test_instances_append_to_one_note_and_lose_nothing(one, connect):
    stores = [await connect(one.url) for _ in range(3)]
    for number in range(300):
        stores[number % 3].remember([Note(KEY, number.to_bytes(2, "big"), 600)], None)
        if number % 7 == 0:
            await asyncio.sleep(0)
    for store in stores:
        await recall(store, KEY)  # so what it sent before has been carried out
    [value], is_local = await recall(stores[0], KEY)
    numbers = [int.from_bytes(value[at : at + 2], "big") for at in range(0, 600, 2)]
    assert (sorted(numbers), is_local) == ([*range(300)], False)


async def test_the_notes_of_one_call_are_in_one_slot_of_a_cluster(connect):
    with cluster() as three:
        store = await connect(three.url)
        for number, server_of_run in enumerate(three.servers, start=1):
            hit, steps, state = keys_of(server_of_run, three, 3)
            store.remember([Note(steps, b"ab", 3), Note(steps, b"cd", 3), Note(state, b"x")], None)
            answers = ask(store, [Hit(hit, WINDOW)], (), [state, steps])
            await eventually(lambda answers=answers: answers)
            [([count], _, recalled, is_local)] = answers
            assert (count.hits, [*recalled], is_local) == (1, [b"x", b"bcd"], False)
            assert store.batches == number


async def test_notes_in_several_slots_of_a_cluster_are_recalled_in_order(connect):
    with cluster() as three:
        store = await connect(three.url)
        a, b, c = (keys_of(one, three, 1)[0] for one in three.servers)
        store.remember([Note(a, b"a"), Note(b, b"b"), Note(c, b"c", 9)], None)
        assert await recall(store, c, a, b) == ([b"c", b"a", b"b"], False)


# Away and back


async def test_while_a_server_is_away_notes_are_kept_in_this_process(one, connect):
    store = await connect(one.url, timeout=0.05, probe_every=0.02)
    store.remember([Note(KEY, b"there")], None)
    assert await recall(store, KEY) == ([b"there"], False)
    one.kill()
    assert await recall(store, KEY) == ([b""], True)
    store.remember([Note(KEY, b"he", 9), Note(KEY, b"re", 9), Note(OTHER, b"x")], None)
    answers = ask(store, [Hit(KEY, WINDOW)], [budget(1)], [OTHER, KEY])
    [([count], [balance], recalled, is_local)] = answers  # at once
    assert (count.hits, balance.is_granted, is_local) == (1, True, True)
    assert recalled == [b"x", b"here"]
    assert await store.release(KEY)
    assert await recall(store, KEY) == ([b""], True)
    one.start()
    await eventually(lambda: not store.is_degraded)
    assert await recall(store, KEY, OTHER) == ([b"", b""], False)


async def test_notes_that_a_dying_server_did_not_take_are_kept_in_this_process(one, connect):
    store = await connect(one.url, timeout=0.05, probe_every=60)
    one.kill()
    store.remember([Note(KEY, b"kept", 9)], None)
    assert await recall(store, KEY) == ([b"kept"], True)
    assert store.errors >= 1


async def test_a_store_that_was_never_there_keeps_notes(connect):
    store = await connect("unix:///nonexistent/looptrap.sock")
    store.remember([Note(KEY, b"a", 9), Note(KEY, b"b", 9)], None)
    assert await recall(store, KEY, OTHER) == ([b"ab", b""], True)
