"""What is sent on one leg: the caller's request, with what that provider may not see left out."""

from __future__ import annotations

import msgspec

from looptrap.answer.nudge import SIGNATURES
from looptrap.call.model import Call
from looptrap.gateway.attempt.abroad import carried_fields, carried_target, without_field
from looptrap.gateway.attempt.plan import Leg
from looptrap.gateway.attempt.rewrite import model_spots, target_with_model, with_model
from looptrap.gateway.envelope import Envelope
from looptrap.gateway.trace import Span


class Parcel(msgspec.Struct, frozen=True, gc=False):
    """One request, ready for the wire."""

    target: bytes
    fields: bytes
    body: bytes


class Packing:
    """Packs one call for each of its legs."""

    __slots__ = ("_body", "_call", "_envelope", "_fields", "_span", "_spots")

    def __init__(self, call: Call, envelope: Envelope, body: bytes, span: Span | None) -> None:
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
        self._spots = model_spots(plain)
        if self._spots is None:
            return False
        if self._envelope.encoding:
            self._body = plain
            self._fields = without_field(self._fields, b"content-encoding")
        return True

    def pack(self, leg: Leg) -> Parcel:
        """Return what goes to that provider."""
        target, fields, body = self._envelope.target, self._fields, self._body
        dialect, model = self._call.dialect, leg.link.model
        if not leg.is_home:
            target, fields = carried_target(target), carried_fields(fields, dialect)
        if model is not None and dialect == "gemini":
            target = target_with_model(target, model)
        elif model is not None and self._spots is not None:
            body = with_model(body, self._spots, model)
        if leg.is_lent:
            fields += leg.provider.key_field(dialect) or b""
        if self._span is not None:
            fields = self._span.forwarded(fields)
        return Parcel(leg.provider.target(target), fields, body)
