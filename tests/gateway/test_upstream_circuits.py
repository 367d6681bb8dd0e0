"""Circuits: a provider that keeps failing is left alone, on all instances, until one probe."""

import asyncio
from contextlib import AsyncExitStack

import msgspec
import pytest
from tests.gateway.serving import JSON, chat, request, until
from tests.gateway.upstream_serving import CHAIN, RETRIED, TICKS, attempting, few
from tests.wire.fake_client import Clock

from looptrap.retry.breaker import CircuitKey, CircuitOpening
from looptrap.testing import Gate, Reply

ONCE = RETRIED.replace("attempts = 3", "attempts = 1")
OK = [Reply.text("ok")]


class Provider:
    """A script that a test changes as it goes."""

    def __init__(self, reply=None):
        self.reply = reply or Reply.status(503)

    def __call__(self, _received):
        return self.reply


@pytest.fixture
async def attempt(tmp_path):
    async with AsyncExitStack() as stack:

        async def start(routes, *scripts, **options):
            named = dict(zip(("one", "two"), scripts, strict=False))
            folder = tmp_path / str(len(list(tmp_path.iterdir())))
            folder.mkdir()
            context = attempting(folder, routes, scripts=named, clock=Clock(), **options)
            here = await stack.enter_async_context(context)
            here.dispatch.breakers = few()
            return here

        yield start


async def ask(here, number, **more):
    return await here.ask(chat(f"question {number}", **more))


async def test_an_open_circuit_answers_without_asking_and_says_when_to_come_again(attempt):
    here = await attempt(ONCE, Provider())
    assert [(await ask(here, n)).status for n in range(2)] == [503, 503]
    answer = await ask(here, 3)
    assert answer.status == 503
    assert msgspec.json.decode(answer.body)["error"]["code"] == "breaker_open"
    assert answer.headers[b"x-looptrap-reason"] == b"breaker_open"
    assert answer.headers[b"x-looptrap-attempts"] == b"0"
    assert answer.headers[b"retry-after"] == b"60"
    assert b"x-should-retry" not in answer.headers
    assert here.asked() == 2
    assert list(here.dispatch.states()) == [(CircuitKey("one"), "open")]


async def test_people_are_told_once_of_a_circuit_that_opens(attempt):
    here = await attempt(ONCE, Provider())
    for n in range(4):
        await ask(here, n)
    (event,) = here.told
    assert event.name == "breaker.opened"
    who = "addr:127.0.0.1"
    assert event.data == {
        "provider": "one",
        "credential": "",
        "caller": who,
        "seconds": 60.0,
        "reason": "status 503",
    }
    assert (
        event.title == f"one is left alone for {who} for 60 s after failures in a row: status 503"
    )


@pytest.mark.parametrize(
    ("retry_after", "told"), [("5", 0), ("45", 1)], ids=["for a moment", "for long"]
)
async def test_people_are_not_told_of_one_callers_limit_that_soon_passes(
    attempt, retry_after, told
):
    limit = Reply.status(429, headers={"Retry-After": retry_after})
    here = await attempt(ONCE, Provider(limit))
    for n in range(3):
        await ask(here, n)
    assert [key.credential is not None for key, _ in here.dispatch.states()] == [True]
    assert len(here.told) == told


async def test_a_chain_passes_an_open_circuit_by(attempt):
    here = await attempt(CHAIN, Provider(), OK)
    answers = [await ask(here, n) for n in range(4)]
    assert [answer.status for answer in answers] == [200] * 4
    assert [answer.headers[b"x-looptrap-attempts"] for answer in answers] == [
        b"2",
        b"2",
        b"1",
        b"1",
    ]
    assert (here.asked("one"), here.asked("two")) == (2, 4)
    assert here.dispatch.failovers["two"] == 4


async def test_one_probe_finds_out_and_a_success_closes(attempt):
    script = Provider()
    here = await attempt(ONCE, script)
    for n in range(2):
        await ask(here, n)
    here.clock.now += 60
    gate = Gate()
    script.reply = Reply.pause(gate)
    probe = asyncio.create_task(ask(here, 2))
    await gate.reached.wait()
    assert (await ask(here, 3)).status == 503
    assert here.asked() == 3
    script.reply = Reply.text("ok")
    gate.open()
    assert (await probe).status == 200
    assert (await ask(here, 4)).status == 200
    assert list(here.dispatch.states()) == []


async def test_a_probe_that_fails_opens_again(attempt):
    here = await attempt(ONCE, Provider())
    for n in range(2):
        await ask(here, n)
    here.clock.now += 60
    assert (await ask(here, 2)).headers[b"x-looptrap-attempts"] == b"1"
    assert (await ask(here, 3)).headers[b"x-looptrap-attempts"] == b"0"
    assert here.asked() == 3


