"""Verdicts as answers: refusals, final messages and nudges, in the dialect of a call."""

from __future__ import annotations

from math import ceil

import msgspec

from looptrap.dialect.agent import (
    AUTO,
    UNKNOWN,
    Agent,
    BlockStatus,
    agent_of,
    finishing_calls,
    without_passing_signs,
)
from looptrap.dialect.answer import Answer, final_answer, nudged_body, refusal_answer
from looptrap.dialect.model import Call, Refusal
from looptrap.policy.action import Action
from looptrap.policy.header import TRANSIENT_REASONS, headers_of
from looptrap.policy.rate import RateStatus
from looptrap.policy.verdict import CODES, Reason, Verdict, final_text, nudge_text, refusal_text

STATUSES: dict[Reason, int] = {
    "budget_exceeded": 402,
    "rate_limited": 429,
    "killed": 403,
    "store_unavailable": 503,
}
"""Reasons with a status of their own; the others have the configured one."""

DEFAULT_STATUS = 429


def refusal(
    call: Call,
    verdict: Verdict,
    *,
    shadow: Verdict | None,
    request_id: str,
    block_status: BlockStatus,
    pace: RateStatus | None = None,
) -> Answer:
    """Return the answer to a call that goes no further; a milder verdict becomes a block.

    With a status of `auto`, a recognised agent gets the refusal that ends its run, unless the same
    call may be sent again later.
    """
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
    agent = _agent_to_end(call, verdict, block_status)
    # The digits of a fingerprint may read as a status.
    is_short = agent.shows_body or agent.reads_errors
    configured = block_status if isinstance(block_status, int) else DEFAULT_STATUS
    status = agent.status or STATUSES.get(verdict.reason, configured)
    blocked = msgspec.structs.replace(verdict, action=Action.BLOCK)
    answer = refusal_answer(
        call,
        Refusal(status, agent.code or code, verdict.reason, message, None if is_short else detail),
        headers_of(blocked, shadow, pace),
        request_id,
    )
    if not agent.reads_errors:
        return answer
    body = without_passing_signs(answer.body.decode()).encode()
    return msgspec.structs.replace(answer, body=body)


def wants_message(call: Call, verdict: Verdict, block_status: BlockStatus) -> bool:
    """Return whether the agent is refused with a final message in place of an error."""
    return _agent_to_end(call, verdict, block_status).shows_messages_only


def _agent_to_end(call: Call, verdict: Verdict, block_status: BlockStatus) -> Agent:
    """Return the agent whose run a refusal should end; UNKNOWN where it gets the usual refusal."""
    if block_status != AUTO or verdict.reason in TRANSIENT_REASONS:
        return UNKNOWN
    return agent_of(call)


def final_message(
    call: Call, verdict: Verdict, *, shadow: Verdict | None, request_id: str, now: float
) -> Answer | None:
    """Return the message that ends a run; None where no plain text can be the answer."""
    headers, text = headers_of(verdict, shadow), final_text(verdict)
    calls = finishing_calls(call, text)
    return final_answer(call, text, headers, request_id=request_id, now=now, calls=calls)


def nudged(call: Call, verdict: Verdict) -> bytes | None:
    """Return the body with a nudge at its end; None where it cannot or must not have one."""
    return nudged_body(call, nudge_text(verdict))
