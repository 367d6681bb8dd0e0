"""Every ledger: the same key brings the first result again, and nobody waits for ever."""

import asyncio
import logging

import pytest
from tests.store.serving import server

from looptrap.errors import IdempotencyError
from looptrap.retry.idempotency import (
    CallInProgress,
    CallLease,
    CallResult,
    MemoryLedger,
    StoreLedger,
)
from looptrap.store.redis import RedisStore

ARGUMENTS = b'send ["ada@example.com","the secret is 42"]'


class InMemory:
    """A ledger in the process; time is moved by hand."""

    def __init__(self):
        self.now = 0.0
        self._ledger = MemoryLedger(lease=60, keep=3600, clock=lambda: self.now)

    async def begin(self, key, content):
        return self._ledger.begin(key, content)

    async def finish(self, begun, result):
        self._ledger.finish(begun, result)

    async def abandon(self, begun):
        self._ledger.abandon(begun)

    def pass_time(self, seconds):
        self.now += seconds


class InStore:
    """A ledger in a real Valkey; time passes by shortening what is left there."""

    def __init__(self, valkey, store, **options):
        self._client = valkey.client()
        self._ledger = StoreLedger(store, lease=60, keep=3600, **options)
        self.begin = self._ledger.begin
        self.finish = self._ledger.finish
        self.abandon = self._ledger.abandon

    def pass_time(self, seconds):
        for key in self._client.keys("lt:idem:*"):
            self._client.pexpire(key, max(0, self._client.pttl(key) - int(seconds * 1000)))

    def close(self):
        self._client.close()


@pytest.fixture(scope="module")
def valkey():
    with server() as one:
        yield one


@pytest.fixture
async def store(valkey):
    store = RedisStore(valkey.url, timeout=5)
    await store.start()
    yield store
    await store.stop()
    valkey.empty()


@pytest.fixture(params=["memory", "store"])
async def ledger(request, valkey):
    if request.param == "memory":
        yield InMemory()
        return
    store = RedisStore(valkey.url, timeout=5)
    await store.start()
    one = InStore(valkey, store)
    yield one
    one.close()
    await store.stop()
    valkey.empty()


async def test_the_first_one_makes_the_call(ledger):
    assert isinstance(await ledger.begin("t:1:a", ARGUMENTS), CallLease)


async def test_the_same_key_brings_the_first_result_again(ledger):
    await ledger.finish(await ledger.begin("t:1:a", ARGUMENTS), {"id": 7})
    assert await ledger.begin("t:1:a", ARGUMENTS) == CallResult({"id": 7})


async def test_another_key_is_another_call(ledger):
    await ledger.finish(await ledger.begin("t:1:a", ARGUMENTS), 1)
    assert isinstance(await ledger.begin("t:1:b", ARGUMENTS), CallLease)


async def test_while_it_is_made_others_are_told_how_long(ledger):
    await ledger.begin("t:1:a", ARGUMENTS)
    standing = await ledger.begin("t:1:a", ARGUMENTS)
    assert isinstance(standing, CallInProgress)
    assert 50 < standing.seconds <= 60


@pytest.mark.parametrize("is_done", [False, True], ids=["in progress", "done"])
async def test_other_arguments_under_the_same_key_are_an_error(ledger, is_done):
    begun = await ledger.begin("t:1:a", ARGUMENTS)
    if is_done:
        await ledger.finish(begun, 1)
    with pytest.raises(IdempotencyError, match="other arguments"):
        await ledger.begin("t:1:a", b"others")


async def test_a_call_that_failed_may_be_made_again(ledger):
    await ledger.abandon(await ledger.begin("t:1:a", ARGUMENTS))
    assert isinstance(await ledger.begin("t:1:a", ARGUMENTS), CallLease)


async def test_a_crash_blocks_nobody_beyond_its_lease(ledger):
    await ledger.begin("t:1:a", ARGUMENTS)
    ledger.pass_time(61)
    assert isinstance(await ledger.begin("t:1:a", ARGUMENTS), CallLease)


async def test_who_comes_back_after_the_lease_changes_nothing(ledger):
    late = await ledger.begin("t:1:a", ARGUMENTS)
    ledger.pass_time(61)
    await ledger.begin("t:1:a", ARGUMENTS)
    await ledger.abandon(late)
    await ledger.finish(late, "late")
    assert isinstance(await ledger.begin("t:1:a", ARGUMENTS), CallInProgress)