async def test_a_probe_whose_client_leaves_is_anothers_to_make(attempt):
    script = Provider()
    here = await attempt(ONCE, script)
    for n in range(2):
        await ask(here, n)
    here.clock.now += 60
    gate = Gate()
    script.reply = Reply.pause(gate)
    client = await here.gateway.connect()
    await client.send(request(headers=JSON, body=chat("probe")))
    await gate.reached.wait()
    client.close()
    await gate.abandoned.wait()
    script.reply = Reply.text("ok")
    assert (await ask(here, 3)).status == 200


async def test_a_limit_of_one_caller_closes_the_road_for_no_other(attempt):
    def script(received):
        return Reply.status(429) if "busy" in received.headers["authorization"] else None

    here = await attempt(ONCE, script)
    for n in range(3):
        busy = await here.ask(chat(f"q {n}"), headers={"Authorization": "Bearer busy"})
    assert busy.headers[b"x-looptrap-attempts"] == b"0"
    other = await here.ask(headers={"Authorization": "Bearer other"})
    assert other.status == 200


POISON = b"poison"


def poisoned(received):
    return Reply.status(500) if POISON in received.body else Reply.text("ok")


async def sent_by(here, who, text, **headers):
    answer = await here.ask(chat(text), headers={"Authorization": f"Bearer {who}"} | headers)
    return answer.status, answer.headers[b"x-looptrap-attempts"]


async def test_prompts_of_one_caller_that_make_a_provider_fail_close_the_road_for_no_other(attempt):
    here = await attempt(ONCE, poisoned)
    for n in range(6):
        await sent_by(here, "attacker", f"poison {n}")
    assert await sent_by(here, "attacker", "harmless") == (503, b"0")
    assert await sent_by(here, "honest", "harmless") == (200, b"1")
    assert here.told[0].data["caller"].startswith("cred:")


@pytest.mark.parametrize("by", ["session", "beginning"])
async def test_one_conversation_closes_the_road_for_no_other_of_its_caller(attempt, by):
    here = await attempt(ONCE, poisoned)
    mine, other = ({"X-Session-Id": "a"}, {"X-Session-Id": "b"}) if by == "session" else ({}, {})
    for _ in range(3):
        await sent_by(here, "one", "poison", **mine)
    assert await sent_by(here, "one", "poison", **mine) == (503, b"0")
    assert await sent_by(here, "one", "harmless", **other) == (200, b"1")
    assert here.told == []


async def test_failures_of_several_callers_close_the_road_for_all(attempt):
    here = await attempt(ONCE, Provider())
    for who in ("one", "two"):
        assert (await sent_by(here, who, "hello"))[0] == 503
    assert await sent_by(here, "three", "hello") == (503, b"0")
    assert [event.data["caller"] for event in here.told] == [""]


async def test_a_provider_that_cannot_be_reached_is_left_alone_by_all_at_once(attempt):
    nowhere = '[[providers]]\nname = "one"\nbase_url = "http://127.0.0.1:1"\n'
    here = await attempt(ONCE, OK, providers=nowhere)
    for _ in range(2):
        await sent_by(here, "one", "hello")
    assert await sent_by(here, "two", "hello") == (503, b"0")


async def test_others_find_out_by_themselves_that_it_is_an_outage(attempt):
    here = await attempt(ONCE, Provider())
    for n in range(2):
        await sent_by(here, "one", f"hello {n}")
    assert [await sent_by(here, "two", "hello") for _ in range(3)] == [
        (503, b"1"),
        (503, b"1"),
        (503, b"0"),
    ]
    assert await sent_by(here, "three", "hello") == (503, b"0")


async def test_a_probe_that_fails_by_its_own_prompt_keeps_the_road_closed_for_no_other(attempt):
    script = Provider()
    here = await attempt(ONCE, script)
    for who in ("one", "two"):
        await sent_by(here, who, "hello")
    script.reply = None
    here.providers["one"]._script = poisoned
    here.clock.now += 60
    assert await sent_by(here, "attacker", "poison") == (500, b"1")
    assert await sent_by(here, "two", "hello") == (200, b"1")


@pytest.mark.parametrize("status", [400, 401, 404])
async def test_permanent_errors_open_nothing(attempt, status):
    here = await attempt(ONCE, Provider(Reply.status(status)))
    assert [(await ask(here, n)).status for n in range(4)] == [status] * 4
    assert here.asked() == 4


async def test_refusals_of_our_own_open_nothing(attempt):
    here = await attempt(ONCE, Provider(Reply.text("ok")))
    statuses = [(await ask(here, 0)).status for _ in range(12)]
    assert statuses[-1] == 429
    assert (await ask(here, 1)).status == 200


