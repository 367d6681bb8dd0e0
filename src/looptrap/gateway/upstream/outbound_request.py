"""What is sent to a candidate: the caller's request, less what that provider must not see."""

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
from looptrap.retry.turn import TURN_HEADER

_TOKEN = re.compile(rb'"(?:[^"\\]++|\\.)*+"|[][{}]', re.DOTALL)
_VALUE = re.compile(rb'\s*:\s*("(?:[^"\\]++|\\.)*+")', re.DOTALL)
_IN_PATH = re.compile(rb"(/models/)[^/:?]+(:[^/?]+)")
_ENCODING = re.compile(rb"(?im)^content-encoding:[^\r\n]*\r\n")
_OPEN, _CLOSE = frozenset(b"[{"), frozenset(b"]}")

_encode = msgspec.json.encode
_decode = msgspec.json.decode


def find_model_slices(body: bytes) -> list[slice] | None:
    """Return the values of the top-level key `model`, all if it is repeated; None if unclear.

    Readers differ on which value of a repeated key counts.
    """
    value = find_field(body, "model")
    if value is not None:
        return [value] if body[value].startswith(b'"') else None
    try:
        if not isinstance(_decode(body), dict):
            return None
    except UNREADABLE:
        return None
    return _scan_model_slices(body)


def replace_model(body: bytes, slices: Sequence[slice], model: str) -> bytes:
    """Return the body with another model in these slices."""
    name, sent = _encode(model), memoryview(body)
    parts: list[bytes | memoryview] = []
    at = 0
    for one in slices:
        parts += (sent[at : one.start], name)
        at = one.stop
    return b"".join((*parts, sent[at:]))


def replace_model_in_path(target: bytes, model: str) -> bytes:
    """Return the target with another model in its path, where Gemini has it."""
    path, mark, query = target.partition(b"?")
    name = quote(model, safe="").encode()
    return _IN_PATH.sub(lambda found: found[1] + name + found[2], path, count=1) + mark + query


def _scan_model_slices(body: bytes) -> list[slice] | None:
    """Find the slices in JSON that is not as plain as most."""
    slices: list[slice] = []
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
            slices.append(slice(*value.span(1)))
            at = value.end()
    return slices


SHARED_HEADERS = {
    b"accept", b"accept-encoding", b"baggage", b"content-encoding", b"content-type",
    b"traceparent", b"tracestate", b"user-agent", b"x-request-id", TURN_HEADER.lower().encode(),
}  # fmt: skip
"""Headers that go to any provider."""

DIALECT_HEADERS = {"anthropic": {b"anthropic-version", b"anthropic-beta"}}
"""Headers that a dialect needs."""

SHARED_PARAMETERS = frozenset((b"alt", b"beta"))
"""Parameters of the query that go to any provider: they choose the form of the answer."""


def filter_fields(fields: bytes, dialect: DialectName) -> bytes:
    """Return the lines of a header block that go to any provider."""
    kept = SHARED_HEADERS | DIALECT_HEADERS.get(dialect, set())
    lines = fields.split(b"\r\n")
    return b"".join([line + b"\r\n" for line in lines if line.partition(b":")[0].lower() in kept])


def filter_target(target: bytes) -> bytes:
    """Return the target with the parameters that go to any provider."""
    path, _, query = target.partition(b"?")
    kept = [
        parameter
        for parameter in query.split(b"&")
        if unquote_to_bytes(parameter.partition(b"=")[0]) in SHARED_PARAMETERS
    ]
    return path + b"?" + b"&".join(kept) if kept else path


class OutboundRequest(msgspec.Struct, frozen=True, gc=False):
    """One request, ready for the wire."""

    target: bytes
    fields: bytes
    body: bytes


class RequestBuilder:
    """Builds the request of one call for each of its candidates."""

    __slots__ = ("_body", "_call", "_context", "_fields", "_model_slices", "_span")

    def __init__(
        self, call: Call, context: RequestContext, body: bytes, span: TraceSpan | None
    ) -> None:
        self._call = call
        self._context = context
        self._body = body
        self._span = span
        self._fields = context.fields
        self._model_slices: list[slice] | None = None

    def can_rename(self) -> bool:
        """Find the model in the request; return whether it can be replaced."""
        if self._call.dialect == "gemini":
            return True
        if any(name in SIGNATURES for name, _ in self._call.request.headers):
            return False
        # An encoded body is sent decoded where a part of it has to change.
        plain = self._call.request.body if self._context.encoding else self._body
        self._model_slices = find_model_slices(plain)
        if self._model_slices is None:
            return False
        if self._context.encoding:
            self._body = plain
            self._fields = _ENCODING.sub(b"", self._fields)
        return True

    def build(self, candidate: Candidate) -> OutboundRequest:
        """Return the request for a candidate."""
        target, fields, body = self._context.target, self._fields, self._body
        dialect, model = self._call.dialect, candidate.link.model
        if not candidate.is_primary:
            target, fields = filter_target(target), filter_fields(fields, dialect)
        if model is not None and dialect == "gemini":
            target = replace_model_in_path(target, model)
        elif model is not None and self._model_slices is not None:
            body = replace_model(body, self._model_slices, model)
        if candidate.has_operator_key:
            fields += candidate.provider.key_field(dialect) or b""
        if self._span is not None:
            fields = self._span.forwarded(fields)
        return OutboundRequest(candidate.provider.target(target), fields, body)
