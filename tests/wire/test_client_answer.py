"""Answers as they come off the wire: framings, splits, and what is not HTTP."""

import asyncio
from itertools import pairwise

import pytest
import uvloop
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.examples import examples
from tests.wire.fake_upstream import OK, Answer, Peer, answering, get, pool_of, serving, upstream

from looptrap.wire.limits import UpstreamLimits
from looptrap.wire.pool import Pool

SIZED = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nX-A: 1\r\nx-a: 2\r\n\r\nhello"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n"
TRAILERS = (
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n"
    b"5;ext=1\r\nhello\r\n0\r\nX-T: late\r\n\r\n"
)

FRAMINGS = [
    pytest.param(b"GET", SIZED, 200, b"hello", id="sized"),
    pytest.param(b"GET", SIZED[:-1] + b"\n", 200, b"hell\n", id="sized, ending in a line end"),
    pytest.param(b"GET", CHUNKED, 200, b"hello", id="chunked"),
    pytest.param(b"GET", TRAILERS, 200, b"hello", id="chunked with extension and trailers"),
    pytest.param(b"GET", b"HTTP/1.1 200 \r\nContent-Length: 0\r\n\r\n", 200, b"", id="empty"),
    pytest.param(b"GET", b"HTTP/1.1 204 No Content\r\nX: y\r\n\r\n", 204, b"", id="204"),
    pytest.param(b"GET", b"HTTP/1.1 304 X\r\nContent-Length: 9\r\n\r\n", 304, b"", id="304"),
    pytest.param(b"HEAD", b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n", 200, b"", id="HEAD"),
    pytest.param(
        b"HEAD",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
        200,
        b"",
        id="HEAD of a chunked answer",
    ),
    pytest.param(b"GET", b"HTTP/1.1 100 Continue\r\n\r\n" + SIZED, 200, b"hello", id="after 100"),
    pytest.param(
        b"POST",
        b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\nHTTP/1.1 100 C\r\n\r\n" + CHUNKED,
        200,
        b"hello",
        id="after 103 and 100",
    ),
    pytest.param(
        b"GET",
        b"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 5\r\n\r\nhello",
        200,
        b"hello",
        id="HTTP/1.0 kept alive",
    ),
]


async def test_these_tests_run_on_uvloop():
    assert isinstance(asyncio.get_running_loop(), uvloop.Loop)


@pytest.mark.parametrize(("method", "raw", "status", "body"), FRAMINGS)
async def test_reads_an_answer_and_uses_the_connection_again(method, raw, status, body):
    async with upstream(answering(raw, OK)) as fake, pool_of(fake) as pool:
        answer = await get(pool, method=method).complete()
        assert (answer.status, answer.body) == (status, body)
        assert answer.has_body == (method != b"HEAD" and status == 200)
        assert (await get(pool).complete()).body == b"hi"
        assert (fake.connections, pool.opened, pool.reused) == (1, 1, 1)


@pytest.mark.parametrize(("method", "raw", "status", "body"), FRAMINGS)
async def test_reads_an_answer_that_comes_byte_by_byte(method, raw, status, body):
    pieces = [raw[i : i + 1] for i in range(len(raw))]
    async with upstream(answering(pieces, OK)) as fake, pool_of(fake) as pool:
        answer = await get(pool, method=method).complete()
        assert (answer.status, answer.body) == (status, body)
        assert [len(chunk) for chunk in answer.chunks] == [1] * len(body), "bytes were held back"


@pytest.mark.parametrize(("method", "raw", "status", "body"), FRAMINGS)
async def test_reads_an_answer_cut_in_two_anywhere(method, raw, status, body):
    cuts = [(raw[:at], raw[at:]) for at in range(1, len(raw))]
    async with upstream(serving(cuts)) as fake, pool_of(fake) as pool:
        for _ in cuts:
            answer = await get(pool, method=method).complete()
            assert (answer.status, answer.body) == (status, body)


async def test_tells_the_head_as_sent():
    async with upstream(answering(SIZED)) as fake, pool_of(fake) as pool:
        answer = await get(pool).complete()
        assert answer.reason == b"OK"
        assert answer.headers == [(b"X-A", b"1"), (b"x-a", b"2")]
        assert answer.length == 5


async def test_trailers_are_dropped():
    async with upstream(answering(TRAILERS)) as fake, pool_of(fake) as pool:
        answer = await get(pool).complete()
        assert answer.headers == []


@pytest.mark.parametrize(
    "dropped",
    [
        pytest.param([], id="nothing to drop"),
        pytest.param([b"Connection: keep-alive", b"Keep-Alive: timeout=5"], id="persistence"),
        pytest.param([b"connection: Keep-Alive, X-Hop", b"x-hop: 1"], id="named in Connection"),
        pytest.param(
            [b"X-Hop: 1", b"Connection: keep-alive", b"Connection: \tx-HOP ,"],
            id="named in a second Connection, further down",
        ),
        pytest.param([b"Proxy-Authenticate: Basic", b"Trailer: T", b"TE: x"], id="the rest"),
    ],
)
async def test_only_headers_that_go_on_are_told(dropped):
    kept = [b"Content-Type: text/event-stream", b"X-Request-Id: 1", b"set-cookie: a=b"]
    lines = [b"HTTP/1.1 200 OK", kept[0], *dropped, *kept[1:], b"Content-Length: 0", b"\r\n"]
    async with upstream(answering(b"\r\n".join(lines))) as fake, pool_of(fake) as pool:
        answer = await get(pool).complete()
        assert [b": ".join(field) for field in answer.headers] == kept


async def test_flushes_after_each_segment_but_the_last():
    head, rest = CHUNKED.split(b"\r\n\r\n", 1)
    pieces = [head + b"\r\n\r\n", b"2\r\n", b"he\r\n3\r\nl", b"lo", rest[-7:]]
    async with upstream(answering(pieces)) as fake, pool_of(fake) as pool:
        answer = await get(pool).complete()
        assert answer.calls == [
            *("head", "flush"),
            *("data", "data", "flush"),
            *("data", "flush"),
            "end",
        ]


@pytest.mark.parametrize(
    "head",
    [
        pytest.param(b"HTTP/1.1 200 OK\r\n\r\n", id="without a length"),
        pytest.param(b"HTTP/1.0 200 OK\r\nServer: old\r\n\r\n", id="HTTP/1.0"),
    ],
)
async def test_reads_an_answer_that_ends_with_the_connection(head):
    async def play(peer: Peer) -> None:
        await peer.request()
        await peer.send(head, b"to the ", b"end")

    async with upstream(play) as fake, pool_of(fake) as pool:
        answer = await get(pool).complete()
        assert (answer.body, answer.length, answer.has_body) == (b"to the end", None, True)


@pytest.mark.parametrize(
    "raw",
    [
        pytest.param(
            b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nhi", id="close"
        ),
        pytest.param(b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nhi", id="HTTP/1.0"),
        pytest.param(OK + b"\r\n", id="an empty line too much"),
        pytest.param(OK + b"\n", id="a line end too much"),
        pytest.param(OK + b"H", id="a byte too much"),
        pytest.param(OK + b"garbage", id="garbage"),
        pytest.param(OK + OK, id="a second answer"),
        pytest.param(OK + b"HTTP/1.1 100 Continue\r\n\r\n", id="an interim answer too much"),
        pytest.param(CHUNKED + b"\r\n", id="an empty line after the last chunk"),
        pytest.param(CHUNKED + b"0\r\n\r\n", id="a second last chunk"),
        pytest.param(b"HTTP/1.1 204 X\r\nContent-Length: 2\r\n\r\nhi", id="204 with a body"),
    ],
)
async def test_does_not_use_a_connection_again_after(raw):
    async with upstream(answering(raw), answering(OK)) as fake, pool_of(fake) as pool:
        assert (await get(pool).complete()).status in (200, 204)
        assert (await get(pool).complete()).body == b"hi"
        assert (fake.connections, pool.reused) == (2, 0)


@pytest.mark.parametrize(
    "surplus",
    [
        pytest.param(b"hi", id="a body"),
        pytest.param(b"hi\r\n\r\n", id="a body like a head's end"),
        pytest.param(b"\r\n", id="an empty line"),
        pytest.param(b"0\r\n\r\n", id="a last chunk"),
    ],
)
@pytest.mark.parametrize("framing", [b"Content-Length: 2", b"Transfer-Encoding: chunked", b"X: y"])
async def test_does_not_use_a_connection_again_after_a_head_answer_with(surplus, framing):
    raw = b"HTTP/1.1 200 OK\r\n" + framing + b"\r\n\r\n" + surplus
    async with upstream(answering(raw), answering(OK)) as fake, pool_of(fake) as pool:
        answer = await get(pool, method=b"HEAD").complete()
        assert (answer.body, answer.has_body) == (b"", False)
        assert (await get(pool).complete()).body == b"hi"
        assert fake.connections == 2


async def test_closes_an_idle_connection_that_speaks():
    async def play(peer: Peer) -> None:
        await peer.request()
        await peer.send(OK)
        await peer.send(b"HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\n\r\n")
        await peer.gone()

    async with upstream(play, answering(OK)) as fake, pool_of(fake) as pool:
        await get(pool).complete()
        await fake.until(lambda: fake.open == 0)
        assert (await get(pool).complete()).status == 200
        assert (fake.connections, pool.retried_stale) == (2, 0)


CL, TE = b"Content-Length: 2\r\n", b"Transfer-Encoding: chunked\r\n"


@pytest.mark.parametrize(
    ("raw", "started"),
    [
        pytest.param(b"SSH-2.0-OpenSSH\r\n", False, id="another protocol"),
        pytest.param(b"HTTP/1.1 200 OK\r\n" + CL + TE + b"\r\n", False, id="length and chunked"),
        pytest.param(b"HTTP/1.1 200 OK\r\n" + TE + CL + b"\r\n", False, id="chunked and length"),
        pytest.param(b"HTTP/1.1 200 OK\r\n" + CL + CL + b"\r\nhi", False, id="two lengths"),
        pytest.param(b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", False, id="bad length"),
        pytest.param(
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
            False,
            id="another transfer coding",
        ),
        pytest.param(
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n", False, id="a coding to the end"
        ),
        pytest.param(b"HTTP/1.1 200 OK\r\n" + TE + TE + b"\r\n", False, id="chunked twice"),
        pytest.param(b"HTTP/1.1 200 OK\r\n" + TE + b"\r\nxyz\r\n", True, id="bad chunk size"),
        pytest.param(b"HTTP/1.1 200 OK\r\n" + TE + b"\r\n2\r\nhi!!", True, id="bad chunk end"),
        pytest.param(b"HTTP/1.1 200 OK\nContent-Length: 2\n\nhi", False, id="bare line feeds"),
        pytest.param(b"HTTP/1.1 200 OK\r\nX: a\0b\r\n\r\n", False, id="NUL"),
        pytest.param(b"HTTP/1.1 101 Switching Protocols\r\n\r\n", False, id="101"),
        pytest.param(
            b"HTTP/1.1 101 S\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\nabc",
            False,
            id="101 with an upgrade",
        ),
        pytest.param(b"HTTP/1.1 200 OK\r\n" + b"A: b\r\n" * 21 + b"\r\n", False, id="many fields"),
        pytest.param(b"HTTP/1.1 200 OK\r\nA: " + b"b" * 2000, False, id="a head without end"),
        pytest.param(b"HTTP/1.1 200 OK\r\nA: " + b"b" * 2000 + b"\r\n\r\n", False, id="long head"),
        pytest.param(b"HTTP/1.1 103 Early Hints\r\n\r\n" * 99, False, id="interim without end"),
    ],
)
async def test_reports_what_is_not_allowed_as_a_protocol_error(raw, started):
    limits = {"max_headers": 20, "max_head_bytes": 1000}
    async with upstream(answering([raw])) as fake, pool_of(fake, **limits) as pool:
        error = await get(pool).failed()
        assert (error.kind, error.started) == ("protocol", started)
        assert str(error).startswith(f"127.0.0.1:{fake.port}: ")


async def test_a_switch_of_protocols_is_named_as_such():
    raw = b"HTTP/1.1 101 S\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\nabc"
    async with upstream(answering(raw)) as fake, pool_of(fake) as pool:
        error = await get(pool).failed()
        assert str(error).endswith("switched protocols without being asked")


async def test_trailers_that_come_in_small_pieces_without_end_are_a_protocol_error():
    pieces = [CHUNKED[:-2], *[b"A: b\r\n"] * 300]
    async with upstream(answering(pieces)) as fake, pool_of(fake, max_head_bytes=1000) as pool:
        error = await get(pool).failed()
        assert (error.kind, error.started) == ("protocol", True)


async def test_chunk_sizes_in_segments_of_their_own_are_no_trailers():
    pieces = [CHUNKED[:-5], *[b"1\r\n", b"x\r\n"] * 300, b"0\r\n\r\n"]
    async with upstream(answering(pieces)) as fake, pool_of(fake, max_head_bytes=100) as pool:
        assert len((await get(pool).complete()).body) == 305


async def test_a_long_body_in_the_first_segment_is_not_a_long_head():
    raw = b"HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\n" + b"x" * 5000
    async with upstream(answering(raw)) as fake, pool_of(fake, max_head_bytes=100) as pool:
        assert len((await get(pool).complete()).body) == 5000


@pytest.mark.parametrize("end", ["close", "reset"])
@pytest.mark.parametrize(
    ("raw", "started"),
    [
        pytest.param(b"", False, id="before the first byte"),
        pytest.param(b"HTTP/1.1 200", False, id="in the head"),
        pytest.param(SIZED[:-1], True, id="in a sized body"),
        pytest.param(CHUNKED[:-9], True, id="in a chunked body"),
        pytest.param(CHUNKED[:-2], True, id="before the chunked body's last line"),
    ],
)
async def test_an_answer_cut_short_is_never_complete(raw, started, end):
    async def play(peer: Peer) -> None:
        await peer.request()
        if raw:
            await peer.send(raw)
        if end == "reset":
            peer.reset()

    async with upstream(play) as fake, pool_of(fake) as pool:
        answer = get(pool)
        error = await answer.failed()
        assert (error.kind, error.started) == ("reset", started)
        assert (fake.connections, pool.retried_stale) == (1, 0)


async def test_a_reset_does_not_complete_an_answer_that_ends_with_the_connection():
    async def play(peer: Peer) -> None:
        await peer.request()
        await peer.send(b"HTTP/1.1 200 OK\r\n\r\nhalf of it")
        peer.reset()

    async with upstream(play) as fake, pool_of(fake) as pool:
        assert (await get(pool).failed()).kind == "reset"


async def test_a_sink_that_raises_is_reported_and_its_connection_closed():
    class Broken(Answer):
        def on_data(self, chunk: bytes) -> None:
            raise ZeroDivisionError("the sink's own")

    reported = []
    asyncio.get_running_loop().set_exception_handler(lambda _loop, what: reported.append(what))
    async with upstream(answering(OK)) as fake, pool_of(fake) as pool:
        answer = Broken()
        pool.send(b"GET", b"/", b"", b"", answer)
        assert (await answer.failed()).kind == "reset"
        assert [type(what["exception"]) for what in reported] == [ZeroDivisionError]


def framed(body: bytes, sizes: list[int] | None) -> bytes:
    """Frame a body in chunks of these sizes (the last one again and again), or by its length."""
    if sizes is None:
        return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)
    raw, at = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", 0
    for size in sizes + [len(body)] * (at < len(body)):
        if piece := body[at : at + size]:
            raw += b"%x\r\n%b\r\n" % (len(piece), piece)
        at += size
    return raw + b"0\r\n\r\n"


@settings(max_examples=examples(150), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    answers=st.lists(
        st.tuples(
            st.binary(max_size=300) | st.text("\r\n0", max_size=9).map(str.encode),
            st.none() | st.lists(st.integers(1, 90), max_size=9),
        ),
        min_size=1,
        max_size=3,
    ),
    data=st.data(),
)
def test_any_body_in_any_framing_at_any_splits_arrives_byte_for_byte(answers, data):
    async def scenario() -> None:
        cut_answers = []
        for body, sizes in answers:
            raw = framed(body, sizes)
            cuts = data.draw(st.lists(st.integers(1, len(raw) - 1), max_size=6).map(sorted))
            edges = [0, *cuts, len(raw)]
            cut_answers.append([raw[a:b] for a, b in pairwise(edges) if a < b])
        async with upstream(serving(cut_answers)) as fake:
            pool = Pool(fake.origin(), UpstreamLimits())
            for body, _ in answers:
                assert (await get(pool).complete()).body == body
            await pool.close()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(scenario())
