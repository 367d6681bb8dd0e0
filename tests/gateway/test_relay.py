"""Answers on their way back: every byte as the provider sent it, when it sent it, and no later."""

import asyncio
import socket

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.dialect.streams import events
from tests.examples import examples
from tests.gateway.serving import CHAT, JSON, chat, request
from tests.wire.fake_client import until

from looptrap.policy.action import Action
from looptrap.testing import Gate, Reply

STREAM = chat(stream=True)
TICKS = [b'data: {"choices":[{"delta":{"content":"%d"}}]}\n\n' % i for i in range(3)]
DIALECTS = [
    pytest.param(CHAT, lambda body: body["error"]["code"], id="openai"),
    pytest.param("/v1/messages", lambda b: b["error"]["details"]["error_code"], id="anthropic"),
    pytest.param(
        "/v1beta/models/g:generateContent",
        lambda body: body["error"]["details"][0]["reason"].lower(),
        id="gemini",
    ),
]


async def test_a_chunk_reaches_the_client_before_the_next_is_sent(serve):
    gates = [Gate(), Gate()]
    here = await serve(script=[Reply.sse(TICKS[0], gates[0], TICKS[1], gates[1], TICKS[2])])
    client = await here.connect()
    await client.send(request(headers=JSON, body=STREAM))
    status, headers = await client.head()
    assert status == 200
    assert headers[b"content-type"].startswith(b"text/event-stream")
    assert headers[b"x-looptrap-verdict"] == b"allow"
    chunks = client.chunks()
    assert await anext(chunks) == TICKS[0]
    for gate, tick in zip(gates, TICKS[1:], strict=True):
        assert gate.reached.is_set, "the provider waits: it has sent no more than the client has"
        gate.open()
        assert await anext(chunks) == tick
    assert [chunk async for chunk in chunks] == []


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"".join(TICKS) + b"data: [DONE]\n\n", id="a stream"),
        pytest.param(
            b": comment\r\n\r\nevent: x\rdata:\xff\xfe\x00 \n", id="no stream one expects"
        ),
        pytest.param(bytes(range(256)) * 400, id="any bytes"),
        pytest.param(b"", id="nothing"),
    ],
)
async def test_every_byte_of_a_stream_arrives_unchanged(serve, body):
    pieces = [body[at : at + 97] for at in range(0, len(body), 97)]
    here = await serve(script=[Reply.sse(*pieces)])
    answer = await here.ask(headers=JSON, body=STREAM)
    assert answer.body == body


