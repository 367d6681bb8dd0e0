"""What instances tell each other of incidents, through a real Valkey."""

import asyncio

import pytest
from tests.gateway.serving import until

from looptrap.incident.model import AlertEvent, Incident
from looptrap.incident.sharing import STREAM_KEY, IncidentSharing, drain
from looptrap.store.redis import RedisStore

EVENT = AlertEvent(id="evt_1", name="loop.detected", time=0.0)


def part(instance="a.1", **more):
    return Incident(
        id="inc_1", instance=instance, key="k", opened=0, last=0, action="block", **more
    )


@pytest.fixture
async def stores(valkey):
    made = [RedisStore(valkey.url) for _ in range(2)]
    for store in made:
        await store.start()
    yield made
    for store in made:
        await store.stop()


@pytest.fixture
async def sharings(stores):
    made = [
        IncidentSharing(store, name, quiet=300) for store, name in zip(stores, "ab", strict=True)
    ]
    for one in made:
        one.start()
    yield made
    for one in made:
        await one.stop()


async def found(answers):
    """Wait until there are answers; return them."""
    await until(lambda: answers)
    return drain(answers)


async def test_the_first_id_of_an_incident_is_everybodys(sharings):
    one, other = sharings
    one.ask([("k", "inc_a")])
    assert await found(one.agreed_ids) == [("k", "inc_a")]
    other.ask([("k", "inc_b")])
    assert await found(other.agreed_ids) == [("k", "inc_a")]


async def test_an_event_is_told_by_one(sharings):
    for one in sharings:
        one.claim([EVENT])
    told = [(await found(one.claims))[0][1] for one in sharings]
    assert sorted(told) == [False, True]


async def test_who_told_may_tell_again_what_was_lost_with_it(sharings, stores):
    one, _ = sharings
    one.claim([EVENT])
    assert await found(one.claims) == [(EVENT, True)]
    anew = IncidentSharing(stores[0], "a", quiet=300)
    anew.start()
    anew.claim([EVENT])
    assert await found(anew.claims) == [(EVENT, True)]
    await anew.stop()


async def test_what_one_saw_the_others_learn_in_order(sharings):
    one, other = sharings
    one.publish([part(calls=1), part(calls=2)])
    assert [each.calls for each in await found(other.incidents)] in ([1, 2], [1])
    assert other.is_of_this_history(part("b.1"))
    assert not other.is_of_this_history(part("a.1"))


async def test_everything_in_the_store_has_an_end(sharings, stores):
    one, _ = sharings
    one.ask([("k", "inc_a")])
    one.claim([EVENT])
    one.publish([part()])
    await found(one.claims)
    await found(one.incidents)
    command = stores[0].configuration.command
    for key in (b"lt:inc:open:k", b"lt:inc:told:evt_1", STREAM_KEY):
        assert await command(b"TTL", key) > 0


async def test_what_cannot_be_read_is_counted_and_passed_over(sharings, stores):
    one, _ = sharings
    command = stores[0].configuration.command
    for text in (b"no JSON", b'{"id": 5}', b"\xff"):
        await command(b"XADD", STREAM_KEY, b"*", b"value", text)
    await command(b"XADD", STREAM_KEY, b"*", b"value", b"")
    one.publish([part()])
    assert [each.id for each in await found(one.incidents)] == ["inc_1"]
    assert one.ignored == 4


async def test_while_the_store_is_away_each_goes_on_alone(sharings, valkey):
    valkey.kill()
    for one in sharings:
        one.ask([("k", "mine")])
        one.claim([EVENT])
        one.publish([part()])
    for one in sharings:
        assert await asyncio.wait_for(found(one.agreed_ids), 10) == [("k", "mine")]
        assert await asyncio.wait_for(found(one.claims), 10) == [(EVENT, True)]
