"""What a span tells of a call, in the words of OpenTelemetry's conventions. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal

from looptrap.admission import Ticket
from looptrap.call.model import Call, Dialect, Outcome
from looptrap.gateway.unanswered import LEFT
from looptrap.incident.saving import usd
from looptrap.policy.action import Action
from looptrap.policy.verdict import ALLOWED, Verdict

if TYPE_CHECKING:
    from looptrap.gateway.relay import Relay

Attributes = dict[str, str | bool | int | float]
Mode = Literal["enforce", "shadow"]

LONGEST = 256
"""Characters that are told of a text that a client chose: its model, session or path."""

EVENT = "looptrap.verdict"

_OPERATIONS: dict[Dialect, str] = {
    "openai_chat": "chat",
    "openai_responses": "chat",
    "openai_completions": "text_completion",
    "openai_embeddings": "embeddings",
    "anthropic": "chat",
    "gemini": "generate_content",
}

_SPEAKERS: dict[Dialect, str] = {"anthropic": "anthropic", "gemini": "gcp.gemini"}
"""Whose dialect it is; all others are OpenAI's."""

_CONVENTIONAL = {"gemini": "gcp.gemini", "mistral": "mistral_ai", "xai": "x_ai"}
"""Names of providers to which the conventions give others."""

_NAMELESS = ("", "upstream")
"""Of a call that went nowhere, or to the one place for everything."""


def operation_of(call: Call) -> str:
    """Return what a model is asked to do; empty for what asks no model."""
    if call.generates or call.dialect == "openai_embeddings":
        return _OPERATIONS.get(call.dialect, "")
    return ""


def name_of(call: Call) -> str:
    """Return the name of a span: `chat gpt-5.3`, or the method alone."""
    operation = operation_of(call)
    if not operation:
        return call.request.method
    return f"{operation} {call.model[:LONGEST]}" if call.model else operation


def attributes_of(relay: Relay, outcome: Outcome) -> Attributes:
    """Return what there is to know of a settled call, without what is empty."""
    call, request = relay.call, relay.call.request
    told: Attributes = {"looptrap.verdict": relay.ticket.verdict.action.value}
    operation = operation_of(call)
    if operation:
        told["gen_ai.operation.name"] = operation
        told["gen_ai.provider.name"] = _provider_of(relay.provider, call.dialect)
        told["gen_ai.request.model"] = call.model[:LONGEST]
        told["gen_ai.request.stream"] = call.stream
        told["gen_ai.conversation.id"] = request.session[:LONGEST]
        told["gen_ai.usage.input_tokens"] = outcome.usage.input_tokens
        told["gen_ai.usage.output_tokens"] = outcome.usage.output_tokens
    else:
        told["http.request.method"] = request.method
        told["url.path"] = request.path[:LONGEST]
    if outcome.cost is not None:
        told["looptrap.cost_usd"] = usd(outcome.cost)
    told["looptrap.usage_estimated"] = outcome.usage.is_estimated
    told["http.response.status_code"] = 0 if relay.status == LEFT else relay.status
    told["error.type"] = error_of(relay.ticket, relay.status, outcome.cut_off)
    told["looptrap.provider"] = relay.provider
    told["looptrap.caller"] = request.caller
    told["looptrap.project"] = request.project
    told["looptrap.request_id"] = relay.request_id[:LONGEST].decode("latin-1")
    return {name: value for name, value in told.items() if value}


def error_of(ticket: Ticket, status: int, cut_off: bool) -> str:
    """Return what class of error a call ended in; empty where it went well, or was ended well."""
    verdict, heard = ticket.verdict, ticket.heard
    if verdict.action.refuses:
        return verdict.reason if status >= 400 else ""
    if status in (0, LEFT):
        return "cancelled"
    if status >= 400:
        return str(status)
    if not cut_off:
        return ""
    if heard is not None and heard.action.refuses:
        return heard.reason if heard.action is Action.BLOCK else ""
    return "cut_off"


def verdicts_of(ticket: Ticket) -> Iterator[tuple[Mode, Verdict]]:
    """Yield all that rules decided, or would have, beyond letting the call pass."""
    if ticket.verdict is not ALLOWED:
        yield "enforce", ticket.verdict
    if ticket.heard is not None:
        yield "enforce", ticket.heard
    if ticket.shadow is not None:
        yield "shadow", ticket.shadow


def event_of(mode: Mode, verdict: Verdict) -> Attributes:
    """Return what a verdict's event tells: neither its message nor its evidence."""
    told: Attributes = {
        "looptrap.action": verdict.action.value,
        "looptrap.mode": mode,
        "looptrap.reason": verdict.reason,
        "looptrap.policy": verdict.policy,
        "looptrap.rule": verdict.rule,
        "looptrap.count": verdict.count,
        "looptrap.fingerprint": verdict.fingerprint,
    }
    return {name: value for name, value in told.items() if value}


def _provider_of(name: str, dialect: Dialect) -> str:
    if name in _NAMELESS:
        return _SPEAKERS.get(dialect, "openai")
    return _CONVENTIONAL.get(name, name)
