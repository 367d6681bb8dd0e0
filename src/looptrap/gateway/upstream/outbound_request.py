"""What is sent on one leg: the caller's request, with what that provider may not see left out."""

from __future__ import annotations

import re
from collections.abc import Sequence
from urllib.parse import quote, unquote_to_bytes

import msgspec

from looptrap.dialect.answer import SIGNATURES
from looptrap.dialect.content import UNREADABLE
from looptrap.dialect.model import Call, DialectName
from looptrap.dialect.splice import find_field
from looptrap.gateway.request_context import RequestContext
from looptrap.gateway.trace import TraceSpan
from looptrap.gateway.upstream.failover_plan import Candidate
from looptrap.retry.turn.header import TURN_HEADER

_TOKEN = re.compile(rb'"(?:[^"\\]++|\\.)*+"|[][{}]', re.DOTALL)
_VALUE = re.compile(rb'\s*:\s*("(?:[^"\\]++|\\.)*+")', re.DOTALL)
_IN_PATH = re.compile(rb"(/models/)[^/:?]+(:[^/?]+)")
_OPEN, _CLOSE = frozenset(b"[{"), frozenset(b"]}")

_encode = msgspec.json.encode
_decode = msgspec.json.decode


def find_model_slices(body: bytes) -> list[slice] | None:
    """Return where the values of the top-level key `model` stand; None where that is not clear.

    Of a key that stands there twice, readers disagree which one counts: all are found.
    """
    spot = find_field(body, "model")
    if spot is not None:
        return [spot] if body[spot].startswith(b'"') else None
    try:
        if not isinstance(_decode(body), dict):
            return None
    except UNREADABLE:
        return None
    return _scan_model_slices(body)


def replace_model(body: bytes, spots: Sequence[slice], model: str) -> bytes:
    """Return the body with another model at these places."""
    name, sent = _encode(model), memoryview(body)
    parts: list[bytes | memoryview] = []
    at = 0
    for spot in spots:
        parts += (sent[at : spot.start], name)
        at = spot.stop
    return b"".join((*parts, sent[at:]))


def replace_model_in_path(target: bytes, model: str) -> bytes:
    """Return the target with another model in its path, as Gemini has it there."""
    path, mark, query = target.partition(b"?")
    name = quote(model, safe="").encode()
    return _IN_PATH.sub(lambda found: found[1] + name + found[2], path, count=1) + mark + query


def _scan_model_slices(body: bytes) -> list[slice] | None:
    """Find the spots in a body that is JSON, but not as plain as most."""
    spots: list[slice] = []
    depth, at = 0, 0
    while token := _TOKEN.search(body, at):
        at = token.end()
        first = body[token.start()]
        if first in _OPEN:
            depth += 1
        elif first in _CLOSE:
            depth -= 1
        elif depth == 1 and _decode(token[0]) == "model" and body[at:].lstrip()[:1] == b":":
            value = _VALUE.match(body, at)
            if value is None:
                return None
            spots.append(slice(*value.span(1)))
            at = value.end()
    return spots


SHARED_HEADERS = frozenset(
    (
        b"accept",
        b"accept-encoding",
        b"baggage",
        b"content-encoding",
        b"content-type",
        b"traceparent",
        b"tracestate",
        b"user-agent",
        TURN_HEADER.lower().encode(),
        b"x-request-id",
    )
)
"""Headers that go to any provider."""

DIALECT_HEADERS: dict[DialectName, frozenset[bytes]] = {
    "anthropic": frozenset((b"anthropic-version", b"anthropic-beta")),
}
"""Headers without which a dialect is not the same."""

SHARED_PARAMETERS = frozenset((b"alt", b"beta"))
"""Parameters of the query that choose the form of an answer."""


def filter_fields(fields: bytes, dialect: DialectName) -> bytes:
    """Return the lines of a header block that go abroad."""
    kept = SHARED_HEADERS | DIALECT_HEADERS.get(dialect, frozenset())
    lines = fields.split(b"\r\n")
    return b"".join([line + b"\r\n" for line in lines if line.partition(b":")[0].lower() in kept])


def filter_target(target: bytes) -> bytes:
    """Return the target with those parameters that go abroad."""
    path, _, query = target.partition(b"?")
    kept = [
        parameter
        for parameter in query.split(b"&")
        if unquote_to_bytes(parameter.partition(b"=")[0]) in SHARED_PARAMETERS
    ]
    return path + b"?" + b"&".join(kept) if kept else path


def drop_field(fields: bytes, name: bytes) -> bytes:
    """Return a header block without one (lower-case) name."""
    lines = fields.split(b"\r\n")[:-1]
    kept = [line for line in lines if line.partition(b":")[0].lower() != name]
    return b"".join([line + b"\r\n" for line in kept])


class OutboundRequest(msgspec.Struct, frozen=True, gc=False):
    """One request, ready for the wire."""

    target: bytes
    fields: bytes
    body: bytes


class RequestBuilder:
    """Packs one call for each of its legs."""

    __slots__ = ("_body", "_call", "_envelope", "_fields", "_span", "_spots")

    def __init__(
        self, call: Call, envelope: RequestContext, body: bytes, span: TraceSpan | None
    ) -> None:
        self._call = call
        self._envelope = envelope
        self._body = body
        self._span = span
        self._fields = envelope.fields
        self._spots: list[slice] | None = None

    def can_rename(self) -> bool:
        """Find where the model is named; say whether another can be put in its place."""
        if self._call.dialect == "gemini":
            return True
        if any(name in SIGNATURES for name, _ in self._call.request.headers):
            return False
        # An encoded body is sent in plain where a part of it has to change.
        plain = self._call.request.body if self._envelope.encoding else self._body
        self._spots = find_model_slices(plain)
        if self._spots is None:
            return False
        if self._envelope.encoding:
            self._body = plain
            self._fields = drop_field(self._fields, b"content-encoding")
        return True

    def pack(self, leg: Candidate) -> OutboundRequest:
        """Return what goes to that provider."""
        target, fields, body = self._envelope.target, self._fields, self._body
        dialect, model = self._call.dialect, leg.link.model
        if not leg.is_home:
            target, fields = filter_target(target), filter_fields(fields, dialect)
        if model is not None and dialect == "gemini":
            target = replace_model_in_path(target, model)
        elif model is not None and self._spots is not None:
            body = replace_model(body, self._spots, model)
        if leg.is_lent:
            fields += leg.provider.key_field(dialect) or b""
        if self._span is not None:
            fields = self._span.forwarded(fields)
        return OutboundRequest(leg.provider.target(target), fields, body)
