"""The ids of a call's span, as W3C trace context passes them from client to provider. Pure."""

from __future__ import annotations

import re
from random import Random

import msgspec

SAMPLED = 1
_KNOWN_FLAGS = 3
"""Sampled, and random: others mean nothing in the version that is sent."""

_HINT = b"trace"
_FIELD = re.compile(rb"(?m)^(traceparent|tracestate): ([^\r\n]*)\r\n")
_PARENT_FIELD = re.compile(rb"(?m)^traceparent: [^\r\n]*\r\n")
_TRACEPARENT = re.compile(
    rb"(?!ff)([0-9a-f]{2})-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})(-.*)?"
)

_MOST_MEMBERS = 32
_MEMBER = re.compile(
    r"([a-z][_0-9a-z*/-]{0,255}|[a-z0-9][_0-9a-z*/-]{0,240}@[a-z][_0-9a-z*/-]{0,13})"
    r"=([ -+\--<>-~]{0,255}[!-+\--<>-~])"
)


class Span(msgspec.Struct, frozen=True, gc=False):
    """One call's place in a trace; what else there is to tell of it is known when it is settled."""

    trace_id: int
    id: int
    parent_id: int
    """The client's span; 0 where the trace begins here."""
    flags: int
    state: str
    """What other systems along the way wrote into `tracestate`."""
    began: float

    @property
    def is_sampled(self) -> bool:
        """Whether anybody wants to see it."""
        return bool(self.flags & SAMPLED)

    def forwarded(self, fields: bytes) -> bytes:
        """Return a header block in which this span stands in the place of the client's."""
        if _HINT in fields:
            # A state that came without a trace to belong to means nothing.
            fields = (_PARENT_FIELD if self.parent_id else _FIELD).sub(b"", fields)
        ids = (fields, self.trace_id, self.id, self.flags)
        return b"%btraceparent: 00-%032x-%016x-%02x\r\n" % ids


def begin(fields: bytes, began: float, sample: float, rng: Random) -> Span:
    """Return the next span of the trace that a header block names, else the first of a new one."""
    span_id = rng.getrandbits(64) or 1
    given = _FIELD.findall(fields) if _HINT in fields else ()
    parents = [value for name, value in given if name == b"traceparent"]
    parent = _TRACEPARENT.fullmatch(parents[0]) if len(parents) == 1 else None
    if parent is None or (parent[1] == b"00" and parent[5]):
        trace_id = rng.getrandbits(128) or 1
        flags = SAMPLED if rng.random() < sample else 0
        return Span(trace_id, span_id, 0, flags, "", began)
    state = b",".join(value for name, value in given if name == b"tracestate")
    return Span(
        int(parent[2], 16),
        span_id,
        int(parent[3], 16),
        int(parent[4], 16) & _KNOWN_FLAGS,
        state.decode("latin-1"),
        began,
    )


def members(state: str) -> list[tuple[str, str]]:
    """Return the members of a `tracestate`; none where one of them is malformed."""
    found: dict[str, str] = {}
    given = [one for one in (part.strip(" \t") for part in state.split(",")) if one]
    for one in given:
        member = _MEMBER.fullmatch(one)
        if member is None:
            return []
        found[member[1]] = member[2]
    is_well_formed = len(found) == len(given) <= _MOST_MEMBERS
    return list(found.items()) if is_well_formed else []
