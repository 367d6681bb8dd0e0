"""RequestContext: all that follows from a request's head, and nothing of its body.

Clients send the same head over and over, and the wire returns equal heads as the same object. The
context of a head is cached, so that most requests pay one look-up.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from looptrap.bounded import BoundedCache
from looptrap.dialect.agent import AGENT_HEADERS, SESSION_FIELDS, agent_by_headers
from looptrap.dialect.descriptor import PROGRESS, RETRY_COUNT, SESSION_LIMIT, is_retry, session_of
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
from looptrap.retry.turn import TURN_HEADER
from looptrap.wire.exchange import Exchange
from looptrap.wire.header_fields import HOP_BY_HOP, Field, parse_token_list
from looptrap.wire.request import Head

NOT_FORWARDED = HOP_BY_HOP | {b"host", b"content-length", b"expect"}
OWN_HEADER_PREFIX = b"x-looptrap-"

_FORWARD, _DROP, _READ, _FORWARD_AND_READ = range(4)

_LIST_HEADERS = frozenset((b"connection", b"content-encoding"))
"""Headers that may be repeated; their values are joined."""

_MAX_CACHED_NAMES = 4096
"""Header names whose treatment is cached."""


@dataclass(slots=True)
class InboundHeaders:
    """What one pass over the headers of a request found."""

    forwarded: list[Field]
    session: str = ""
    request_id: bytes = b""
    is_retry: bool = False
    encoding: bytes = b""
    """The body's content encoding; empty when it is none."""
    progress: str = ""
    session_limit: bytes = b""
    is_websocket: bool = False
    user_agent: bytes = b""
    agent: str = ""
    """The name of the agent that sends such headers."""


def _agent_named(user_agent: bytes) -> str:
    return agent_by_headers([(b"user-agent", user_agent)]).name


class InboundHeaderReader:
    """Reads headers in one pass; a reload makes another."""

    def __init__(self, session_headers: Sequence[str], *, relay_compressed: bool) -> None:
        self._sessions = tuple(name.lower().encode() for name in session_headers)
        self._treatments = dict.fromkeys(NOT_FORWARDED, _DROP)
        if self._sessions:
            read = (*self._sessions, *SESSION_FIELDS)
            self._treatments |= dict.fromkeys(read, _FORWARD_AND_READ)
        self._treatments |= {
            b"connection": _READ,
            b"upgrade": _READ,
            b"x-request-id": _FORWARD_AND_READ,
            b"content-encoding": _FORWARD_AND_READ,
            RETRY_COUNT: _FORWARD_AND_READ,
            PROGRESS: _READ,
            SESSION_LIMIT: _READ,
            b"user-agent": _FORWARD_AND_READ,
            **dict.fromkeys(AGENT_HEADERS, _FORWARD_AND_READ),
            # Not for this gateway alone: an agent behind it may be part of the same turn.
            TURN_HEADER.lower().encode(): _FORWARD,
        }
        for name in self._sessions:
            if name.startswith(OWN_HEADER_PREFIX):
                self._treatments[name] = _READ
        self._agents = BoundedCache(_agent_named, max_key_bytes=256)
        self._added: list[Field] = []
        if not relay_compressed:
            # Usage and answers must be readable.
            self._treatments[b"accept-encoding"] = _DROP
            self._added = [(b"accept-encoding", b"identity")]

    def read(self, headers: Iterable[Field], drop: Container[bytes] = ()) -> InboundHeaders:
        """Return what the headers say; those in `drop`, with gateway keys, are not forwarded."""
        treatments = self._treatments
        forwarded = self._added.copy()
        values: dict[bytes, bytes] = {}
        for field in headers:
            name = field[0]
            treatment = treatments.get(name)
            if treatment is None:
                treatment = self._classify(name)
            if treatment == _FORWARD:
                if not drop or name not in drop:
                    forwarded.append(field)
            elif treatment != _DROP:
                value = field[1]
                if values.setdefault(name, value) is not value and name in _LIST_HEADERS:
                    values[name] += b"," + value
                if treatment == _FORWARD_AND_READ and name not in drop:
                    forwarded.append(field)
        inbound = InboundHeaders(forwarded)
        if values:
            self._read_values(inbound, values)
        return inbound

    def _classify(self, name: bytes) -> int:
        treatment = _DROP if name.startswith(OWN_HEADER_PREFIX) else _FORWARD
        if len(self._treatments) < _MAX_CACHED_NAMES:
            self._treatments[name] = treatment
        return treatment

    def _read_values(self, inbound: InboundHeaders, values: dict[bytes, bytes]) -> None:
        inbound.session = session_of(values, self._sessions)
        inbound.request_id = values.get(b"x-request-id", b"")
        inbound.encoding = values.get(b"content-encoding", b"").lower()
        inbound.is_retry = is_retry(values)
        inbound.progress = values.get(PROGRESS, b"").decode("latin-1")
        inbound.session_limit = values.get(SESSION_LIMIT, b"")
        inbound.is_websocket = b"websocket" in values.get(b"upgrade", b"").lower()
        inbound.user_agent = values.get(b"user-agent", b"")
        inbound.agent = self._agents[inbound.user_agent]
        if not inbound.agent and not AGENT_HEADERS.isdisjoint(values):
            inbound.agent = agent_by_headers(values.items()).name
        listed = parse_token_list(values.get(b"connection", b"")) - {b"", b"close", b"keep-alive"}
        if listed:
            kept = [one for one in inbound.forwarded if one[0] not in listed]
            inbound.forwarded = kept if b"accept-encoding" not in listed else [*self._added, *kept]


