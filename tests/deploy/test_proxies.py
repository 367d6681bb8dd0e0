"""What every proxy that asks Looptrap must do alike, with the files as they are shipped."""

import msgspec
import pytest
from tests.deploy.conftest import READS
from tests.gateway.serving import CHAT, JSON, chat, request

from looptrap.testing import FakeProvider, Gate, Reply

SLOW = """
[[policies]]
name = "reads"
  [[policies.rates]]
  name = "slow"
  rps = 0.01
  burst = 2
"""
RPC = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}


@pytest.mark.parametrize(
    ("method", "target"),
    [("GET", "/jobs/7?now=1"), ("DELETE", "/jobs/7"), ("POST", "/jobs/7/start")],
)
async def test_what_is_allowed_is_forwarded_and_a_loop_refused_with_the_real_status(
    proxy, method, target
):
    for _ in range(3):
        answer = await proxy.ask(method, target)
        assert (answer.status, answer.body) == (200, b'{"ok":true}')
        assert answer.headers[b"x-looptrap-verdict"] == b"allow"
    refused = await proxy.ask(method, target)
    assert refused.status == 429
    assert refused.headers[b"retry-after"] == b"60"
    assert refused.headers[b"x-should-retry"] == b"false"
    assert refused.headers[b"x-looptrap-verdict"] == b"block"
    assert refused.headers[b"x-looptrap-reason"] == b"loop_detected"
    assert refused.headers[b"x-looptrap-rule"] == b"same-request"
    assert refused.headers[b"x-looptrap-count"] == b"4"
    assert refused.headers[b"x-looptrap-cost-usd"] == b"0"
    assert refused.headers[b"x-request-id"]
    assert refused.headers[b"content-type"] == b"application/json"
    told = msgspec.json.decode(refused.body)
    assert told["error"]["type"] == "loop_detected"
    assert told["error"]["code"] == told["detail"]["error"] == "recursive_loop_detected"
    assert told["error"]["message"] == told["detail"]["message"] != ""
    assert (told["detail"]["hit_count"], told["detail"]["rule"]) == (4, "same-request")
    assert proxy.forwarded == [(method, target)] * 3


async def test_bodies_are_forwarded_as_they_are_large_ones_too(proxy):
    for text in ("a question", "a picture " * 400_000):
        answer = await proxy.ask("POST", CHAT, JSON, chat(text))
        assert answer.status == 200
        assert proxy.here.provider.requests[-1].body == chat(text)


async def test_a_body_in_chunks_is_forwarded(proxy):
    head = request("POST", CHAT, JSON).replace(b"Content-Length: 0", b"Transfer-Encoding: chunked")
    half = len(chat()) // 2
    async with proxy.connected() as client:
        await client.send(head)
        for piece in (chat()[:half], chat()[half:], b""):
            await client.send(b"%x\r\n%b\r\n" % (len(piece), piece))
        assert (await client.answer(b"POST")).status == 200
    assert proxy.here.provider.requests[-1].body == chat()


async def test_a_refusal_of_the_protected_server_passes_as_it_is(start, name):
    theirs = {"retry-after": "7", "x-request-id": "theirs"}
    proxy = await start(name, script=lambda _: Reply.status(403, {"error": "theirs"}, theirs))
    answer = await proxy.ask("GET", "/forbidden")
    assert (answer.status, answer.body) == (403, b'{"error":"theirs"}')
    assert answer.headers[b"x-request-id"] == b"theirs"
    assert answer.headers[b"retry-after"] == b"7"


async def test_a_stream_passes_piece_by_piece(start, name):
    pieces = [b"data: %d\n\n" % number for number in range(3)]
    gates = [Gate(), Gate()]
    # What comes with the head is often passed on at once, so there is more than one to wait for.
    script = [pieces[0], gates[0], pieces[1], gates[1], pieces[2]]
    proxy = await start(name, script=lambda _: Reply.sse(*script))
    async with proxy.connected() as client:
        await client.send(request("POST", CHAT, JSON, chat(stream=True)))
        status, headers = await client.head()
        assert (status, headers[b"content-type"]) == (200, b"text/event-stream; charset=utf-8")
        arriving = client.chunks()
        for piece, gate in zip(pieces, gates, strict=False):
            assert await anext(arriving) == piece
            gate.open()
        assert b"".join([piece async for piece in arriving]) == pieces[2]


