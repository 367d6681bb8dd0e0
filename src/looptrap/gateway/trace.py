"""Tracer: makes a span of every call, and exports it when the call is settled."""

from __future__ import annotations

import re
from collections.abc import Mapping
from random import Random
from typing import TYPE_CHECKING

import msgspec

from looptrap.config.gateway import TraceSettings
from looptrap.dialect.model import Call, DialectName, Outcome
from looptrap.engine import Ticket, Transaction
from looptrap.errors import ConfigError, Problem
from looptrap.money.price import usd
from looptrap.policy.action import Action
from looptrap.policy.policy import Mode
from looptrap.policy.verdict import Verdict

if TYPE_CHECKING:
    from looptrap.gateway.trace_export import TraceExporter

Attributes = dict[str, str | bool | int | float]

MAX_TEXT_CHARS = 256
"""Characters of a text that a client chose: its model, session or path."""

CLIENT_CLOSED_STATUS = 499
"""The status of a call whose client did not wait for an answer."""

VERDICT_EVENT = "looptrap.verdict"

_OPERATIONS: dict[DialectName, str] = {
    "openai_chat": "chat",
    "openai_responses": "chat",
    "openai_completions": "text_completion",
    "openai_embeddings": "embeddings",
    "anthropic": "chat",
    "gemini": "generate_content",
    "gemini_interactions": "generate_content",
}

_DIALECT_VENDORS: dict[DialectName, str] = {
    "anthropic": "anthropic",
    "gemini": "gcp.gemini",
    "gemini_interactions": "gcp.gemini",
}
"""The vendors of dialects; all others are OpenAI's."""

_CONVENTIONAL_NAMES = {"gemini": "gcp.gemini", "mistral": "mistral_ai", "xai": "x_ai"}
"""Names of providers that differ in OpenTelemetry's conventions."""

_UNNAMED_PROVIDERS = ("", "upstream")
"""The names of no provider, and of the one upstream for everything."""


def operation_of(call: Call) -> str:
    """Return what a model is asked to do; empty for calls of no model."""
    if call.generates or call.dialect == "openai_embeddings":
        return _OPERATIONS.get(call.dialect, "")
    return ""


def span_name(call: Call) -> str:
    """Return the name of a span: `chat gpt-5.3`, or the method alone."""
    operation = operation_of(call)
    if not operation:
        return call.request.method
    return f"{operation} {call.model[:MAX_TEXT_CHARS]}" if call.model else operation


def span_attributes(transaction: Transaction, outcome: Outcome) -> Attributes:
    """Return the attributes of a settled call that are not empty."""
    call, request, usage = transaction.call, transaction.call.request, outcome.usage
    status, operation = transaction.status, operation_of(call)
    attributes: Attributes = {"looptrap.verdict": transaction.ticket.verdict.action.value}
    if operation:
        attributes |= {
            "gen_ai.operation.name": operation,
            "gen_ai.provider.name": _provider_of(transaction.provider, call.dialect),
            "gen_ai.request.model": call.model[:MAX_TEXT_CHARS],
            "gen_ai.request.stream": call.stream,
            "gen_ai.conversation.id": request.session[:MAX_TEXT_CHARS],
            "gen_ai.usage.input_tokens": usage.input_tokens,
            "gen_ai.usage.output_tokens": usage.output_tokens,
        }
    else:
        attributes["http.request.method"] = request.method
        attributes["url.path"] = request.path[:MAX_TEXT_CHARS]
    attributes |= {
        "looptrap.cost_usd": 0 if outcome.cost is None else usd(outcome.cost),
        "looptrap.usage_estimated": usage.is_estimated,
        "http.response.status_code": 0 if status == CLIENT_CLOSED_STATUS else status,
        "error.type": error_type(transaction.ticket, status, outcome.cut_off),
        "looptrap.provider": transaction.provider,
        "looptrap.caller": request.caller,
        "looptrap.project": request.project,
        "looptrap.request_id": transaction.request_id[:MAX_TEXT_CHARS].decode("latin-1"),
    }
    return {name: value for name, value in attributes.items() if value}


def error_type(ticket: Ticket, status: int, cut_off: bool) -> str:
    """Return the class of error of a call; empty where it succeeded, or was ended by a rule."""
    verdict, heard = ticket.verdict, ticket.heard
    if verdict.action.refuses:
        return verdict.reason if status >= 400 else ""
    if status in (0, CLIENT_CLOSED_STATUS):
        return "cancelled"
    if status >= 400:
        return str(status)
    if not cut_off:
        return ""
    if heard is not None and heard.action.refuses:
        return heard.reason if heard.action is Action.BLOCK else ""
    return "cut_off"


def verdict_attributes(mode: Mode, verdict: Verdict) -> Attributes:
    """Return the attributes of a verdict's event, without its message and evidence."""
    attributes: Attributes = {
        "looptrap.action": verdict.action.value,
        "looptrap.mode": mode,
        "looptrap.reason": verdict.reason,
        "looptrap.policy": verdict.policy,
        "looptrap.rule": verdict.rule,
        "looptrap.count": verdict.count,
        "looptrap.fingerprint": verdict.fingerprint,
    }
    return {name: value for name, value in attributes.items() if value}


def _provider_of(name: str, dialect: DialectName) -> str:
    if name in _UNNAMED_PROVIDERS:
        return _DIALECT_VENDORS.get(dialect, "openai")
    return _CONVENTIONAL_NAMES.get(name, name)