async def test_streams_that_break_off_together_open_a_circuit(attempt):
    gates = [Gate() for _ in range(4)]
    replies = iter(gates)

    def script(_received):
        gate = next(replies, None)
        if gate is None:
            return Reply.text("ok")
        return Reply.drop(Reply.sse(TICKS[0], gate, TICKS[1]), after_chunks=1)

    here = await attempt(ONCE, script)
    asked = [asyncio.create_task(ask(here, n, stream=True)) for n in range(4)]
    for gate in gates:
        await gate.reached.wait()
    for gate in gates:
        gate.open()
    for answer in await asyncio.gather(*asked):
        assert b"upstream_reset" in answer.body
    assert (await ask(here, 9)).headers[b"x-looptrap-attempts"] == b"0"


async def test_a_reload_forgets_no_circuit(attempt):
    here = await attempt(ONCE, Provider())
    for n in range(2):
        await ask(here, n)
    app = here.gateway.app
    app.reload(app.config)
    assert (await ask(here, 3)).headers[b"x-looptrap-attempts"] == b"0"


# Several instances


@pytest.fixture
async def pair(attempt, valkey):
    async def start(*scripts, routes=ONCE):
        both = [await attempt(routes, script, store=valkey.url) for script in scripts]
        for here in both:
            here.dispatch.sharing._every = 0.01
        return both

    return start


def is_open(here, name="one"):
    return here.dispatch.breakers.state(CircuitKey(name), here.clock()) == "open"


async def test_a_circuit_that_opens_here_opens_everywhere(pair, valkey):
    one, other = await pair(Provider(), Provider(Reply.text("ok")))
    assert (await ask(other, 0)).status == 200
    for n in range(2):
        await ask(one, n)
    await until(lambda: is_open(other))
    assert (await ask(other, 1)).headers[b"x-looptrap-attempts"] == b"0"
    assert len(one.told) == 1
    assert other.told == []
    with valkey.client() as client:
        keys = list(client.scan_iter(b"lt:brk:*"))
        assert keys
        assert [key for key in keys if client.ttl(key) < 0] == []


async def test_what_one_caller_opened_closes_the_road_for_no_other_anywhere(pair):
    one, other = await pair(poisoned, poisoned)
    assert await sent_by(other, "honest", "harmless") == (200, b"1")
    for n in range(2):
        await sent_by(one, "attacker", f"poison {n}")
    await until(lambda: is_open(other))
    assert await sent_by(other, "attacker", "harmless") == (503, b"0")
    assert await sent_by(other, "honest", "harmless 2") == (200, b"1")


async def test_of_two_instances_exactly_one_probes(pair):
    scripts = Provider(), Provider()
    both = await pair(*scripts)
    for here in both:
        for n in range(2):
            await ask(here, n)
        assert is_open(here)
    # What the other opened has been heard of: nothing changes under the probe.
    seen = [here.dispatch.sharing._stream for here in both]
    await until(lambda: seen[0]._last_id == seen[1]._last_id != b"0-0")
    asked = sum(here.asked() for here in both)
    gates = [Gate(), Gate()]
    for here, script, gate in zip(both, scripts, gates, strict=True):
        here.clock.now += 61
        script.reply = Reply.pause(gate)
    probes = [asyncio.create_task(ask(here, f"probe {n}")) for n in range(3) for here in both]
    await until(lambda: sum(here.asked() for here in both) > asked)
    await until(lambda: sum(probe.done() for probe in probes) == 5)
    assert sum(here.asked() for here in both) == asked + 1
    for gate in gates:
        gate.open()
    statuses = sorted(answer.status for answer in await asyncio.gather(*probes))
    assert statuses == [200] + [503] * 5
    # The claim is given back: the other may find out for itself as soon as it asks again.
    for here, script in zip(both, scripts, strict=True):
        script.reply = Reply.text("ok")
        here.clock.now += 2
    await until(lambda: _all_good(both))


async def test_a_probe_that_fails_is_claimed_for_as_long_as_the_circuit_is_open(pair, valkey):
    limit = Reply.status(429, headers={"Retry-After": "5"})
    (here,) = await pair(Provider(limit))
    for n in range(2):
        await ask(here, n)
    here.clock.now += 6
    await ask(here, 3)

    def held():
        with valkey.client() as client:
            left = [client.pttl(key) for key in client.scan_iter(b"lt:brk:probe:*")]
        return len(left) == 1 and 0 < left[0] <= 6_000

    await until(held)


async def _all_good(both):
    return all([(await ask(here, object())).status == 200 for here in both])


async def test_without_the_store_each_goes_on_alone(pair, valkey):
    script = Provider()
    (here,) = await pair(script)
    valkey.kill()
    for n in range(2):
        await ask(here, n)
    assert is_open(here)
    here.clock.now += 61
    script.reply = Reply.text("ok")
    assert (await ask(here, 3)).status == 200


async def test_what_another_instance_says_is_bounded(attempt):
    here = await attempt(ONCE, OK)
    here.dispatch._learn(CircuitOpening(CircuitKey("one"), 1e9))
    assert here.dispatch.breakers.retry_after("one", "x", here.clock()) <= 60
