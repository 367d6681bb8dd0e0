"""Request headers: what the gateway reads from them, and which of them the provider gets."""

import gzip
import zlib

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.gateway.serving import CHAT, JSON, chat

from looptrap.gateway.request_context import InboundHeaderReader
from looptrap.testing import Reply
from looptrap.wire.header_fields import HOP_BY_HOP

IDENTITY = (b"accept-encoding", b"identity")
SESSIONS = ("X-Looptrap-Session", "X-Session-Id")


@pytest.fixture
def reader():
    return InboundHeaderReader(SESSIONS, relay_compressed=False)


@pytest.mark.parametrize(
    ("headers", "forwarded"),
    [
        pytest.param([(b"x-custom", b"1")], [(b"x-custom", b"1")], id="any other header"),
        pytest.param(
            [(b"a", b"1"), (b"b", b"2"), (b"a", b"3")],
            [(b"a", b"1"), (b"b", b"2"), (b"a", b"3")],
            id="order and repeats stay",
        ),
        pytest.param([(name, b"x") for name in sorted(HOP_BY_HOP)], [], id="hop by hop"),
        pytest.param(
            [(b"host", b"h"), (b"content-length", b"3"), (b"expect", b"x")], [], id="wire"
        ),
        pytest.param([(b"x-looptrap-session", b"s"), (b"x-looptrap-new", b"n")], [], id="ours"),
        pytest.param([(b"x-session-id", b"s")], [(b"x-session-id", b"s")], id="their session"),
        pytest.param([(b"accept-encoding", b"gzip, br")], [], id="compression is not asked for"),
        pytest.param(
            [(b"connection", b"keep-alive, X-Hop"), (b"x-hop", b"1"), (b"x-kept", b"2")],
            [(b"x-kept", b"2")],
            id="named in Connection",
        ),
        pytest.param(
            [
                (b"x-two", b"2"),
                (b"connection", b"x-one"),
                (b"connection", b"X-TWO"),
                (b"x-one", b"1"),
            ],
            [],
            id="named in a second Connection",
        ),
        pytest.param(
            [(b"connection", b"accept-encoding, x-a"), (b"x-a", b"1"), (b"accept-encoding", b"br")],
            [],
            id="Connection takes nothing of ours away",
        ),
        pytest.param(
            [(b"content-encoding", b"gzip"), (b"x-stainless-retry-count", b"1")],
            [(b"content-encoding", b"gzip"), (b"x-stainless-retry-count", b"1")],
            id="read and passed on",
        ),
    ],
)
def test_what_is_forwarded(reader, headers, forwarded):
    assert reader.read(headers).forwarded == [IDENTITY, *forwarded]


def test_compression_can_be_left_to_client_and_provider():
    reader = InboundHeaderReader(SESSIONS, relay_compressed=True)
    headers = [(b"accept-encoding", b"gzip, br")]
    assert reader.read(headers).forwarded == headers


def test_what_carried_a_gateway_key_is_dropped(reader):
    headers = [(b"authorization", b"Bearer lt-1"), (b"x-api-key", b"sk")]
    forwarded = reader.read(headers, frozenset([b"authorization"])).forwarded
    assert forwarded == [IDENTITY, (b"x-api-key", b"sk")]


def test_a_header_that_names_the_session_and_carried_a_gateway_key_is_dropped_too():
    reader = InboundHeaderReader(["X-Api-Key"], relay_compressed=True)
    inbound = reader.read([(b"x-api-key", b"lt-1")], frozenset([b"x-api-key"]))
    assert inbound.forwarded == []


@pytest.mark.parametrize(
    ("value", "is_retry"),
    [
        (b"0", False),
        (b"00", False),
        (b"1", True),
        (b"2", True),
        (b"10", True),
        (b"", False),
        (b"x", False),
        pytest.param(b"0" * 4_301, False, id="4,301 digits, all of them 0"),
        pytest.param(b"9" * 4_301, True, id="4,301 digits"),
    ],
)
def test_sdks_mark_their_own_retries(reader, value, is_retry):
    assert reader.read([(b"x-stainless-retry-count", value)]).is_retry is is_retry


