"""Envelopes: all that follows from a request's head, and none of its body.

Clients send the same head over and over, and the wire gives equal ones as the same object. What was
found out about one is remembered, so that most requests pay one look-up for who calls, what is
forwarded and where to.
"""

from __future__ import annotations

import asyncio
import re
import time
import zlib
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import msgspec

from looptrap.dialect.header import PROGRESS, RETRY_COUNT, SESSION_LIMIT, is_retry, session_of
from looptrap.gateway.auth import (
    KEY_IN_PATH,
    Authenticator,
    Denial,
    Identity,
    has_key,
    strip_gateway_keys,
    without_keys,
)
from looptrap.gateway.browser import PREFLIGHT, Browsers
from looptrap.gateway.jwt_claims import ClaimsReader
from looptrap.gateway.keys import PREFIX
from looptrap.money.price import nano
from looptrap.retry.turn.header import TURN_HEADER
from looptrap.wire.exchange import Exchange
from looptrap.wire.head import Head
from looptrap.wire.header_fields import HOP_BY_HOP, parse_token_list

Field = tuple[bytes, bytes]

NOT_FORWARDED = HOP_BY_HOP | {b"host", b"content-length", b"expect"}
OWN_HEADER_PREFIX = b"x-looptrap-"

_FORWARD, _DROP, _READ, _FORWARD_AND_READ = range(4)

_LISTS = frozenset((b"connection", b"content-encoding"))
"""Headers that may come several times, and then mean all of it together."""

_MAX_CACHED_NAMES = 4096
"""Header names whose fate is remembered; clients that invent more pay for each anew."""


class InboundHeaders(msgspec.Struct, gc=False):
    """What one pass over a request's headers found."""

    forwarded: list[Field]
    session: str = ""
    request_id: bytes = b""
    is_retry: bool = False
    encoding: bytes = b""
    """The body's content encoding; empty when it is none."""
    progress: str = ""
    session_limit: bytes = b""


class InboundHeaderReader:
    """Reads headers in one pass; made anew with the configuration."""

    def __init__(self, session_headers: Sequence[str], *, relay_compressed: bool) -> None:
        self._sessions = tuple(name.lower().encode() for name in session_headers)
        self._fates = dict.fromkeys(NOT_FORWARDED, _DROP)
        self._fates |= dict.fromkeys(self._sessions, _FORWARD_AND_READ)
        self._fates |= {
            b"connection": _READ,
            b"x-request-id": _FORWARD_AND_READ,
            b"content-encoding": _FORWARD_AND_READ,
            RETRY_COUNT: _FORWARD_AND_READ,
            PROGRESS: _READ,
            SESSION_LIMIT: _READ,
            # The one header of ours that is not for this gateway alone: an agent behind it may be
            # part of the same turn.
            TURN_HEADER.lower().encode(): _FORWARD,
        }
        for name in self._sessions:
            if name.startswith(OWN_HEADER_PREFIX):
                self._fates[name] = _READ
        self._asked: list[Field] = []
        if not relay_compressed:
            # Usage and answers must be readable: the provider is asked for plain bytes.
            self._fates[b"accept-encoding"] = _DROP
            self._asked = [(b"accept-encoding", b"identity")]

    def read(self, headers: Iterable[Field], drop: Container[bytes] = ()) -> InboundHeaders:
        """Return what the headers say; `drop` names those that carried a gateway key."""
        fates = self._fates
        forwarded = self._asked.copy()
        noted: dict[bytes, bytes] = {}
        for field in headers:
            name = field[0]
            fate = fates.get(name)
            if fate is None:
                fate = self._classify(name)
            if fate == _FORWARD:
                if not drop or name not in drop:
                    forwarded.append(field)
            elif fate != _DROP:
                value = field[1]
                if noted.setdefault(name, value) is not value and name in _LISTS:
                    noted[name] += b"," + value
                if fate == _FORWARD_AND_READ and name not in drop:
                    forwarded.append(field)
        inbound = InboundHeaders(forwarded)
        if noted:
            self._note(inbound, noted)
        return inbound

    def _classify(self, name: bytes) -> int:
        fate = _DROP if name.startswith(OWN_HEADER_PREFIX) else _FORWARD
        if len(self._fates) < _MAX_CACHED_NAMES:
            self._fates[name] = fate
        return fate

    def _note(self, inbound: InboundHeaders, noted: dict[bytes, bytes]) -> None:
        inbound.session = session_of(noted, self._sessions)
        inbound.request_id = noted.get(b"x-request-id", b"")
        inbound.encoding = noted.get(b"content-encoding", b"").lower()
        inbound.is_retry = is_retry(noted)
        inbound.progress = noted.get(PROGRESS, b"").decode("latin-1")
        inbound.session_limit = noted.get(SESSION_LIMIT, b"")
        listed = parse_token_list(noted.get(b"connection", b"")) - {b"", b"close", b"keep-alive"}
        if listed:
            kept = [one for one in inbound.forwarded if one[0] not in listed]
            inbound.forwarded = kept if b"accept-encoding" not in listed else [*self._asked, *kept]