async def test_status_reason_and_headers_of_the_provider_pass(serve):
    raw = (
        b"HTTP/1.1 418 Short And Stout\r\nX-One: a\r\nx-ONE: b\r\nConnection: close, X-Hop\r\n"
        b"X-Hop: gone\r\nKeep-Alive: timeout=5\r\nX-Request-Id: theirs\r\n"
        b"Content-Length: 3\r\n\r\ntea"
    )
    here = await serve(script=[Reply.raw(raw)])
    client = await here.connect()
    await client.send(request(headers=JSON, body=chat()))
    head = await client.reader.readuntil(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 418 Short And Stout\r\nX-One: a\r\nx-ONE: b\r\n")
    assert head.count(b"theirs") == 1
    assert head.lower().count(b"x-request-id") == 1
    assert b"gone" not in head
    assert b"timeout=5" not in head
    assert await client.reader.readexactly(3) == b"tea"


PRETENDED = {"X-Looptrap-Verdict": "block", "x-looptrap-new": "theirs", "X-Own": "kept"}


@pytest.mark.parametrize("body", [chat(), STREAM], ids=["whole", "a stream"])
async def test_headers_named_as_ours_are_ours_alone(serve, body):
    here = await serve(script=[Reply.status(200, {"choices": []}, PRETENDED)])
    client = await here.connect()
    await client.send(request(headers=JSON, body=body))
    head = (await client.reader.readuntil(b"\r\n\r\n")).lower()
    assert head.count(b"x-looptrap-verdict: ") == head.count(b"x-looptrap-verdict: allow") == 1
    assert b"theirs" not in head
    assert b"x-own: kept" in head


@pytest.mark.parametrize("digits", [20, 5_000])
async def test_a_length_that_no_answer_can_have_is_a_502(serve, digits):
    raw = b"HTTP/1.1 200 OK\r\nContent-Length: " + b"9" * digits + b"\r\n\r\nhi"
    here = await serve(script=[Reply.raw(raw)])
    assert (await here.ask(headers=JSON, body=chat())).status == 502


@pytest.mark.parametrize(
    "name",
    [
        "x-stainless-retry-count",
        "Content-Length",
        "X-Looptrap-Session-Limit-Usd",
        "X-Looptrap-Progress",
        "X-Looptrap-Turn",
        "X-Original-Content-Length",
        "traceparent",
        "baggage",
    ],
)
async def test_no_number_in_a_header_is_too_long_for_us(serve, name):
    here = await serve()
    client = await here.connect()
    body = chat()
    lines = {"Host": "gateway", "Content-Length": str(len(body)), name: "9" * 5_000}
    head = "".join(f"{key}: {value}\r\n" for key, value in lines.items())
    await client.send(f"POST {CHAT} HTTP/1.1\r\n{head}\r\n".encode() + body)
    answer = await client.answer()
    assert answer.status < 500
    assert here.app.server.handler_errors == 0


async def test_a_client_that_leaves_mid_stream_ends_the_providers_work(serve):
    gate = Gate()
    here = await serve(script=[Reply.sse(TICKS[0], gate, TICKS[1])])
    client = await here.connect()
    await client.send(request(headers=JSON, body=STREAM))
    await client.head()
    assert await anext(client.chunks()) == TICKS[0]
    client.close()
    await gate.abandoned.wait()
    assert here.provider.disconnects == 1
    await until(lambda: here.app.tally.statuses[200] == 1)


async def test_a_client_that_leaves_before_the_answer_ends_the_providers_work(serve):
    gate = Gate()
    here = await serve(script=[Reply.pause(gate)])
    client = await here.connect()
    await client.send(request(headers=JSON, body=chat()))
    await gate.reached.wait()
    client.close()
    await gate.abandoned.wait()
    await until(lambda: here.app.tally.statuses[499] == 1)


INSIDE = len(TICKS[0]) + 12


@pytest.mark.parametrize(
    ("reply", "body"),
    [
        pytest.param(
            Reply.drop(Reply.sse(*TICKS), after_bytes=INSIDE), STREAM, id="inside an event"
        ),
        pytest.param(Reply.drop(after_bytes=20), chat(), id="an answer of known length"),
    ],
)
async def test_an_answer_that_breaks_off_is_seen_as_truncated(serve, reply, body):
    here = await serve(script=[reply])
    client = await here.connect()
    await client.send(request(headers=JSON, body=body))
    status, headers = await client.head()
    assert status == 200
    rest = await client.rest()
    if b"content-length" in headers:
        assert 0 < len(rest) < int(headers[b"content-length"])
    else:
        assert TICKS[1][:12] in rest
        assert not rest.endswith(b"0\r\n\r\n")


async def test_a_stream_that_breaks_off_between_events_ends_with_an_error(serve):
    here = await serve(script=[Reply.drop(Reply.sse(*TICKS), after_chunks=2)])
    client = await here.connect()
    await client.send(request(headers=JSON, body=STREAM))
    answer = await client.answer(b"POST")
    assert answer.body.startswith(b"".join(TICKS[:2]) + b'data: {"error":')
    assert b'"code":"upstream_reset"' in answer.body
    # The connection is as good as after any other answer.
    await client.send(request(headers=JSON, body=chat()))
    assert (await client.head())[0] == 200


@pytest.mark.parametrize(("target", "code_of"), DIALECTS)
async def test_a_provider_that_dies_before_a_byte_is_a_502_in_the_dialect(serve, target, code_of):
    here = await serve(script=lambda _: Reply.drop())
    answer = await here.ask(target=target, headers=JSON, body=chat(max_tokens=1, contents=[]))
    assert answer.status == 502
    assert code_of(msgspec.json.decode(answer.body)) == "upstream_reset"


@pytest.mark.parametrize(("target", "code_of"), DIALECTS)
async def test_a_provider_that_hangs_is_a_504_in_the_dialect(serve, target, code_of):
    here = await serve("[gateway]\nfirst_byte_timeout = 0.05", script=lambda _: Reply.hang())
    answer = await here.ask(target=target, headers=JSON, body=chat(max_tokens=1, contents=[]))
    assert answer.status == 504
    assert code_of(msgspec.json.decode(answer.body)) == "upstream_first_byte_timeout"
    await until(lambda: here.provider.disconnects == 1)


async def test_a_stream_that_falls_silent_ends_with_an_error(serve):
    reply = Reply.hang(Reply.sse(*TICKS), after_chunks=1)
    here = await serve("[gateway]\nidle_timeout = 0.05", script=[reply])
    answer = await here.ask(headers=JSON, body=STREAM)
    assert answer.body.startswith(TICKS[0] + b'data: {"error":')
    assert b'"code":"upstream_idle_timeout"' in answer.body


async def test_a_slow_reader_gets_everything_and_the_gateway_holds_little(serve):
    size = 20 << 20
    body = bytes(range(256)) * (size // 256)
    here = await serve(script=[Reply.status(200, body)])
    loop = asyncio.get_running_loop()
    with socket.socket() as slow:
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)
        slow.setblocking(False)
        await loop.sock_connect(slow, (here.host, here.port))
        await loop.sock_sendall(slow, request(headers=JSON, body=chat()))
        (connection,) = await _connections(here)
        await until(lambda: connection._writing_paused)
        received, head, most = bytearray(), 0, 0
        while len(received) < head + size:
            async with asyncio.timeout(5):
                received += await loop.sock_recv(slow, 1 << 18)
            head = head or received.index(b"\r\n\r\n") + 4
            most = max(most, connection.transport.get_write_buffer_size())
    assert received[head:] == body
    assert most < 1 << 20


async def _connections(here):
    await until(lambda: here.app.server._open)
    return here.app.server._open


async def test_usage_is_read_from_a_stream_as_it_passes(serve):
    here = await serve()
    body = chat(stream=True, stream_options={"include_usage": True})
    await here.ask(headers=JSON, body=body)
    await until(lambda: here.app.tally.output_tokens > 0)
    assert here.app.tally.input_tokens > 0


CHANT = """
[[policies]]
name = "p"
  [[policies.rules]]
  name = "chanting"
  watch = "chant"
  threshold = 6
  action = "{action}"
"""
FOREVER = "I am sorry, I cannot find that file. Let me try once more. " * 300
SAID = events("chat", FOREVER)
CHANTED = b"".join(SAID)
HONEST = b"".join(events("chat", " ".join(f"word {n}" for n in range(300))))


def cut_up(data, size):
    return [data[at : at + size] for at in range(0, len(data), size)]


@pytest.mark.parametrize("size", [61, 183, 4096, 10**6])
async def test_a_chant_is_stopped_and_ends_like_any_other_answer(serve, size):
    script = [Reply.sse(*cut_up(CHANTED, size)), Reply.text()]
    here = await serve(CHANT.format(action="stop"), script=script)
    client = await here.connect()
    await client.send(request(headers=JSON, body=STREAM))
    answer = await client.answer(b"POST")
    sent, comment, end = answer.body.partition(b": looptrap stop chant\n\n")
    assert comment
    assert CHANTED.startswith(sent)
    assert sent.endswith(b"}\n\n")
    assert end.endswith(b"data: [DONE]\n\n")
    assert len(sent) < len(CHANTED) / 2 or size > len(CHANTED)
    # The connection is as good as after any other answer.
    await client.send(request(headers=JSON, body=chat("And now?")))
    assert (await client.answer(b"POST")).status == 200


async def test_the_provider_of_a_chant_is_hung_up_on_and_the_call_settled_once(serve):
    # The provider waits in mid-stream, where only a hang-up can end its work.
    gate = Gate()
    here = await serve(CHANT.format(action="block"), script=[Reply.sse(*SAID[:2_000], gate)])
    settled = []
    here.app.gateway._settler._on_settled = lambda _, outcome: settled.append(outcome)
    answer = await here.ask(headers=JSON, body=STREAM)
    assert b'"code":"recursive_loop_detected"' in answer.body
    assert answer.body.endswith(b"data: [DONE]\n\n")
    await until(lambda: here.provider.disconnects == 1)
    await until(lambda: settled)
    (outcome,) = settled
    assert outcome.cut_off
    assert outcome.status == 200
    assert 400 < outcome.usage.output_tokens < len(FOREVER) // 4
    assert here.app.tally.rules["p", "chanting", Action.BLOCK] == 1
    (pool,) = here.app.pools._pools.values()
    assert pool.in_flight == 0


async def test_what_is_milder_than_a_stop_is_counted_and_the_stream_passes(serve):
    here = await serve(CHANT.format(action="warn"), script=[Reply.sse(CHANTED)])
    answer = await here.ask(headers=JSON, body=STREAM)
    assert answer.body == CHANTED
    await until(lambda: here.app.tally.rules["p", "chanting", Action.WARN] == 1)


async def test_a_chant_in_shadow_passes(serve):
    shadow = CHANT.format(action="block").replace('name = "p"', 'name = "p"\nmode = "shadow"')
    here = await serve(shadow, script=[Reply.sse(CHANTED)])
    answer = await here.ask(headers=JSON, body=STREAM)
    assert answer.body == CHANTED
    await until(lambda: here.app.tally.shadow_rules["p", "chanting", Action.BLOCK] == 1)


@settings(
    max_examples=examples(15),
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(sizes=st.lists(st.integers(30, 9_000), min_size=1, max_size=20))
async def test_a_stream_that_is_heard_passes_byte_for_byte(serve, sizes):
    pieces, at = [], 0
    while at < len(HONEST):
        size = sizes[len(pieces) % len(sizes)]
        pieces.append(HONEST[at : at + size])
        at += size
    here = await serve(CHANT.format(action="block"), script=[Reply.sse(*pieces)])
    assert (await here.ask(headers=JSON, body=STREAM)).body == HONEST


async def test_a_stream_that_told_its_length_is_left_alone(serve):
    reply = Reply.status(200, CHANTED, {"Content-Type": "text/event-stream"})
    here = await serve(CHANT.format(action="block"), script=[reply])
    answer = await here.ask(headers=JSON, body=STREAM)
    assert answer.body == CHANTED
    await until(lambda: here.app.tally.rules["p", "chanting", Action.BLOCK] == 1)


async def test_an_encoded_stream_is_not_heard(serve):
    raw = (
        b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Encoding: br\r\n"
        b"Connection: close\r\n\r\n" + CHANTED
    )
    here = await serve(CHANT.format(action="block"), script=[Reply.raw(raw)])
    answer = await here.ask(headers=JSON, body=STREAM)
    assert answer.body == CHANTED


async def test_a_chant_in_one_piece_is_counted(serve):
    here = await serve(CHANT.format(action="block"), script=[Reply.text(FOREVER)])
    answer = await here.ask(headers=JSON, body=chat())
    said = msgspec.json.decode(answer.body)["choices"][0]
    assert said["message"]["content"] == FOREVER
    await until(lambda: here.app.tally.rules["p", "chanting", Action.BLOCK] == 1)


async def test_the_close_ends_a_cut_stream_of_http_1_0(serve):
    here = await serve(CHANT.format(action="stop"), script=[Reply.sse(CHANTED)])
    client = await here.connect()
    sent = request(headers=JSON, body=STREAM).replace(b"HTTP/1.1", b"HTTP/1.0", 1)
    await client.send(sent)
    await client.head()
    assert (await client.rest()).endswith(b"data: [DONE]\n\n")
