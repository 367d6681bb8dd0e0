"""Providers that fail on routes without a plan: refused for a while, logged, and reported."""

import asyncio
import logging
from contextlib import AsyncExitStack

import msgspec
import pytest
from tests.gateway.serving import JSON, chat, request, until
from tests.gateway.test_upstream_circuits import Provider, ask
from tests.gateway.upstream_serving import KEYS, attempting, few
from tests.wire.fake_client import Clock

from looptrap.admin.status import health_notices
from looptrap.gateway.upstream.upstream_state import LOG_INTERVAL_S, ProviderHealth
from looptrap.retry.breaker import CircuitKey
from looptrap.testing import Gate, Reply

PLAIN = '[[routes]]\nprovider = "one"\n'
DEAD = '[[providers]]\nname = "one"\nbase_url = "http://127.0.0.1:1/v1"\n'


@pytest.fixture
async def attempt(tmp_path):
    async with AsyncExitStack() as stack:

        async def start(script=None, routes=PLAIN, **options):
            scripts = {} if script is None else {"one": script}
            context = attempting(tmp_path, routes, scripts=scripts, clock=Clock(), **options)
            here = await stack.enter_async_context(context)
            here.dispatch.breakers = few()
            return here

        yield start


def code(answer):
    return msgspec.json.decode(answer.body)["error"]["code"]


def notices(here):
    return {one["code"]: one["message"] for one in health_notices(here.gateway.app, [])}


async def test_a_provider_that_keeps_failing_is_refused_with_the_time_to_come_again(attempt):
    here = await attempt(Provider())
    assert [(await ask(here, n)).status for n in range(2)] == [503, 503]
    answer = await ask(here, 3)
    assert (answer.status, code(answer)) == (503, "breaker_open")
    assert answer.headers[b"retry-after"] == b"60"
    assert answer.headers[b"x-looptrap-reason"] == b"breaker_open"
    assert b"the latest: status 503" in answer.body
    assert here.asked() == 2


@pytest.mark.parametrize("status", [400, 401, 403, 404, 408, 413, 422, 429])
async def test_errors_of_clients_open_no_circuit(attempt, status):
    here = await attempt(Provider(Reply.status(status)))
    assert [(await ask(here, n)).status for n in range(8)] == [status] * 8
    assert here.asked() == 8


async def test_failures_must_come_in_a_row(attempt):
    script = Provider()
    here = await attempt(script)
    for n in range(4):
        script.reply = Reply.status(503) if n % 2 else Reply.text("ok")
        await ask(here, n)
    script.reply = Reply.text("ok")
    assert (await ask(here, 5)).status == 200
    assert here.dispatch.watched == set()


async def test_a_list_of_models_in_between_does_not_hide_failures_of_calls(attempt):
    script = Provider()
    here = await attempt(script)
    await ask(here, 0)
    script.reply = Reply.text("ok")
    assert (await here.gateway.ask("GET", "/v1/models", JSON, b"")).status == 200
    assert (await ask(here, 1)).status == 200
    script.reply = Reply.status(503)
    assert [code_or_status(await ask(here, n)) for n in (2, 3, 4)] == [503, 503, "breaker_open"]


def code_or_status(answer):
    return "breaker_open" if b"breaker_open" in answer.body else answer.status


async def test_one_probe_decides_and_all_others_are_refused_meanwhile(attempt):
    script = Provider()
    here = await attempt(script)
    for n in range(2):
        await ask(here, n)
    here.clock.now += 61
    gate = Gate()
    script.reply = Reply.pause(gate)
    calls = [asyncio.create_task(ask(here, f"probe {n}")) for n in range(4)]
    await until(lambda: sum(call.done() for call in calls) == 3)
    assert here.asked() == 3
    gate.open()
    assert sorted([(await call).status for call in calls]) == [200, 503, 503, 503]
    script.reply = Reply.text("ok")
    assert (await ask(here, 9)).status == 200
    assert here.dispatch.watched == set()


async def test_a_probe_whose_client_leaves_lets_the_next_one_try(attempt):
    script = Provider()
    here = await attempt(script)
    for n in range(2):
        await ask(here, n)
    here.clock.now += 61
    script.reply = Reply.pause(Gate())
    client = await here.gateway.connect()
    await client.send(request(headers=JSON, body=chat("probe")))
    await until(lambda: here.asked() == 3)
    client.close()
    await until(lambda: here.gateway.app.tally.statuses[499] == 1)
    script.reply = Reply.text("ok")
    assert (await ask(here, 4)).status == 200


async def test_a_conversation_that_makes_a_provider_fail_stops_no_other_caller(attempt):
    def script(received):
        return Reply.status(500) if b"poison" in received.body else Reply.text("ok")

    here = await attempt(script)
    for _ in range(3):
        await here.ask(chat("poison"))
    refused = await here.ask(chat("poison"))
    assert code(refused) in ("breaker_open", "recursive_loop_detected")
    other = await here.ask(chat("fine"), headers={"Authorization": "Bearer sk-other"})
    assert other.status == 200