async def test_a_result_outlives_the_lease_and_not_its_time(ledger):
    await ledger.finish(await ledger.begin("t:1:a", ARGUMENTS), 1)
    ledger.pass_time(3000)
    assert await ledger.begin("t:1:a", ARGUMENTS) == CallResult(1)
    ledger.pass_time(700)
    assert isinstance(await ledger.begin("t:1:a", ARGUMENTS), CallLease)


async def test_a_finished_call_cannot_be_abandoned(ledger):
    begun = await ledger.begin("t:1:a", ARGUMENTS)
    await ledger.finish(begun, 1)
    await ledger.abandon(begun)
    assert await ledger.begin("t:1:a", ARGUMENTS) == CallResult(1)


async def test_of_many_at_once_one_makes_the_call(ledger):
    standings = await asyncio.gather(*(ledger.begin("t:1:a", ARGUMENTS) for _ in range(20)))
    assert sum(isinstance(one, CallLease) for one in standings) == 1


def test_memory_is_bounded_and_keeps_what_is_being_made():
    ledger = MemoryLedger(most=3)
    making = ledger.begin("making", b"")
    for number in range(10):
        ledger.finish(ledger.begin(f"{number}", b""), number)
    assert isinstance(ledger.begin("making", b""), CallInProgress)
    assert ledger.begin("9", b"") == CallResult(9)
    assert isinstance(ledger.begin("0", b""), CallLease)
    ledger.finish(making, "made")
    assert ledger.begin("making", b"") == CallResult("made")


class TestStore:
    @pytest.mark.parametrize(
        "result",
        [None, 0, "text", b"\x00bytes", [1, {"a": None}]],
        ids=["nothing", "zero", "text", "bytes", "json"],
    )
    async def test_results_come_back_as_they_were(self, store, result):
        ledger = StoreLedger(store)
        await ledger.finish(await ledger.begin("t:1:a", ARGUMENTS), result)
        assert await ledger.begin("t:1:a", ARGUMENTS) == CallResult(result)

    async def test_a_result_that_cannot_be_kept_is_still_known_to_be_there(self, store):
        ledger = StoreLedger(store)
        await ledger.finish(await ledger.begin("t:1:a", ARGUMENTS), object())
        with pytest.raises(IdempotencyError, match="was made"):
            await ledger.begin("t:1:a", ARGUMENTS)

    async def test_two_instances_share_it(self, store, valkey):
        other = RedisStore(valkey.url, timeout=5)
        await other.start()
        try:
            await StoreLedger(store).begin("t:1:a", ARGUMENTS)
            assert isinstance(await StoreLedger(other).begin("t:1:a", ARGUMENTS), CallInProgress)
        finally:
            await other.stop()

    async def test_scopes_never_meet(self, store):
        ada, bob = StoreLedger(store, scope="ada"), StoreLedger(store, scope="bob")
        await ada.finish(await ada.begin("t:1:a", ARGUMENTS), "ada's")
        assert isinstance(await bob.begin("t:1:a", ARGUMENTS), CallLease)

    async def test_no_argument_and_no_key_is_at_rest(self, store, valkey):
        await StoreLedger(store).begin("secret-turn:1:a", ARGUMENTS)
        with valkey.client() as client:
            (key,) = client.keys("lt:idem:*")
            kept = key + b"".join(name + value for name, value in client.hgetall(key).items())
            assert 0 < client.pttl(key) <= 60_000
        for secret in (b"ada@example.com", b"42", b"secret-turn"):
            assert secret not in kept

    async def test_a_store_that_is_away_refuses_rather_than_make_a_call_twice(self, caplog):
        with server() as one:
            store = RedisStore(one.url, timeout=1, probe_every=0.05)
            await store.start()
            try:
                ledger = StoreLedger(store)
                begun = await ledger.begin("t:1:a", ARGUMENTS)
                one.kill()
                with pytest.raises(IdempotencyError, match="cannot look up"):
                    await ledger.begin("t:1:b", ARGUMENTS)
                with caplog.at_level(logging.ERROR):
                    await ledger.finish(begun, "made")
                assert "could not be stored" in caplog.text
            finally:
                await store.stop()
