"""Several gateways, one count: through a real Valkey, and while it is away."""

import asyncio
import signal

import msgspec
import pytest
from aiohttp import ClientSession
from tests.gateway.serving import JSON, chat, is_degraded, until
from tests.store.serving import PATIENCE

from looptrap.admin.server import AdminServer
from looptrap.config.kind import Address

SAME = chat("Return the invoice as JSON, and nothing but the JSON of the invoice")
RULES = """
[[policies]]
name = "p"
  [[policies.rules]]
  name = "same"
  watch = "conversation"
  threshold = 4
  cooldown = 30
"""
STUCK = """
[[policies]]
name = "p"
  [[policies.rules]]
  name = "stuck"
  watch = "repeat"
  threshold = 3
  cooldown = 30
"""


async def statuses(gateways, times, body=SAME, headers=JSON):
    """Ask the gateways in turn; return the statuses."""
    answers = [
        await gateways[n % len(gateways)].ask(headers=headers, body=body) for n in range(times)
    ]
    return [answer.status for answer in answers]


async def test_a_loop_spread_over_instances_is_one_loop(instances):
    gateways = await instances(3)
    assert await statuses(gateways, 9) == [200] * 5 + [429] * 4


async def test_a_repeated_answer_ends_once_the_store_knows_of_it(instances, monkeypatch):
    # Otherwise the client's next call could get to the store first, and count as a twin.
    (one,) = await instances(1)
    assert await statuses([one], 1) == [200]
    told = []
    store = one.app.gateway.judge._shared
    monkeypatch.setattr(store, "answer", lambda _hits, _now, then: told.append(then))
    asked = asyncio.ensure_future(one.ask(headers=JSON, body=SAME))
    await until(lambda: told)
    assert not asked.done()
    told.pop()()
    assert (await asked).status == 200


async def test_calls_at_the_same_moment_are_each_counted_once(instances):
    gateways = await instances(2, RULES.replace("threshold = 4", "threshold = 40"))
    asked = [gateways[n % 2].ask(headers=JSON, body=SAME) for n in range(60)]
    answers = await asyncio.gather(*asked)
    assert sorted(answer.status for answer in answers) == [200] * 39 + [429] * 21


async def test_different_folders_agree_on_digests_through_the_store_alone(instances):
    one, other = await instances(2, RULES)
    await statuses([one], 4)
    refused = await other.ask(headers=JSON, body=SAME)
    assert refused.status == 429
    detail = msgspec.json.decode(refused.body)["detail"]
    assert detail["fingerprint"].startswith("1-")
    assert detail["hit_count"] == 5


async def test_what_is_released_on_one_instance_is_released_on_all(instances):
    one, other = await instances(2, RULES)
    await statuses([one], 4)
    refused = await other.ask(headers=JSON, body=SAME)
    fingerprint = msgspec.json.decode(refused.body)["detail"]["fingerprint"]
    assert await one.app.gateway.judge.release(fingerprint, 0.0)
    assert await statuses([other, one], 3) == [200] * 3


async def test_a_prompt_that_grows_is_one_prompt_on_all_instances(instances):
    gateways = await instances(2)
    prompt = "Return the invoice below as JSON with the fields date, total and currency: 12 kr"
    bodies = [chat("That was not valid JSON. Try again: " * n + prompt) for n in range(9)]
    answers = [await gateways[n % 2].ask(headers=JSON, body=body) for n, body in enumerate(bodies)]
    # The first of them passes both instances unmarked: nothing with that end had come before.
    assert [answer.status for answer in answers] == [200] * 7 + [429] * 2


async def test_a_refused_history_is_probed_once_by_all_instances_together(instances):
    gateways = await instances(2, STUCK)
    messages = [{"role": "user", "content": "Free some space on the disk, please."}]
    for n in range(3):
        function = {"name": "df", "arguments": "{}"}
        called = [{"id": f"c{n}", "type": "function", "function": function}]
        messages.append({"role": "assistant", "content": None, "tool_calls": called})
        messages.append({"role": "tool", "tool_call_id": f"c{n}", "content": "full"})
    body = msgspec.json.encode({"model": "m", "messages": messages})
    first = await gateways[0].ask(headers=JSON, body=body)
    assert first.status == 429
    fingerprint = msgspec.json.decode(first.body)["detail"]["fingerprint"]
    assert await statuses(gateways, 3, body) == [429] * 3
    assert await gateways[0].app.gateway.judge.release(fingerprint, 0.0)
    assert (await gateways[1].ask(headers=JSON, body=body)).status == 200
    assert await statuses(gateways, 2, body) == [429] * 2