async def test_a_provider_without_a_breaker_is_always_asked(attempt):
    provider = '[[providers]]\nname = "one"\nbase_url = "{one}"\nbreaker = false\n'
    here = await attempt(Provider(), providers=provider)
    assert [(await ask(here, n)).status for n in range(6)] == [503] * 6
    assert here.asked() == 6


async def test_a_provider_without_a_breaker_is_never_skipped_in_a_chain(attempt):
    provider = '[[providers]]\nname = "one"\nbase_url = "{one}"\nbreaker = false\n'
    here = await attempt(Provider(), PLAIN + "attempts = 1\n", providers=provider)
    for n in range(6):
        await ask(here, n)
    assert here.asked() == 6


async def test_a_dead_provider_is_logged_at_once_and_stands_on_the_dashboard(attempt, caplog):
    caplog.set_level(logging.WARNING, "looptrap")
    here = await attempt(providers=DEAD)
    answer = await ask(here, 0)
    assert answer.status == 502
    assert "one fails: 127.0.0.1:1: cannot connect: Connection refused" in caplog.messages
    assert "Connection refused" in notices(here)["provider_failing"]
    await ask(here, 1)
    assert "Connection refused" in notices(here)["breaker_open"]
    assert "provider_failing" not in notices(here)
    assert list(here.dispatch.states()) == [(CircuitKey("one"), "open")]


async def test_a_refused_operators_key_is_reported_and_a_callers_own_is_not(attempt, caplog):
    caplog.set_level(logging.WARNING, "looptrap")
    here = await attempt(Provider(Reply.status(401)))
    own = {"Authorization": "Bearer sk-own"}
    assert (await here.ask(chat("mine"), headers=own)).status == 401
    assert caplog.messages == []
    caller = {"Authorization": f"Bearer {here.gateway.add_key()}"}
    assert (await here.ask(chat("mine"), headers=caller)).status == 401
    assert caplog.messages == ["one fails: status 401, it refuses the key in KEY_ONE"]
    assert "KEY_ONE" in notices(here)["provider_failing"]


async def test_only_an_answer_to_the_operators_key_ends_its_failure(attempt, caplog):
    caplog.set_level(logging.WARNING, "looptrap")
    accepted = ["sk-own"]

    def script(received):
        is_good = received.headers["authorization"].endswith(accepted[-1])
        return Reply.text("ok") if is_good else Reply.status(401)

    here = await attempt(script)
    key = here.gateway.add_key()
    own = {"Authorization": "Bearer sk-own", "X-Looptrap-Key": key}
    caller = {"Authorization": f"Bearer {key}"}
    for n in range(2):
        assert (await here.ask(chat(f"mine {n}"), headers=caller)).status == 401
    assert (await here.ask(chat("mine"), headers=own)).status == 200
    assert "KEY_ONE" in notices(here)["provider_failing"]
    accepted.append(KEYS["KEY_ONE"])
    assert (await here.ask(chat("mine 2"), headers=caller)).status == 200
    assert "provider_failing" not in notices(here)
    assert "one answers again" in caplog.messages[-1]


async def test_after_the_first_line_failures_are_summed_up(caplog):
    caplog.set_level(logging.WARNING, "looptrap")
    now = 1_000.0
    health = ProviderHealth(lambda: now)
    for _ in range(100):
        health.failed("one", "status 503")
    assert caplog.messages == ["one fails: status 503"]
    now += LOG_INTERVAL_S
    health.failed("one", "status 500")
    assert caplog.messages[1:] == ["one fails: 100 calls in 60 s, the latest: status 500"]
    now += 5
    health.answered("one", has_operator_key=False)
    assert caplog.messages[2:] == ["one answers again, after 101 failed calls in 65 s"]
    assert list(health.failing()) == []


async def test_an_outcome_from_before_the_circuit_changed_counts_no_more(attempt):
    gates = [Gate(), Gate()]
    slow = iter(gates)

    def script(received):
        if b"slow" in received.body:
            return Reply.pause(next(slow), Reply.status(503))
        return Reply.status(503) if b"bad" in received.body else Reply.text("ok")

    here = await attempt(script)
    late = [asyncio.create_task(ask(here, f"slow {n}")) for n in range(2)]
    await until(lambda: here.asked() == 2)
    for n in range(2):
        await ask(here, f"bad {n}")
    here.clock.now += 61
    assert (await ask(here, "probe")).status == 200
    for gate in gates:
        gate.open()
    assert [(await one).status for one in late] == [503, 503]
    assert (await ask(here, "after")).status == 200
