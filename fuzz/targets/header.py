"""Headers: who calls, in which session, turn and trace, and what is sent on of them."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from functools import cache
from random import Random

from fuzz.target import Target, pick, seed
from looptrap.dialect.descriptor import PLAIN, SESSION_HEADERS, descriptor
from looptrap.dialect.model import Request
from looptrap.dialect.registry import read
from looptrap.gateway.auth import Authenticator, Identity, strip_gateway_keys
from looptrap.gateway.keys import KeyRing
from looptrap.gateway.request_context import Field, InboundHeaderReader, parse_session_limit
from looptrap.gateway.slow_body import decode_body
from looptrap.gateway.trace import parse_tracestate, start_span
from looptrap.retry.turn_budget import read_turn_headers as read_turn

SECRET = b"0123456789abcdef"
BLOCK = (
    b"authorization: Bearer sk-abc\r\nx-looptrap-session: run-1\r\nx-request-id: r1\r\n"
    b"x-looptrap-progress: page 3\r\nx-looptrap-session-limit-usd: 2.50\r\n"
    b"connection: close, x-a\r\n"
    b"traceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01\r\n"
    b"tracestate: a=1,b@c=2\r\nx-looptrap-turn: t1\r\n"
    b"baggage: looptrap.turn=t1,looptrap.steps=3,looptrap.usd=1.5,other=%20\r\n"
)
"""A header block as the wire hands it on: one line end a field, none inside."""


def check_header(data: bytes) -> None:
    """Read all that headers can say; only what may be sent on is sent on."""
    target, block = pick(data, (b"/v1/x", b"/v1/x?key=lt-abc&a=b", b"/v1/x?key=sk-1&%6bey=2"))
    headers = _fields(block)
    inbound = _reader().read(headers)
    sent = b"".join(b"%b: %b\r\n" % field for field in inbound.forwarded)
    assert sent.count(b"\r\n") == len(inbound.forwarded), "a field became two"
    parse_session_limit(inbound.session_limit)
    identity = _authenticator().identify(headers, target + b"&" + block[:60], "192.0.2.7")
    if isinstance(identity, Identity):
        assert identity.caller.partition(":")[0] in ("key", "cred", "addr")
    strip_gateway_keys(block)
    read_turn(headers)
    call = read(Request("POST", "/v1/x", block.decode("latin-1"), headers, b"", "c"))
    for name in (*PLAIN, "header:baggage", "query:a", "jwt:org"):
        assert isinstance(descriptor(name)(call), str)


def check_trace(data: bytes) -> None:
    """A span goes on from what came, or begins anew; what is sent on names it exactly once."""
    block = b"".join(b"%b: %b\r\n" % field for field in _fields(data))
    span = start_span(block, 1.0, 0.5, Random(0))
    assert 0 < span.trace_id < 1 << 128
    assert 0 < span.id < 1 << 64
    assert parse_tracestate(span.state) is not None
    assert span.forwarded(block).count(b"\r\ntraceparent: ") <= 1


def check_encoding(data: bytes) -> None:
    """A packed body is unpacked up to a limit; what is no such thing stays as it was sent."""
    coding, body = pick(data, (b"gzip", b"deflate", b"identity", b"br", b"gzip, gzip"))
    assert len(decode_body(body, coding, 100_000)) <= max(100_000, len(body))


def _fields(block: bytes) -> list[Field]:
    """Return fields as the wire lets them through."""
    lines = (line.partition(b": ") for line in block.split(b"\r\n"))
    return [
        (name.strip().lower(), value.strip(b" \t").replace(b"\r", b"").replace(b"\n", b""))
        for name, _, value in lines
        if name.strip() and b"\n" not in name and b"\r" not in name
    ]


@cache
def _reader() -> InboundHeaderReader:
    return InboundHeaderReader(SESSION_HEADERS, relay_compressed=False)


@cache
def _authenticator() -> Authenticator:
    return Authenticator(KeyRing(), secret=SECRET)


def seeds() -> Iterator[bytes]:
    """Yield a header block with everything in it."""
    yield from (seed(place, BLOCK) for place in range(3))


def blocks() -> Iterator[bytes]:
    """Yield the same as it is."""
    yield BLOCK
    yield BLOCK[BLOCK.index(b"traceparent") :]


def packed() -> Iterator[bytes]:
    """Yield packed bodies."""
    yield seed(0, gzip.compress(b"{}" * 20))
    yield seed(1, zlib.compress(b"{}" * 20))
    yield seed(4, gzip.compress(gzip.compress(b"{}")))


WORDS = (
    b"\r\n", b": ", b"traceparent: ", b"tracestate: ", b"baggage: looptrap.", b"lt-", b"Bearer ",
    b"ff-", b"-00", b"x-looptrap-", b"connection: ", b"key=", b"%6b",
)  # fmt: skip
TARGETS = [
    Target(name="header", check=check_header, seeds=seeds, words=WORDS),
    Target(name="trace", check=check_trace, seeds=blocks, words=WORDS),
    Target(name="encoding", check=check_encoding, seeds=packed),
]