@pytest.mark.parametrize(
    ("sent", "session"),
    [
        pytest.param("nächtlich-日".encode(), "nächtlich-日", id="UTF-8"),
        pytest.param("nächtlich".encode("latin-1"), "nächtlich", id="Latin-1"),
        pytest.param(b"\xff\xfe", "ÿþ", id="any bytes"),
    ],
)
def test_a_session_has_the_name_that_its_client_wrote(reader, sent, session):
    assert reader.read([(b"x-looptrap-session", sent)]).session == session


def test_of_several_session_headers_the_first_configured_counts(reader):
    inbound = reader.read([(b"x-session-id", b"theirs"), (b"x-looptrap-session", b"ours")])
    assert inbound.session == "ours"


names = st.sampled_from([b"connection", b"te", b"x-looptrap-a", b"x-hop", b"x-a", b"cookie"])
fields = st.lists(st.tuples(names, st.sampled_from([b"x-hop", b"close", b"1", b""])), max_size=8)


@given(fields)
def test_nothing_is_forwarded_that_was_not_sent(headers):
    forwarded = InboundHeaderReader(SESSIONS, relay_compressed=True).read(headers).forwarded
    left = iter(headers)
    assert all(field in left for field in forwarded), "a subsequence, in order"
    listed = {value for name, value in headers if name == b"connection"}
    assert not [name for name, _ in forwarded if name in listed | {b"connection", b"te"}]


# Through real sockets


async def test_the_provider_sees_no_header_of_the_hop_before(serve):
    here = await serve()
    headers = [
        ("Content-Type", "application/json"),
        ("Connection", "X-Secret-Hop"),
        ("Connection", "keep-alive"),
        ("X-Secret-Hop", "1"),
        ("Keep-Alive", "timeout=5"),
        ("TE", "trailers"),
        ("Proxy-Authorization", "Basic eA=="),
        ("X-Looptrap-Session", "s-1"),
        ("X-Kept", "é".encode().decode("latin-1")),
    ]
    assert (await here.ask(headers=headers, body=chat())).status == 200
    (received,) = here.provider.requests
    assert set(received.headers) == {
        "host",
        "content-type",
        "accept-encoding",
        "x-kept",
    }
    assert received.headers["host"] == here.provider.url.removeprefix("http://")
    assert received.headers["accept-encoding"] == "identity"
    assert received.headers["x-kept"].encode("latin-1").decode() == "é"


async def test_a_compressed_answer_passes_when_the_operator_lets_it(serve):
    packed = gzip.compress(b'{"choices":[]}')
    reply = {"Content-Encoding": "gzip", "Content-Type": "application/json"}
    here = await serve(
        "[gateway]\nrelay_compressed = true", script=[Reply.status(200, packed, reply)]
    )
    answer = await here.ask(headers=JSON | {"Accept-Encoding": "gzip"}, body=chat())
    assert here.provider.requests[0].headers["accept-encoding"] == "gzip"
    assert answer.headers[b"content-encoding"] == b"gzip"
    assert answer.body == packed


async def test_an_encoded_body_is_judged_by_what_it_says_and_forwarded_as_sent(serve):
    here = await serve()
    answers = []
    for level in range(6):  # the same question, in other bytes each time
        packed = gzip.compress(chat(), compresslevel=level, mtime=level)
        answers.append(await here.ask(headers=JSON | {"Content-Encoding": "gzip"}, body=packed))
        if level < 5:
            assert here.provider.requests[-1].body == packed
            assert here.provider.requests[-1].headers["content-encoding"] == "gzip"
    assert answers[-1].status == 429
    assert answers[-1].headers[b"x-looptrap-rule"] == b"identical-conversation"
    assert len(here.provider.requests) == 5


