"""HTTP/1.1 as it comes from clients, and as it comes back from providers."""

from __future__ import annotations

from collections.abc import Iterator

from tests.wire.fake_client import FakeTransport, NoQueue
from tests.wire.test_fuzz_server import SEEDS, SPICE, run

from fuzz.target import Target, cuts, pick, seed
from looptrap.wire.exchange import UpstreamError, UpstreamExchange
from looptrap.wire.header_fields import parse_retry_after
from looptrap.wire.limits import UpstreamLimits
from looptrap.wire.origin import Origin
from looptrap.wire.pool import Pool
from looptrap.wire.upstream_connection import UpstreamConnection

REPLIES = (
    b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nT: v\r\n\r\n",
    b"HTTP/1.1 100 Continue\r\n\r\n"
    b"HTTP/1.1 204 No Content\r\nConnection: close, X-A\r\nX-A: 1\r\n\r\n",
    b"HTTP/1.0 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: {}\n\n",
    b"HTTP/1.1 429 Too Many Requests\r\nRetry-After: 3\r\nContent-Length: 0\r\n\r\n",
    b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\n",
)
WORDS = (
    *SPICE, b"HTTP/1.1 200 OK\r\n", b"Transfer-Encoding: gzip\r\n", b"Content-Length: 5, 5\r\n",
    b"Connection: close\r\n", b"HTTP/1.1 304 Not Modified\r\n\r\n",
)  # fmt: skip


def check_request(data: bytes) -> None:
    """One answer a request, the same for every way of cutting it; never an exception."""
    whole = run([data])
    assert run(cuts(data)) == whole
    if len(data) <= 400:
        assert run([bytes([byte]) for byte in data]) == whole


class Heard:
    """Notes what becomes of one request, which ends exactly once."""

    def __init__(self) -> None:
        self.status = 0
        self.headers: list[tuple[bytes, bytes]] = []
        self.body = b""
        self.end = ""

    def on_head(
        self,
        status: int,
        _reason: bytes,
        headers: list[tuple[bytes, bytes]],
        _length: int | None,
        _has_body: bool,
    ) -> None:
        assert not self.status
        assert not self.end
        self.status, self.headers = status, headers

    def on_data(self, chunk: bytes) -> None:
        assert self.status
        assert not self.end
        self.body += chunk

    def flush(self) -> None:
        assert not self.end

    def on_end(self) -> None:
        assert not self.end
        self.end = "whole"

    def on_error(self, error: UpstreamError) -> None:
        assert not self.end
        self.end = error.kind


def check_reply(data: bytes) -> None:
    """Whatever an upstream sends: one end, the same for every way of cutting it."""
    is_head, sent = pick(data, (False, True))
    results = [_replied(pieces, is_head) for pieces in ([sent], cuts(sent))]
    assert results[0] == results[1], "another answer when cut in other places"


def _replied(pieces: list[bytes], is_head: bool) -> tuple[object, ...]:
    pool = Pool(Origin("http", "upstream", 80), UpstreamLimits(), clock=lambda: 1.0)
    pool.writes = NoQueue()
    heard = Heard()
    connection = UpstreamConnection(pool)
    connection.connection_made(FakeTransport())
    flight = UpstreamExchange(pool, b"GET / HTTP/1.1\r\n\r\n", b"", heard, is_head)
    pool.in_flight += 1
    connection.start(flight, 1.0)
    for piece in pieces:
        if heard.end:
            break
        connection.data_received(piece)
    if not heard.end:
        connection.eof_received()
    connection.connection_lost(None)
    assert heard.end
    body = heard.body if heard.end == "whole" else b""
    return heard.end, heard.status if heard.end == "whole" else 0, heard.headers and body


def check_retry_after(data: bytes) -> None:
    """Seconds or a date, or nothing; never less than none."""
    value, _, date = data.decode("latin-1").partition("|")
    seconds = parse_retry_after(value, 1.0, date)
    assert seconds is None or seconds >= 0


def requests() -> Iterator[bytes]:
    """Yield good requests, alone and in a row."""
    yield from SEEDS
    yield b"".join(SEEDS[:3])


def replies() -> Iterator[bytes]:
    """Yield answers as upstreams send them."""
    for reply in REPLIES:
        yield seed(0, reply)
        yield seed(1, reply)


def moments() -> Iterator[bytes]:
    """Yield what Retry-After may say."""
    yield from (b"3", b"0.5", b"Wed, 21 Oct 2026 07:28:00 GMT|Wed, 21 Oct 2026 07:27:00 GMT")


TARGETS = [
    Target(name="request", check=check_request, seeds=requests, words=WORDS),
    Target(name="reply", check=check_reply, seeds=replies, words=WORDS),
    Target(name="retry_after", check=check_retry_after, seeds=moments, words=(b"GMT", b"+0000")),
]
