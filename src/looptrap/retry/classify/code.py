"""The words of providers: which codes mean more than their status, and which stand for one."""

from __future__ import annotations

import re

from looptrap.retry.failure import Failure

_QUOTA = Failure("permanent", "insufficient_quota", trips="credential")
_CONTEXT = Failure("permanent", "context_length")
_POLICY = Failure("permanent", "content_policy")
_LOCKED = Failure("server", "locked")
"""Somebody else is at it and will be done soon; that says nothing about the provider."""

# Overload is answered like a limit, by waiting longer. But it is the provider that has no room, for
# anybody: counted against each credential alone, a thousand tenants would go on knocking five
# times each.
OVERLOADED = Failure("rate_limit", "overloaded", trips="provider")

DECISIVE: dict[str, Failure] = {
    "insufficient_quota": _QUOTA,
    "billing_error": _QUOTA,
    "billing_hard_limit_reached": _QUOTA,
    "billing_not_active": _QUOTA,
    "enforced_spend_limit_reached": _QUOTA,
    "quota_exceeded": _QUOTA,
    "context_length_exceeded": _CONTEXT,
    "string_above_max_length": _CONTEXT,
    "request_too_large": Failure("permanent", "request_too_large"),
    "bio_policy": _POLICY,
    "content_filter": _POLICY,
    "content_policy_violation": _POLICY,
    "image_content_policy_violation": _POLICY,
    "misalignment_policy_violation": _POLICY,
    "responsibleaipolicyviolation": _POLICY,
    "overloaded_error": OVERLOADED,
    "server_is_overloaded": OVERLOADED,
    "engine_overloaded": OVERLOADED,
    "slow_down": OVERLOADED,
    "conversation_locked": _LOCKED,
    "thread_continue_in_flight": _LOCKED,
}
"""Codes that decide, whatever the status: a 429 has two meanings."""

STANDS_FOR: dict[str, int] = {
    # OpenAI
    "rate_limit_exceeded": 429,
    "server_error": 500,
    "internal_error": 500,
    "internal_server_error": 500,
    "vector_store_timeout": 504,
    "invalid_prompt": 400,
    "invalid_api_key": 401,
    "model_not_found": 404,
    # Anthropic
    "invalid_request_error": 400,
    "authentication_error": 401,
    "permission_error": 403,
    "not_found_error": 404,
    "conflict_error": 409,
    "rate_limit_error": 429,
    "api_error": 500,
    "timeout_error": 504,
    # Google
    "invalid_argument": 400,
    "failed_precondition": 400,
    "out_of_range": 400,
    "unauthenticated": 401,
    "permission_denied": 403,
    "not_found": 404,
    "already_exists": 400,
    "resource_exhausted": 429,
    "cancelled": 499,
    "unknown": 500,
    "internal": 500,
    "data_loss": 500,
    "unimplemented": 501,
    "unavailable": 503,
    # Google has clients repeat what was aborted by another's doing.
    "aborted": 503,
    "deadline_exceeded": 504,
}
"""Codes that say no more than a status does: they count where there is none, inside a stream."""

REFUSALS: dict[str, Failure] = {
    "loop_detected": Failure("permanent", "loop_detected"),
    "recursive_loop_detected": Failure("permanent", "loop_detected"),
    "killed": Failure("permanent", "killed"),
    "budget_exceeded": Failure("permanent", "budget_exceeded"),
    "rate_limited": Failure("rate_limit", "rate_limited"),
    "breaker_open": Failure("server", "breaker_open"),
    "store_unavailable": Failure("server", "store_unavailable"),
}
"""Looptrap's own: they count against no circuit, for no provider was asked."""

_is_context = re.compile(
    r"prompt is too long|context (?:length|window)|maximum context|input token count", re.IGNORECASE
).search
_is_policy = re.compile(
    r"content (?:management |filtering )?policy|usage polic(?:y|ies)", re.IGNORECASE
).search
_is_spent = re.compile(r"exceeded your current quota|quota (?:is )?exhausted", re.IGNORECASE).search
_is_too_large = re.compile(r"\ARequest too large\b").search


def hinted(message: str) -> Failure | None:
    """Return what a message without a code speaks of; only for requests that will not do as is."""
    if _is_context(message):
        return _CONTEXT
    return _POLICY if _is_policy(message) else None


def limited(message: str, quota_is_spent: bool | None, retry_after: float | None) -> Failure:
    """Return which of its meanings a 429 without a decisive code has."""
    if _is_too_large(message):
        # One request above the limit of a minute: no minute will ever do.
        return Failure("permanent", "request_too_large")
    if quota_is_spent is None:
        # Google and OpenAI say so of what is gone until tomorrow, and give no time then.
        quota_is_spent = retry_after is None and _is_spent(message) is not None
    return _QUOTA if quota_is_spent else Failure("rate_limit", "rate_limited", trips="credential")
