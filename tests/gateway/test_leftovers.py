"""However a call ends, nothing of it stays in memory; without the help of the collector."""

import asyncio
import gc
import logging
import tracemalloc
from collections import Counter
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from itertools import count
from types import SimpleNamespace
from typing import Any

import pytest
from tests.gateway.serving import CHAT, JSON, chat, request, serving, until
from tests.gateway.test_app import THROTTLE, repeat_silently
from tests.gateway.test_shared_settings import RED
from tests.gateway.upstream_serving import CHAIN, RETRIED, TICKS, attempting

from looptrap.detect.trajectory import Trajectory
from looptrap.dialect.stream import AnswerReader
from looptrap.engine import transaction
from looptrap.gateway import handler
from looptrap.gateway.judge import _SharedJudgement
from looptrap.gateway.relay import Relay
from looptrap.gateway.upstream.attempt import ResponseBuffer, UpstreamAttempt
from looptrap.gateway.upstream.outbound_request import RequestBuilder
from looptrap.gateway.upstream.routed_request import RoutedRequest
from looptrap.policy.stream_guard import StreamGuard
from looptrap.testing import Gate, Reply
from looptrap.wire.exchange import Exchange, UpstreamError, UpstreamExchange
from looptrap.wire.server_connection import ServerConnection
from looptrap.wire.upstream_connection import UpstreamConnection

pytestmark = pytest.mark.slow

TIMES = 4
SIZE = 300_000
NUMBERS = count()

OF_A_CALL = (
    UpstreamAttempt, UpstreamConnection, Exchange, UpstreamExchange, AnswerReader, ResponseBuffer,
    RoutedRequest, StreamGuard, RequestBuilder, Relay, ServerConnection, Trajectory, UpstreamError,
    _SharedJudgement,
)  # fmt: skip

LOOP = """
[[policies]]
name = "p"
  [[policies.rules]]
  name = "same"
  watch = "conversation"
  threshold = 2
  cooldown = 30
"""
STOP = LOOP + 'action = "stop"\n'
CHANT = """
[[policies]]
name = "p"
  [[policies.rules]]
  name = "chanting"
  watch = "chant"
  threshold = 6
  action = "{action}"
"""
BUDGET = """
policies = [{ name = "none", rules = [], rates = [{ name = "far", rps = 100_000 }] }]
[[budgets]]
name = "purse"
by = ["caller"]
limit_usd = 0.0001
"""
RATE = """
[[policies]]
name = "slow"
  [[policies.rates]]
  name = "one-a-minute"
  rps = 0.02
  burst = 1
"""
SORRY = "I am sorry, I cannot find that file. Let me try once more. "
FOREVER = Reply.sse(*[{"choices": [{"index": 0, "delta": {"content": SORRY * 5}}]}] * 400)
"""As much as the threshold in a few calls, and in few events: each is traced, which takes long."""