_DOLLARS = re.compile(rb"(?=[.\d]*[1-9])\d{1,6}(?:\.\d{1,9})?")

INVALID_SESSION_LIMIT = Denial(
    400,
    "invalid_session_limit",
    "X-Looptrap-Session-Limit-Usd must be an amount of dollars above 0, such as 2.50.",
)


def parse_session_limit(sent: bytes) -> int | Denial | None:
    """Return the limit in nano-dollars, None where none was sent; or why it is none."""
    if not sent:
        return None
    return nano(float(sent)) if _DOLLARS.fullmatch(sent) else INVALID_SESSION_LIMIT


DECISION_PATH = b"/looptrap/decision"

is_decision_target = re.compile(rb"%b(?:[/?]|\Z)" % DECISION_PATH).match
"""Say whether a target asks for a decision."""

_MAX_CACHED_CONTEXTS = 1024


class RequestContext(msgspec.Struct, frozen=True, gc=False):
    """What the head of a request says."""

    identity: Identity
    denied: Denial | None
    """Why nothing but a decision is to be had for it."""
    asks_for_decision: bool
    method: str
    path: str
    query: str
    target: bytes
    """As it is forwarded: without gateway keys."""
    fields: bytes
    """The header block to forward, without Host and framing."""
    session: str
    request_id: bytes
    is_retry: bool
    encoding: bytes
    progress: str
    session_limit: int | None
    claims: Mapping[str, str]
    claims_until: float | None
    """When they have to be looked at anew; None where time changes nothing."""
    shared: tuple[tuple[bytes, bytes], ...] = ()
    """Headers that let the web page that sent the request read the answer; mostly none."""


class RequestContexts:
    """Opens the envelopes of requests; made anew with the configuration."""

    def __init__(
        self,
        authenticator: Authenticator,
        inbound: InboundHeaderReader,
        claims: ClaimsReader,
        clock: Callable[[], float] = time.time,
        browsers: Browsers | None = None,
    ) -> None:
        self._authenticator = authenticator
        self._inbound = inbound
        self._claims = claims
        self._browsers = browsers or Browsers()
        self._clock = clock
        self._remembered: dict[tuple[Head, str], RequestContext] = {}
        self._generation = authenticator.generation

    def open(self, exchange: Exchange[Any]) -> RequestContext:
        """Return what the head of a request says."""
        if self._generation != self._authenticator.generation:
            self._generation = self._authenticator.generation
            self._remembered.clear()
        key = (exchange.head, exchange.peer)
        envelope = self._remembered.get(key)
        if envelope is None or (
            envelope.claims_until is not None and envelope.claims_until <= self._clock()
        ):
            envelope = self._open(exchange)
            if exchange.head.is_cached:
                if len(self._remembered) >= _MAX_CACHED_CONTEXTS:
                    self._remembered.clear()
                self._remembered[key] = envelope
        return envelope

    def _open(self, exchange: Exchange[Any]) -> RequestContext:
        headers, target = exchange.headers, exchange.target
        identity = self._authenticator.identify(headers, target, exchange.peer)
        denied = None
        if isinstance(identity, Denial):
            denied, identity = identity, ANONYMOUS
        refused, shared = self._browsers.decide(exchange.method, headers, identity)
        if refused is not None and (denied is None or refused is PREFLIGHT):
            denied = refused
        inbound = self._inbound.read(headers, identity.drop)
        limit = parse_session_limit(inbound.session_limit)
        if isinstance(limit, Denial):
            denied, limit = denied or limit, None
        claims, claims_until = self._claims.of(headers, self._clock())
        path, mark, query = target.partition(b"?")
        if has_key(path):
            denied = denied or KEY_IN_PATH
        if query and (identity.drop_query or identity.drop_every_key or has_key(query)):
            kept = strip_gateway_keys(query, every=identity.drop_every_key)
            target = path + mark + kept if kept else path
        fields = b"".join([b"%b: %b\r\n" % field for field in inbound.forwarded])
        if PREFIX in fields:
            fields = b"".join([b"%b: %b\r\n" % field for field in without_keys(inbound.forwarded)])
        return RequestContext(
            identity,
            denied,
            is_decision_target(exchange.target) is not None,
            exchange.method.decode("latin-1"),
            path.decode("latin-1"),
            query.decode("latin-1"),
            target,
            fields,
            inbound.session,
            inbound.request_id,
            inbound.is_retry,
            inbound.encoding,
            inbound.progress,
            limit,
            claims,
            claims_until,
            shared,
        )