@pytest.mark.parametrize(
    ("method", "body"),
    [
        pytest.param("POST", msgspec.json.encode(RPC), id="a message"),
        pytest.param("GET", b"", id="a stream of the server"),
        pytest.param("DELETE", b"", id="the end of a session"),
    ],
)
async def test_mcp_passes_untouched(proxy, method, body):
    headers = {"Mcp-Session-Id": "s1", "Accept": "application/json, text/event-stream", **JSON}
    assert (await proxy.ask(method, "/mcp", headers, body)).status == 200
    (seen,) = proxy.here.provider.requests
    assert (seen.method, seen.target, seen.body) == (method, "/mcp", body)
    for header, value in headers.items():
        assert seen.headers[header.lower()] == value


async def test_a_missing_gateway_key_is_a_401_and_a_key_goes_no_further(proxy):
    key = proxy.here.add_key()
    denied = await proxy.ask("GET", "/x")
    assert denied.status == 401
    assert msgspec.json.decode(denied.body)["error"]["code"] in ("not_admitted", "missing_api_key")
    assert (await proxy.ask("GET", "/x", {"X-Looptrap-Key": key})).status == 200
    assert "x-looptrap-key" not in proxy.here.provider.requests[-1].headers


async def test_a_rate_is_told_to_those_it_binds_and_may_be_tried_again(start, name):
    proxy = await start(name, SLOW)
    left = [(await proxy.ask("GET", "/x")).headers[b"ratelimit-remaining"] for _ in range(2)]
    assert left == [b"1", b"0"]
    refused = await proxy.ask("GET", "/x")
    assert (refused.status, refused.headers[b"ratelimit-limit"]) == (429, b"2")
    assert refused.headers[b"retry-after"] == b"60"
    assert b"x-should-retry" not in refused.headers
    assert msgspec.json.decode(refused.body)["error"]["code"] == "rate_limited"


@pytest.mark.parametrize(
    "forged",
    [
        {"X-Original-URI": "/other/{n}"},
        {"X-Original-Method": "M{n}"},
        {"X-Original-Content-Length": "{n}"},
        {"X-Real-IP": "192.0.2.{n}"},
        {"X-Forwarded-For": "192.0.2.{n}"},
    ],
    ids=lambda forged: next(iter(forged)),
)
async def test_nobody_escapes_by_headers_that_only_a_proxy_may_set(proxy, forged):
    statuses = []
    for number in range(4):
        headers = {name: value.format(n=number) for name, value in forged.items()}
        statuses.append((await proxy.ask("DELETE", "/jobs/7", headers)).status)
    assert statuses == [200, 200, 200, 429]


async def test_callers_without_a_credential_are_told_apart_by_their_address(start, name):
    proxy = await start(name, READS.replace('"request"', '"request"\n  by = ["caller"]'))
    asked = {"method": "GET", "target": "/jobs"}
    assert await proxy.statuses(3, **asked) == [200] * 3
    assert await proxy.statuses(3, source="127.0.0.2", **asked) == [200] * 3
    assert await proxy.statuses(1, **asked) == [429]


async def test_without_looptrap_requests_pass(proxy):
    await proxy.here.app.stop()
    assert await proxy.statuses(5, method="GET", target="/jobs/7") == [200] * 5


@pytest.mark.parametrize(
    ("reply", "times"),
    [
        pytest.param(Reply.status(500), 5, id="it fails"),
        pytest.param(Reply.status(503), 5, id="it has too much to do"),
        pytest.param(Reply.hang(), 1, id="it says nothing"),
    ],
)
async def test_where_looptrap_cannot_say_requests_pass(start, name, reply, times):
    async with FakeProvider(lambda _: reply) as failing:
        proxy = await start(name, asked=failing.url.rpartition(":")[2])
        assert await proxy.statuses(times, method="GET", target="/jobs/7") == [200] * times
        assert len(failing.requests) == times
