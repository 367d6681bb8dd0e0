"""Verdicts as answers: refusals, final messages and nudges, in the dialect of a call."""

from __future__ import annotations

from math import ceil

import msgspec

from looptrap.dialect.answer import Answer, final_answer, nudged_body, refusal_answer
from looptrap.dialect.model import Call, Refusal
from looptrap.policy.action import Action
from looptrap.policy.header import headers_of
from looptrap.policy.rate import RateStatus
from looptrap.policy.verdict import CODES, Reason, Verdict, final_text, nudge_text, refusal_text

STATUSES: dict[Reason, int] = {
    "budget_exceeded": 402,
    "rate_limited": 429,
    "killed": 403,
    "store_unavailable": 503,
}
"""Reasons with a status of their own; the others have the configured one."""


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
    code, message = CODES[verdict.reason], refusal_text(verdict)
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
    blocked = msgspec.structs.replace(verdict, action=Action.BLOCK)
    return refusal_answer(
        call,
        Refusal(status, code, verdict.reason, message, detail),
        headers_of(blocked, shadow, pace),
        request_id,
    )


def final_message(
    call: Call, verdict: Verdict, *, shadow: Verdict | None, request_id: str, now: float
) -> Answer | None:
    """Return the message that ends a run; None where no plain text can be the answer."""
    headers = headers_of(verdict, shadow)
    return final_answer(call, final_text(verdict), headers, request_id=request_id, now=now)


def nudged(call: Call, verdict: Verdict) -> bytes | None:
    """Return the body with a nudge at its end; None where it cannot or must not have one."""
    return nudged_body(call, nudge_text(verdict))
