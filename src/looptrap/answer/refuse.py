"""Refusals and the gateway's own failures, in the error shape of each dialect."""

from __future__ import annotations

from math import ceil
from typing import Any

import msgspec

from looptrap.answer.answer import Answer, described, encode
from looptrap.answer.wording import refused
from looptrap.call.content import UNREADABLE
from looptrap.call.model import Call, Dialect
from looptrap.policy.action import Action
from looptrap.policy.header import headers_of
from looptrap.policy.limit import RateStatus
from looptrap.policy.verdict import CODES, Reason, Verdict

__all__ = ["Answer", "failure", "refusal"]

STATUSES: dict[Reason, int] = {
    "budget_exceeded": 402,
    "rate_limited": 429,
    "killed": 403,
    "store_unavailable": 503,
}
"""Reasons with a status of their own; the others have the configured one."""

ANTHROPIC_TYPES = {
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    408: "timeout_error",
    413: "request_too_large",
    429: "rate_limit_error",
    503: "overloaded_error",
    504: "timeout_error",
}

GOOGLE_STATUSES = {
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    408: "DEADLINE_EXCEEDED",
    429: "RESOURCE_EXHAUSTED",
    502: "UNAVAILABLE",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}

RPC_REFUSED = -32029
"""A refusal's JSON-RPC code, from the range left to implementations."""
RPC_INVALID_REQUEST = -32600
RPC_INTERNAL_ERROR = -32603

Json = dict[str, Any]
NO_ID = msgspec.Raw(b"null")


class _Fault(msgspec.Struct, frozen=True):
    """What went wrong, before it takes the shape of a dialect."""

    status: int
    code: str
    kind: str
    """OpenAI's `type`; the other dialects tell theirs from the status."""
    message: str
    detail: Json
    """The same in every dialect."""
    rpc_code: int


class _Identified(msgspec.Struct, gc=False):
    id: msgspec.Raw = NO_ID


_decode_identified = msgspec.json.Decoder(_Identified).decode


def refusal(
    call: Call,
    verdict: Verdict,
    *,
    shadow: Verdict | None,
    request_id: str,
    block_status: int,
    pace: RateStatus | None = None,
) -> Answer:
    """Return the answer to a call that goes no further; a milder verdict becomes a block."""
    code, message = CODES[verdict.reason], refused(verdict)
    detail = {
        "error": code,
        "message": message,
        "fingerprint": verdict.fingerprint,
        "hit_count": verdict.count,
        "cooldown_seconds": ceil(verdict.cooldown_left),
        "rule": verdict.rule,
        "evidence": verdict.evidence,
    }
    status = STATUSES.get(verdict.reason, block_status)
    fault = _Fault(status, code, verdict.reason, message, detail, RPC_REFUSED)
    blocked = msgspec.structs.replace(verdict, action=Action.BLOCK)
    headers = described(headers_of(blocked, shadow, pace), call.dialect, request_id)
    if call.dialect == "mcp":
        # JSON-RPC errors travel under 200: many MCP clients never read the body of another status.
        return Answer(200, headers, encode(_rpc_shape(fault, _rpc_id(call))))
    return Answer(status, headers, encode(_shape(call.dialect, fault, request_id)))


def failure(
    dialect: Dialect,
    *,
    status: int,
    code: str,
    message: str,
    request_id: str,
    retry_after: int | None = None,
) -> Answer:
    """Return the answer to a call that the gateway itself could not serve."""
    if status < 500:
        kind, rpc_code = "invalid_request_error", RPC_INVALID_REQUEST
    else:
        kind, rpc_code = "server_error", RPC_INTERNAL_ERROR
    if status == 429:
        kind = "rate_limit_exceeded"
    fault = _Fault(status, code, kind, message, {"error": code, "message": message}, rpc_code)
    waiting = [] if retry_after is None else [(b"Retry-After", b"%d" % retry_after)]
    headers = described(waiting, dialect, request_id)
    return Answer(status, headers, encode(_shape(dialect, fault, request_id)))


def _shape(dialect: Dialect, fault: _Fault, request_id: str) -> Json:
    match dialect:
        case "anthropic":
            return _anthropic_shape(fault, request_id)
        case "gemini":
            return _google_shape(fault)
        case "mcp":
            return _rpc_shape(fault, NO_ID)
        case _:
            return _openai_shape(fault)


def _openai_shape(fault: _Fault) -> Json:
    error = {"message": fault.message, "type": fault.kind, "param": None, "code": fault.code}
    return {"error": error, "detail": fault.detail}


def _anthropic_shape(fault: _Fault, request_id: str) -> Json:
    other = "invalid_request_error" if fault.status < 500 else "api_error"
    error = {
        "type": ANTHROPIC_TYPES.get(fault.status, other),
        "message": fault.message,
        # What `code` is to OpenAI's SDK.
        "details": {"error_code": fault.code},
    }
    return {"type": "error", "error": error, "detail": fault.detail, "request_id": request_id}


def _google_shape(fault: _Fault) -> Json:
    other = "INVALID_ARGUMENT" if fault.status < 500 else "INTERNAL"
    # No RetryInfo beside it: clients take that as an invitation to send the same again.
    info = {
        "@type": "type.googleapis.com/google.rpc.ErrorInfo",
        "reason": fault.code.upper(),
        "domain": "looptrap",
    }
    error = {
        "code": fault.status,
        "message": fault.message,
        "status": GOOGLE_STATUSES.get(fault.status, other),
        "details": [info],
    }
    return {"error": error, "detail": fault.detail}


def _rpc_shape(fault: _Fault, rpc_id: msgspec.Raw) -> Json:
    error = {"code": fault.rpc_code, "message": fault.message, "data": fault.detail}
    return {"jsonrpc": "2.0", "id": rpc_id, "error": error}


def _rpc_id(call: Call) -> msgspec.Raw:
    """Return the id that the client waits for; null where it sent none."""
    try:
        return _decode_identified(call.raws[0]).id
    except UNREADABLE:
        return NO_ID