def large(text=None, **more):
    """Return a large body; unlike all others unless it is given a text."""
    text = f"Question {next(NUMBERS)}: {next(NUMBERS)}" if text is None else text
    return chat(text + " x" * (SIZE // 2), **more)


def fail(*_args, **_more):
    raise RuntimeError("a fault of ours")


# Ways a call can end


def asked(*statuses, make=large, headers=JSON, **more):
    """Ask once over a connection of its own; the answer has one of these statuses."""

    async def end(here):
        answer = await here.ask(headers=headers, body=make(**more))
        assert answer.status in statuses, answer

    return end


def again():
    """Ask the same each time: from the second on that is a loop."""
    return asked(200, 429, text="Again?")


async def twice_over_one_connection(here):
    client = await here.connect()
    for body in (large("Again?"), large(), large("Again?")):
        await client.send(request(headers=JSON, body=body))
        assert (await client.answer()).status in (200, 429)


async def pipelined(here):
    client = await here.connect()
    sent = [request(headers=JSON, body=large("Again?")), request(headers=JSON, body=large())]
    await client.send(b"".join(sent))
    for _ in sent:
        assert (await client.answer()).status in (200, 429)


async def in_pieces(here):
    client, body = await here.connect(), large("Again?")
    data = request(headers=JSON, body=body)
    for at in range(0, len(data), 100_000):
        await client.send(data[at : at + 100_000])
        await asyncio.sleep(0)
    assert (await client.answer()).status in (200, 429)


async def refused_by_a_kill_switch(here):
    if not here.app.shared_settings.kill_switches.in_force():
        await here.app.shared_settings.kill_switches.add(RED)
    await asked(403, headers=JSON | {"X-Team": "red"})(here)


async def denied(here):
    if not here.app.ring.has_keys:
        here.add_key()
    await asked(401)(here)


async def denied_before_its_body(here):
    if not here.app.ring.has_keys:
        here.add_key()
    client = await here.connect()
    data = request(headers=JSON, body=large())
    await client.send(data[: SIZE // 2])
    assert (await client.answer()).status == 401


async def held_back_and_forwarded(here):
    client, body = await here.connect(), large("Again?")
    await client.send(request(headers=JSON, body=body))
    await until(lambda: here.app.gateway._delayed or here.provider.requests)
    here.app.gateway.forward_delayed()
    assert (await client.answer()).status == 200


async def held_back_and_left(here):
    if not here.app.server.requests:  # once: what waits to be logged is in memory, too
        await repeat_silently(here, 60)
    client = await here.connect()
    await client.send(request(headers=JSON, body=chat()))
    await until(lambda: here.app.gateway._delayed)
    client.close()
    await until(lambda: not here.app.gateway._delayed)


async def one_too_many_is_held_back(here):
    here.monkeypatch.setattr(handler, "MAX_DELAYED_CALLS", 0)
    await asked(200, 429, text="Again?")(here)


async def left_before_the_first_byte(here):
    client = await here.connect()
    before = here.provider.disconnects
    await client.send(request(headers=JSON, body=large()))
    await until(lambda: here.provider.requests)
    client.close()
    await until(lambda: here.provider.disconnects > before)


async def left_while_it_is_judged(here):
    client = await here.connect()
    seen = here.app.server.requests
    await client.send(request(headers=JSON, body=large()))
    await until(lambda: here.app.server.requests > seen)
    client.writer.transport.abort()


async def left_mid_stream(here):
    client = await here.connect()
    before = here.provider.disconnects
    await client.send(request(headers=JSON, body=large(stream=True)))
    await client.head()
    assert await anext(client.chunks())
    client.close()
    await until(lambda: here.provider.disconnects > before)


async def left_mid_body(here):
    client = await here.connect()
    seen = here.app.server.requests
    await client.send(request(headers=JSON, body=large())[: SIZE // 2])
    await until(lambda: here.app.server.requests > seen)
    client.close()


async def cut(here, **more):
    client = await here.connect()
    await client.send(request(headers=JSON, body=large(**more)))
    status, _ = await client.head()
    assert status == 200
    await client.rest()


async def cut_between_events(here):
    answer = await here.ask(headers=JSON, body=large(stream=True))
    assert b"upstream_reset" in answer.body


async def decided(here):
    for body in (large(), large("Again?")):
        answer = await here.ask(target=f"/looptrap/decision{CHAT}", headers=JSON, body=body)
        assert answer.status in (200, 429)


async def no_route(here):
    answer = await here.ask(target="/elsewhere", headers=JSON, body=large())
    assert answer.status == 404


async def malformed(here):
    client = await here.connect()
    await client.send(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nBad\r\n\r\n123")
    assert (await client.answer()).status == 400


async def malformed_chunks(here):
    client = await here.connect()
    head = f"POST {CHAT} HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n".encode()
    await client.send(head + b"%x\r\n" % SIZE + b"x" * SIZE + b"oh")
    assert (await client.answer()).status == 400


async def too_large(here):
    client = await here.connect()
    head = f"POST {CHAT} HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n".encode()
    body = large()
    await client.send(head + b"%x\r\n" % (2 * len(body)) + body)
    await client.send(body)
    assert (await client.answer()).status == 413


async def a_fault_while_judging(here):
    here.monkeypatch.setattr(here.app.gateway.judge, "judge_now", fail)
    await asked(500)(here)


async def a_fault_while_forwarding(here):
    here.monkeypatch.setattr(here.app.gateway._forwarder, "forward", fail)
    await asked(500)(here)


async def a_fault_after_it_was_held_back(here):
    here.monkeypatch.setattr(here.app.gateway._forwarder, "forward", fail)
    client = await here.connect()
    await client.send(request(headers=JSON, body=large("Again?")))
    seen = here.app.server.requests
    await until(lambda: here.app.gateway._delayed or here.app.server.handler_errors >= seen)
    here.app.gateway.forward_delayed()
    assert (await client.answer()).status == 500


async def a_fault_after_it_was_judged(here):
    here.monkeypatch.setattr(here.app.gateway, "_capture", SimpleNamespace(add=fail))
    await asked(500)(here)


async def a_fault_while_refusing(here):
    here.monkeypatch.setattr(transaction, "refusal", fail)
    await asked(200, 500, text="Again?")(here)


async def a_fault_while_answering(here):
    here.monkeypatch.setattr(Relay, "on_head", fail)
    await asked(502)(here)


async def a_fault_at_the_end_of_an_answer(here):
    here.monkeypatch.setattr(transaction.Transaction, "cost", fail)
    client = await here.connect()
    await client.send(request(headers=JSON, body=large()))
    with pytest.raises((ConnectionResetError, asyncio.IncompleteReadError)):
        await client.answer()


async def a_fault_while_it_is_told_what_broke(here):
    here.monkeypatch.setattr(Relay, "_failure", fail)
    await asked(500)(here)


async def a_fault_while_a_failed_answer_is_read(here):
    here.monkeypatch.setattr(ResponseBuffer, "classified", fail)
    await asked(500)(here)


async def a_fault_while_settling(here):
    here.monkeypatch.setattr(here.app.recorder, "record_call", fail)
    await asked(200, 500)(here)


async def a_fault_between_attempts(here):
    here.monkeypatch.setattr(RoutedRequest, "_give_up", fail)
    await asked(500)(here)


# The table


@dataclass
class Way:
    """One way a call can end: the gateway, the provider behind it, and what a client does."""

    end: Callable[[Any], Any]
    toml: str = ""
    script: Any = ()
    flags: dict = field(default_factory=dict)
    reports: bool = False
    """Whether asyncio itself reports a fault."""


HANG = [Reply.hang()]
STREAM = [Reply.sse(*TICKS)]
CUT = Reply.drop(Reply.sse(*TICKS), after_bytes=len(TICKS[0]) + 12)
EARLY = {"first_byte_timeout": "50ms"}
OURS = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nX-Odd: "

WAYS = {
    "answered whole": Way(asked(200)),
    "answered over a connection that stays": Way(twice_over_one_connection, LOOP),
    "pipelined": Way(pipelined, LOOP),
    "sent in pieces": Way(in_pieces, LOOP),
    "streamed to the end": Way(asked(200, stream=True), script=STREAM),
    "streamed and listened to": Way(
        asked(200, stream=True), CHANT.format(action="warn"), [FOREVER]
    ),
    "cut by a rule that listens": Way(
        asked(200, stream=True), CHANT.format(action="stop"), [FOREVER]
    ),
    "refused by a rule": Way(again(), LOOP),
    "refused as a stream": Way(asked(200, 429, text="Again?", stream=True), LOOP),
    "refused by a budget": Way(asked(402), BUDGET),
    "refused by a rate": Way(asked(200, 429), RATE),
    "refused by a kill switch": Way(refused_by_a_kill_switch),
    "denied": Way(denied),
    "denied before its body": Way(denied_before_its_body),
    "stopped with a final message": Way(asked(200, text="Again?"), STOP),
    "nudged": Way(asked(200, text="Again?"), LOOP + 'action = "nudge"\n'),
    "held back and forwarded": Way(held_back_and_forwarded, THROTTLE),
    "held back and left": Way(held_back_and_left, THROTTLE),
    "one too many to be held back": Way(one_too_many_is_held_back, THROTTLE),
    "left before the first byte": Way(left_before_the_first_byte, script=HANG),
    "left mid-stream": Way(left_mid_stream, script=lambda _: Reply.sse(TICKS[0], Gate(), TICKS[1])),
    "left mid-body": Way(left_mid_body),
    "the provider cannot be reached": Way(asked(502), flags={"upstream": "http://127.0.0.1:9"}),
    "the provider closes at once": Way(asked(502), script=[Reply.drop()]),
    "the provider sends no HTTP": Way(asked(502), script=[Reply.raw(b"SSH-2.0\r\n")]),
    "the provider sends too many headers": Way(
        asked(502), script=[Reply.raw(b"HTTP/1.1 200 OK\r\n" + b"X-A: b\r\n" * 300 + b"\r\n")]
    ),
    "the provider cuts an answer": Way(cut, script=[Reply.drop(after_bytes=20)]),
    "the provider cuts an event": Way(lambda here: cut(here, stream=True), script=[CUT]),
    "the provider cuts between events": Way(
        cut_between_events, script=[Reply.drop(Reply.sse(*TICKS), after_chunks=2)]
    ),
    "the provider is silent": Way(
        asked(504), "[gateway]\nfirst_byte_timeout = 0.05\n", script=HANG
    ),
    "no route": Way(no_route, flags={"upstream": None}),
    "a decision": Way(decided, LOOP),
    "malformed": Way(malformed),
    "malformed chunks": Way(malformed_chunks),
    "too large": Way(too_large, f"[gateway]\nmax_body = {SIZE + 100_000}\n"),
    "a fault while judging": Way(a_fault_while_judging),
    "a fault while forwarding": Way(a_fault_while_forwarding),
    "a fault after it was judged": Way(a_fault_after_it_was_judged),
    "a fault after it was held back": Way(a_fault_after_it_was_held_back, THROTTLE),
    "a fault while refusing": Way(a_fault_while_refusing, LOOP),
    "a fault while answering": Way(a_fault_while_answering, reports=True),
    "a fault at the end of an answer": Way(a_fault_at_the_end_of_an_answer),
    "a fault while it is told what broke": Way(
        a_fault_while_it_is_told_what_broke, script=[Reply.drop()]
    ),
    "a fault while settling": Way(a_fault_while_settling),
}

OVER_ATTEMPTS = {
    "one attempt": (RETRIED, [[Reply.text("ok")]], asked(200)),
    "a second attempt": (RETRIED, [lambda _: Reply.status(503)], asked(503)),
    "a stream": (RETRIED, [STREAM], asked(200, stream=True)),
    "a stream that fails before it says anything": (
        CHAIN, [[Reply.drop(STREAM[0], after_bytes=0)], STREAM], asked(200, stream=True),
    ),
    "a stream that breaks off": (RETRIED, [[CUT]], lambda here: cut(here, stream=True)),
    "failed over": (CHAIN, [lambda _: Reply.status(500), [Reply.text("ok")]], asked(200)),
    "all fail": (CHAIN, [lambda _: Reply.drop()] * 2, asked(502, 503)),
    "none can be reached": (CHAIN, [None, None], asked(502, 503)),
    "too late for an attempt": (
        RETRIED + "attempt_timeout = 0.03\n", [lambda _: Reply.hang()], asked(504, 503),
    ),
    "too late for the route": (
        RETRIED + "deadline = 0.05\n", [lambda _: Reply.hang()], asked(504, 503),
    ),
    "left while it waits": (RETRIED, [HANG], left_before_the_first_byte),
    "left mid-stream": (
        RETRIED, [lambda _: Reply.sse(TICKS[0], Gate(), TICKS[1])], left_mid_stream,
    ),
    "a fault of ours": (RETRIED, [lambda _: Reply.status(400)], a_fault_between_attempts),
    "a fault while a failed answer is read": (
        RETRIED, [lambda _: Reply.status(500)], a_fault_while_a_failed_answer_is_read,
    ),
}  # fmt: skip

SHARED = {
    "answered": Way(asked(200)),
    "refused": Way(again(), LOOP),
    "stopped": Way(asked(200, text="Again?"), STOP),
    "a decision": Way(decided, LOOP),
    "left while it is judged": Way(left_while_it_is_judged, LOOP),
    "a fault after it was judged": Way(a_fault_after_it_was_judged),
}


# Looking


def alive():
    """Return how many objects of each kind there are that belong to one call only."""
    return Counter(type(one).__name__ for one in gc.get_objects() if isinstance(one, OF_A_CALL))


@pytest.fixture
def before():
    """Have nothing freed but what Python frees by counting references; return what is there."""
    gc.collect()
    gc.disable()
    logging.disable()  # pytest keeps what is logged, with its traceback
    yield alive()
    logging.disable(logging.NOTSET)
    gc.enable()
    gc.collect()


async def settle_down(here):
    """Close every client, and wait until the gateway knows."""
    for client in here.clients:
        client.close()
    here.clients.clear()
    server, pools = here.app.server, here.app.pools
    await until(lambda: not server._open and not any(pool.in_flight for pool in pools))
    await until(lambda: not any(pool._tasks for pool in pools))
    for _ in range(5):
        await asyncio.sleep(0)


async def look(here, end, providers, before):
    def forget():
        for one in providers:
            one.requests.clear()
            one._errors.clear()

    await end(here)
    await settle_down(here)
    forget()
    tracemalloc.start()
    try:
        for _ in range(TIMES):
            forget()
            await end(here)
        await settle_down(here)
        forget()
        ours = [
            tracemalloc.Filter(True, "*/looptrap/*"),
            tracemalloc.Filter(False, "*/looptrap/testing/*"),
        ]
        kept = tracemalloc.take_snapshot().filter_traces(ours).statistics("lineno")
    finally:
        tracemalloc.stop()
    # What the pool still has open is idle, and its far end is the fake provider's.
    idle = sum(len(pool._connections) for pool in here.app.pools)
    left = alive() - before - Counter({"UpstreamConnection": idle, "ServerConnection": idle})
    assert left == {}
    assert sum(one.size for one in kept) < SIZE, kept[:3]


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
async def test_nothing_of_a_call_is_left(tmp_path, monkeypatch, before, way):
    if way.reports:
        asyncio.get_running_loop().set_exception_handler(lambda _loop, _context: None)
    async with serving(tmp_path, way.toml, script=way.script, **way.flags) as here:
        here.monkeypatch = monkeypatch
        await look(here, way.end, [here.provider], before)


@pytest.mark.parametrize(("routes", "scripts", "end"), OVER_ATTEMPTS.values(), ids=OVER_ATTEMPTS)
async def test_nothing_of_attempts_is_left(tmp_path, monkeypatch, before, routes, scripts, end):
    async with AsyncExitStack() as stack:
        named = dict(zip(("one", "two"), scripts, strict=False))
        providers = ""
        for name in [name for name, script in named.items() if script is None]:
            providers += f'[[providers]]\nname = "{name}"\nbase_url = "http://127.0.0.1:9"\n'
            providers += f'api_key_env = "KEY_{name.upper()}"\n'
            named[name] = ()
        there = await stack.enter_async_context(
            attempting(tmp_path, routes, scripts=named, providers=providers)
        )
        here = there.gateway
        here.monkeypatch = monkeypatch
        here.provider = there.providers["one"]
        await look(here, end, there.providers.values(), before)


@pytest.mark.parametrize("way", SHARED.values(), ids=SHARED)
async def test_nothing_is_left_of_a_call_that_instances_judge_together(
    instances, monkeypatch, before, way
):
    [here] = await instances(1, way.toml)
    here.monkeypatch = monkeypatch
    await look(here, way.end, [here.provider], before)