@pytest.mark.parametrize("fault", ["killed", "frozen"])
async def test_while_the_store_is_away_each_instance_counts_alone(instances, valkey, fault):
    one, other = await instances(2, RULES, store_timeout=0.5)
    assert await statuses([one, other], 2) == [200, 200]
    valkey.send(signal.SIGKILL if fault == "killed" else signal.SIGSTOP)
    assert await statuses([one], 5) == [200] * 3 + [429] * 2
    assert await statuses([other], 4) == [200] * 3 + [429]
    assert is_degraded(one)
    if fault == "killed":
        valkey.process.wait(PATIENCE)
        valkey.start()
    else:
        valkey.send(signal.SIGCONT)
    await until(lambda: not is_degraded(one) and not is_degraded(other))
    fresh = chat("Something else altogether, asked for the first time since the store came back")
    assert await statuses([one, other], 6, fresh) == [200] * 3 + [429] * 3


async def test_a_store_that_lost_its_data_is_given_the_secret_again(instances, valkey):
    one, other = await instances(2, RULES)
    await statuses([one, other], 2)
    with valkey.client() as client:
        before = client.get("lt:cfg:secret")
        client.flushall()
        await until(lambda: client.get("lt:cfg:secret") == before)
    assert await statuses([one, other], 4) == [200] * 3 + [429]


async def test_by_choice_calls_are_refused_while_the_store_is_away(instances, valkey):
    (one,) = await instances(1, RULES, on_store_error="block")
    assert await statuses([one], 1) == [200]
    valkey.kill()
    answer = await one.ask(headers=JSON, body=chat("hello"))
    assert answer.status == 503
    headers = dict(answer.headers)
    assert headers[b"x-looptrap-reason"] == b"store_unavailable"
    assert headers[b"retry-after"] == b"1"
    assert b"x-should-retry" not in headers
    assert len(one.provider.requests) == 1


async def test_a_store_that_is_not_there_at_the_start_is_found_later(instances, valkey):
    valkey.kill()
    one, other = await instances(2, RULES)
    assert await statuses([one], 4) == [200] * 3 + [429]
    valkey.start()
    await until(lambda: not is_degraded(one) and not is_degraded(other))
    with valkey.client() as client:
        await until(lambda: client.get("lt:cfg:secret") is not None)
    await asyncio.gather(*(here.app._entries._sync() for here in (one, other)))
    assert await statuses([one, other], 5, chat("later, and together")) == [200] * 3 + [429] * 2


async def test_a_client_that_left_while_the_store_was_asked_is_not_forwarded(instances, valkey):
    (one,) = await instances(1, RULES)
    await statuses([one], 1)
    valkey.send(signal.SIGSTOP)
    client = await one.connect()
    await client.send(
        b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(SAME)
        + SAME
    )
    await until(lambda: one.app.store.asked == 2)
    client.close()
    await until(lambda: one.app.server.disconnects == 1)
    valkey.send(signal.SIGCONT)
    await until(lambda: one.app.tally.verdicts.total() == 2)
    assert len(one.provider.requests) == 1


async def test_operators_are_told_that_the_store_is_away(instances, valkey):
    (one,) = await instances(1, RULES)
    admin = AdminServer(one.app, Address("127.0.0.1", 0))
    host, port = await admin.start()

    async def told(path):
        async with ClientSession() as session, session.get(f"http://{host}:{port}{path}") as answer:
            return answer.status, await answer.text()

    try:
        assert await told("/readyz") == (200, '{"status": "ready"}')
        valkey.kill()
        await statuses([one], 1)
        assert await told("/readyz") == (200, '{"status": "degraded"}')
        _, metrics = await told("/metrics")
        assert "looptrap_store_degraded 1.0" in metrics
        assert "looptrap_store_errors_total 1.0" in metrics
    finally:
        await admin.stop()