async def test_a_bomb_is_passed_on_unopened(serve):
    here = await serve("[gateway]\nmax_body = '64KB'")
    bomb = zlib.compress(bytes(50 << 20), 9)
    assert len(bomb) < 64 << 10
    answer = await here.ask(headers=JSON | {"Content-Encoding": "deflate"}, body=bomb)
    assert here.provider.requests[0].body == bomb
    assert answer.headers[b"x-looptrap-verdict"] == b"allow"


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b'{"model": "gpt-5.3", "messages": [', id="cut off"),
        pytest.param(b"\xff\xfe not text", id="no text"),
        pytest.param(b'{"messages": 7, "model": []}', id="other types"),
        pytest.param(b"[" * 5000, id="deep"),
        pytest.param(b'{"a":1, "a":2} trailing', id="trailing"),
    ],
)
async def test_what_cannot_be_read_is_passed_on_as_it_is_until_it_repeats(serve, body):
    here = await serve()
    answers = [await here.ask(headers=JSON, body=body) for _ in range(6)]
    verdicts = [answer.headers[b"x-looptrap-verdict"] for answer in answers]
    assert verdicts == [b"allow"] * 5 + [b"block"]
    assert [one.body for one in here.provider.requests] == [body] * 5
    assert here.app.server.handler_errors == 0


async def test_a_body_that_is_too_large_is_a_readable_413(serve):
    here = await serve()
    size = 50 << 20
    client = await here.connect()
    head = f"POST {CHAT} HTTP/1.1\r\nHost: g\r\nContent-Length: {size}\r\n\r\n".encode()
    client.writer.write(head + bytes(512 << 10))  # as much as a client sends before it looks
    answer = await client.answer()
    assert answer.status == 413
    error = msgspec.json.decode(answer.body)["error"]
    assert error["code"] == "request_too_large"
    assert "larger than 33554432 bytes" in error["message"]
    assert here.provider.requests == []


async def test_a_chunked_body_that_grows_too_large_is_a_readable_413(serve):
    here = await serve("[gateway]\nmax_body = '1MB'")
    client = await here.connect()
    head = b"POST /v1/messages HTTP/1.1\r\nHost: g\r\nTransfer-Encoding: chunked\r\n\r\n"
    client.writer.write(head + b"10000\r\n%b\r\n" % bytes(65536) * 20)
    answer = await client.answer()
    assert answer.status == 413
    assert msgspec.json.decode(answer.body)["error"]["type"] == "request_too_large"


async def test_ten_thousand_headers_are_a_431(serve):
    here = await serve()
    lines = b"".join(b"X-%d: 1\r\n" % i for i in range(10_000))
    client = await here.connect()
    client.writer.write(b"POST %b HTTP/1.1\r\nHost: g\r\n%b\r\n" % (CHAT.encode(), lines))
    answer = await client.answer()
    assert answer.status == 431
    assert msgspec.json.decode(answer.body)["error"]["code"]
    assert here.provider.requests == []


async def test_a_gateway_key_is_forwarded_from_nowhere(serve):
    here = await serve()
    key = here.add_key()
    headers = JSON | {
        "X-Looptrap-Key": key,
        "Authorization": "Bearer sk-own",
        "Cookie": f"a=1; looptrap={key}; b=2",
        "X-Custom-Token": f"Token {key}",
        "Proxy-Authorization": f"Bearer {key}",
        "X-Looptrap-Anything": "ours",
    }
    target = f"{CHAT}?token={key}&a=1&t=lt%2D{key[3:]}"
    assert (await here.ask(target=target, headers=headers, body=chat())).status == 200
    [received] = here.provider.requests
    sent = received.headers
    assert received.target == f"{CHAT}?a=1"
    assert sent["cookie"] == "a=1; b=2"
    assert sent["authorization"] == "Bearer sk-own"
    assert key not in repr(received)
    assert not [name for name in sent if name.startswith(("x-looptrap", "proxy-"))]


async def test_a_gateway_key_in_the_path_is_refused(serve):
    here = await serve()
    key = here.add_key()
    headers = JSON | {"X-Looptrap-Key": key}
    answer = await here.ask(target=f"/{key}{CHAT}", headers=headers, body=chat())
    assert answer.status == 400
    assert key.encode() not in answer.body
    assert here.provider.requests == []