_DOLLARS = re.compile(rb"(?=[.\d]*[1-9])\d{1,6}(?:\.\d{1,9})?")

INVALID_SESSION_LIMIT = Denial(
    400,
    "invalid_session_limit",
    "X-Looptrap-Session-Limit-Usd must be an amount of dollars above 0, such as 2.50.",
)


WEBSOCKET = Denial(
    426,
    "websocket_not_supported",
    "This gateway does not forward WebSockets. Send the request over HTTP.",
)
"""Clients that try a WebSocket first, such as Codex, then use HTTP at once."""


def parse_session_limit(sent: bytes) -> int | Denial | None:
    """Return the limit in nano-dollars, None where none was sent; a denial for an invalid one."""
    if not sent:
        return None
    return nano(float(sent)) if _DOLLARS.fullmatch(sent) else INVALID_SESSION_LIMIT


DECISION_PATH = b"/looptrap/decision"

is_decision_target = re.compile(rb"%b(?:[/?]|\Z)" % DECISION_PATH).match
"""Return whether a target asks for a decision."""

_MAX_CACHED_CONTEXTS = 1024

ANONYMOUS = Identity(caller="")


@dataclass(frozen=True, slots=True)
class RequestContext:
    """What the head of a request says."""

    identity: Identity
    denied: Denial | None
    """Why the request is refused, unless it asks for a decision."""
    asks_for_decision: bool
    method: str
    path: str
    query: str
    target: bytes
    """The target to forward: without gateway keys."""
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
    """When they have to be read again; None for never."""
    user_agent: bytes
    agent: str
    """The name of the agent that is recognised by these headers; mostly none."""
    shared: tuple[tuple[bytes, bytes], ...] = ()
    """Headers that let a web page read the answer; mostly none."""


class RequestContexts:
    """Makes and caches the contexts of requests; a reload makes another."""

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
        self._cached: dict[tuple[Head, str], RequestContext] = {}
        self._generation = authenticator.generation

    def open(self, exchange: Exchange[Any]) -> RequestContext:
        """Return what the head of a request says."""
        if self._generation != self._authenticator.generation:
            self._generation = self._authenticator.generation
            self._cached.clear()
        key = (exchange.head, exchange.peer)
        context = self._cached.get(key)
        if context is None or (
            context.claims_until is not None and context.claims_until <= self._clock()
        ):
            context = self._open(exchange)
            if exchange.head.is_cached:
                if len(self._cached) >= _MAX_CACHED_CONTEXTS:
                    self._cached.clear()
                self._cached[key] = context
        return context

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
        if inbound.is_websocket:
            denied = denied or WEBSOCKET
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
            inbound.user_agent,
            inbound.agent,
            shared,
        )