ANONYMOUS = Identity(caller="")


_WINDOW_BITS = {b"gzip": 31, b"x-gzip": 31, b"deflate": 15}
_RAW_DEFLATE = -15
_GZIP_MAGIC = b"\x1f\x8b"

MOST_MEMBERS = 64
"""Members of a gzip body that are unpacked: each one more copies the rest of the body."""

AT_ONCE = 256 << 10
"""Bytes that are unpacked on the loop, which takes less than a millisecond; more go to a thread."""

SMALL = 16 << 10
"""Packed bytes beyond which a body goes to the thread without a try."""

MOST_WAITING = 256
"""Bodies that wait for the thread; one more is refused."""


class TooLargeError(Exception):
    """A body unpacks to more bytes than there may be."""


def decode_body(body: bytes, encoding: bytes, limit: int) -> bytes:
    """Return the body unpacked, or as it is where that cannot be had.

    What a lenient provider reads is read: several members, deflate without its header, a body that
    is cut off or has something behind its end. Unknown or stacked encodings stay as they are.
    Raises TooLargeError beyond `limit` bytes.
    """
    names = [
        name for one in encoding.split(b",") if (name := one.strip()) not in (b"", b"identity")
    ]
    bits = _WINDOW_BITS.get(names[0].lower()) if len(names) == 1 else None
    if bits is None:
        return body
    try:
        return _inflated(body, bits, limit)
    except zlib.error:
        if bits != _WINDOW_BITS[b"deflate"]:
            return body
    try:
        return _inflated(body, _RAW_DEFLATE, limit)
    except zlib.error:
        return body


def _inflated(body: bytes, bits: int, limit: int) -> bytes:
    """Return what the members of a body unpack to; raises zlib.error if the first one does not."""
    pieces: list[bytes] = []
    size = 0
    for _ in range(MOST_MEMBERS):
        decoder = zlib.decompressobj(bits)
        try:
            piece = decoder.decompress(body, limit - size + 1)
        except zlib.error:
            if not pieces:
                raise
            break
        pieces.append(piece)
        size += len(piece)
        if size > limit:
            raise TooLargeError
        body = decoder.unused_data
        if not body.startswith(_GZIP_MAGIC):
            break
    return b"".join(pieces) if len(pieces) > 1 else pieces[0]


class Unpacked:
    """The room that an unpacked body takes, which is free again when this object is gone."""

    __slots__ = ("_size", "_unpacker")

    def __init__(self, unpacker: Unpacker, size: int) -> None:
        self._unpacker = unpacker
        self._size = size
        unpacker.held += size

    def __del__(self) -> None:
        self._unpacker.held -= self._size


class Unpacker:
    """Unpacks bodies, large ones in a thread, and counts what is unpacked and still in use."""

    def __init__(self) -> None:
        self.held = 0
        """Bytes of unpacked bodies whose calls are not over."""
        self._waiting = 0
        self._threads: ThreadPoolExecutor | None = None

    @property
    def is_full(self) -> bool:
        """Whether so many bodies wait for the thread that no more may."""
        return self._waiting >= MOST_WAITING

    def hold(self, plain: bytes, room: int) -> Unpacked | None:
        """Count an unpacked body for as long as it is in use; None where there is no room."""
        return Unpacked(self, len(plain)) if self.held + len(plain) <= room else None

    def at_once(self, body: bytes, encoding: bytes) -> bytes | None:
        """Return a body unpacked; None where that may take long."""
        if len(body) > SMALL:
            return None
        try:
            return decode_body(body, encoding, AT_ONCE)
        except TooLargeError:
            return None

    def later(
        self, body: bytes, encoding: bytes, limit: int, then: Callable[[bytes], None]
    ) -> None:
        """Unpack a body in the thread and hand it on, as it is where it unpacks to too much."""
        if self._threads is None:
            # One thread: one body at a time is unpacked whose size is not counted yet.
            self._threads = ThreadPoolExecutor(1, thread_name_prefix="looptrap-unpack")
        loop = asyncio.get_running_loop()
        self._waiting += 1

        def work() -> None:
            try:
                plain = decode_body(body, encoding, limit)
            except (TooLargeError, MemoryError):
                plain = body
            loop.call_soon_threadsafe(done, plain)

        def done(plain: bytes) -> None:
            self._waiting -= 1
            then(plain)

        self._threads.submit(work)

    def close(self) -> None:
        """Let the thread end."""
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)
