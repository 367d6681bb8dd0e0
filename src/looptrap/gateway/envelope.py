"""Envelopes: all that follows from a request's head, and none of its body.

Clients send the same head over and over, and the wire gives equal ones as the same object. What was
found out about one is remembered, so that most requests pay one look-up for who calls, what is
forwarded and where to.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping

import msgspec

from looptrap.gateway.auth import (
    KEY_IN_PATH,
    Authenticator,
    Denied,
    Identity,
    has_key,
    without_key,
    without_keys,
)
from looptrap.gateway.browser import PREFLIGHT, Browsers
from looptrap.gateway.claims import Claims
from looptrap.gateway.inbound import InboundReader
from looptrap.gateway.keys import PREFIX
from looptrap.gateway.session_limit import session_limit
from looptrap.wire.exchange import Exchange
from looptrap.wire.head import Head

DECISION_PATH = b"/looptrap/decision"

is_decision = re.compile(rb"%b(?:[/?]|\Z)" % DECISION_PATH).match
"""Say whether a target asks for a decision."""

_REMEMBERED = 1024


class Envelope(msgspec.Struct, frozen=True, gc=False):
    """What the head of a request says."""

    identity: Identity
    denied: Denied | None
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


class Envelopes:
    """Opens the envelopes of requests; made anew with the configuration."""

    def __init__(
        self,
        authenticator: Authenticator,
        inbound: InboundReader,
        claims: Claims,
        clock: Callable[[], float] = time.time,
        browsers: Browsers | None = None,
    ) -> None:
        self._authenticator = authenticator
        self._inbound = inbound
        self._claims = claims
        self._browsers = browsers or Browsers()
        self._clock = clock
        self._remembered: dict[tuple[Head, str], Envelope] = {}
        self._generation = authenticator.generation

    def open(self, exchange: Exchange) -> Envelope:
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
            if exchange.head.is_remembered:
                if len(self._remembered) >= _REMEMBERED:
                    self._remembered.clear()
                self._remembered[key] = envelope
        return envelope

    def _open(self, exchange: Exchange) -> Envelope:
        headers, target = exchange.headers, exchange.target
        identity = self._authenticator.identify(headers, target, exchange.peer)
        denied = None
        if isinstance(identity, Denied):
            denied, identity = identity, NOBODY
        refused, shared = self._browsers.decide(exchange.method, headers, identity)
        if refused is not None and (denied is None or refused is PREFLIGHT):
            denied = refused
        inbound = self._inbound.read(headers, identity.drop)
        limit = session_limit(inbound.session_limit)
        if isinstance(limit, Denied):
            denied, limit = denied or limit, None
        claims, claims_until = self._claims.of(headers, self._clock())
        path, mark, query = target.partition(b"?")
        if has_key(path):
            denied = denied or KEY_IN_PATH
        if query and (identity.drop_query or identity.drop_every_key or has_key(query)):
            kept = without_key(query, every=identity.drop_every_key)
            target = path + mark + kept if kept else path
        fields = b"".join([b"%b: %b\r\n" % field for field in inbound.forwarded])
        if PREFIX in fields:
            fields = b"".join([b"%b: %b\r\n" % field for field in without_keys(inbound.forwarded)])
        return Envelope(
            identity,
            denied,
            is_decision(exchange.target) is not None,
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


NOBODY = Identity(caller="")