SAMPLED = 1
_KNOWN_FLAGS = 3
"""Sampled, and random: the version that is sent has no others."""

_HINT = b"trace"
_FIELD = re.compile(rb"(?m)^(traceparent|tracestate): ([^\r\n]*)\r\n")
_PARENT_FIELD = re.compile(rb"(?m)^traceparent: [^\r\n]*\r\n")
_TRACEPARENT = re.compile(
    rb"(?!ff)([0-9a-f]{2})-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})(-.*)?"
)

_MAX_MEMBERS = 32
_MEMBER = re.compile(
    r"([a-z][_0-9a-z*/-]{0,255}|[a-z0-9][_0-9a-z*/-]{0,240}@[a-z][_0-9a-z*/-]{0,13})"
    r"=([ -+\--<>-~]{0,255}[!-+\--<>-~])"
)


class TraceSpan(msgspec.Struct, frozen=True, gc=False):
    """One call's place in a trace."""

    trace_id: int
    id: int
    parent_id: int
    """The client's span; 0 where the trace begins here."""
    flags: int
    state: str
    """The `tracestate` of other systems."""
    began: float

    @property
    def is_sampled(self) -> bool:
        """Whether it is exported."""
        return bool(self.flags & SAMPLED)

    def forwarded(self, fields: bytes) -> bytes:
        """Return a header block with this span in place of the client's."""
        if _HINT in fields:
            # A `tracestate` without a trace means nothing.
            fields = (_PARENT_FIELD if self.parent_id else _FIELD).sub(b"", fields)
        ids = (fields, self.trace_id, self.id, self.flags)
        return b"%btraceparent: 00-%032x-%016x-%02x\r\n" % ids


def start_span(fields: bytes, began: float, sample: float, rng: Random) -> TraceSpan:
    """Return a span of the trace that a header block names, else of a new one."""
    span_id = rng.getrandbits(64) or 1
    sent = _FIELD.findall(fields) if _HINT in fields else ()
    parents = [value for name, value in sent if name == b"traceparent"]
    parent = _TRACEPARENT.fullmatch(parents[0]) if len(parents) == 1 else None
    if parent is None or (parent[1] == b"00" and parent[5]):
        trace_id = rng.getrandbits(128) or 1
        flags = SAMPLED if rng.random() < sample else 0
        return TraceSpan(trace_id, span_id, 0, flags, "", began)
    state = b",".join(value for name, value in sent if name == b"tracestate")
    return TraceSpan(
        int(parent[2], 16),
        span_id,
        int(parent[3], 16),
        int(parent[4], 16) & _KNOWN_FLAGS,
        state.decode("latin-1"),
        began,
    )


def parse_tracestate(state: str) -> list[tuple[str, str]]:
    """Return the members of a `tracestate`; none where one of them is malformed."""
    found: dict[str, str] = {}
    members = [one for part in state.split(",") if (one := part.strip(" \t"))]
    for one in members:
        member = _MEMBER.fullmatch(one)
        if member is None:
            return []
        found[member[1]] = member[2]
    is_well_formed = len(found) == len(members) <= _MAX_MEMBERS
    return list(found.items()) if is_well_formed else []


CLOSE_TIMEOUT_S = 2.0
"""Seconds to send the spans that wait when the gateway stops."""


class Tracer:
    """Makes a span of every call; no error of tracing affects a call."""

    def __init__(self, export: TraceExporter, *, sample: float) -> None:
        self.export = export
        self._sample = sample
        # Seeded by the system once: its own randomness would cost more than all else.
        self._rng = Random()

    @classmethod
    def of(cls, settings: TraceSettings, env: Mapping[str, str]) -> Tracer | None:
        """Return a tracer, not started; None, with nothing imported, without an endpoint."""
        if settings.endpoint is None:
            return None
        try:
            from looptrap.gateway.trace_export import TraceExporter
        except ImportError as error:
            if error.name is None or error.name.partition(".")[0] != "opentelemetry":
                raise
            message = 'needs OpenTelemetry: pip install "looptrap[otel]"'
            raise ConfigError([Problem("traces.endpoint", message)]) from None
        export = TraceExporter(settings.endpoint, service=settings.service, env=env)
        return cls(export, sample=settings.sample)

    def start(self) -> None:
        """Begin to send."""
        self.export.start()

    def begin(self, fields: bytes, now: float) -> TraceSpan:
        """Return the span of a call with these headers to forward."""
        return start_span(fields, now, self._sample, self._rng)

    def settled(
        self, span: TraceSpan, transaction: Transaction, outcome: Outcome, now: float
    ) -> None:
        """Export the span of a call that is settled."""
        if not span.is_sampled or not self.export.has_room():
            return
        ticket = transaction.ticket
        # The verdict about an answer is not older than the answer.
        events = [
            (now if verdict is ticket.heard else span.began, verdict_attributes(mode, verdict))
            for mode, verdict in ticket.verdicts()
        ]
        attributes = span_attributes(transaction, outcome)
        self.export.put(span, span_name(transaction.call), attributes, events, now)

    def stop(self, timeout: float = CLOSE_TIMEOUT_S) -> None:
        """Send what waits, within `timeout` seconds, and end; blocks."""
        self.export.stop(timeout)
