"""Classifies failed answers by status, headers and as much of the body as there is."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol, TypeAlias

import msgspec

from looptrap.dialect.content import UNREADABLE
from looptrap.retry.classify.error_body import NO_DETAILS, ErrorDetails, parse_error_body
from looptrap.retry.failure import Failure
from looptrap.wire.header_fields import parse_retry_after as parse_retry_after_header
from looptrap.wire.header_fields import parse_seconds


class HasItems(Protocol):
    """Headers of servers and clients: mappings, and messages that are no mappings."""

    def items(self) -> Iterable[tuple[Any, Any]]: ...


Headers: TypeAlias = HasItems | Sequence[tuple[str, str]] | Sequence[tuple[bytes, bytes]]
"""Names and values, each bytes or text, in any case."""

_FAILURE_HEADERS = frozenset(
    (
        "date",
        "retry-after",
        "retry-after-ms",
        "x-looptrap-reason",
        "x-looptrap-verdict",
        "x-should-retry",
    )
)


def failure_headers(headers: Headers | None) -> dict[str, str]:
    """Return the headers that say something about a failure, by lower-case name."""
    found: dict[str, str] = {}
    for name, value in text_pairs(headers or ()):
        if name in _FAILURE_HEADERS:
            found.setdefault(name, value.strip())
    return found


def retry_after_of(headers: Headers | None, now: float | None = None) -> float | None:
    """Return the seconds in Retry-After headers; None without a valid one.

    `now` is in seconds since 1970, for a date in an answer without a Date header.
    """
    return parse_retry_after(failure_headers(headers), now)


def parse_retry_after(found: Mapping[str, str], now: float | None) -> float | None:
    """Return the same from the result of `failure_headers`; `retry-after-ms` has precedence."""
    milliseconds = parse_seconds(found.get("retry-after-ms", ""))
    if milliseconds is not None:
        return milliseconds / 1000
    return parse_retry_after_header(found.get("retry-after", ""), now, found.get("date", ""))


def parse_should_retry(found: Mapping[str, str]) -> bool | None:
    """Return whether the server asks for a retry; None where it does not say."""
    return {"true": True, "false": False}.get(found.get("x-should-retry", "").lower())


def refusal_reason(found: Mapping[str, str]) -> str:
    """Return why Looptrap refused the call; "" where it did not.

    A call that passed with a warning has a reason as well.
    """
    if found.get("x-looptrap-verdict", "block") not in ("block", "stop"):
        return ""
    return found.get("x-looptrap-reason", "")


def text_pairs(headers: Headers) -> Iterator[tuple[str, str]]:
    """Yield names, in lower case, and values as text."""
    pairs = headers if isinstance(headers, Sequence) else headers.items()
    for name, value in pairs:
        yield _text(name).lower(), _text(value)


def _text(value: object) -> str:
    if isinstance(value, bytes):
        return value.decode("latin-1")
    return "" if value is None else str(value)


_QUOTA = Failure("permanent", "insufficient_quota", trips="credential")
_CONTEXT = Failure("permanent", "context_length")
_POLICY = Failure("permanent", "content_policy")
_LOCKED = Failure("server", "locked")
"""Another request holds a lock for a short time; that says nothing about the provider."""

# Overload is handled like a limit, by longer waits. But it affects the whole provider: counted
# against each credential, a thousand tenants would retry five times each.
OVERLOADED = Failure("rate_limit", "overloaded", trips="provider")

FAILURE_BY_CODE: dict[str, Failure] = {
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
"""Codes that decide whatever the status is: a 429 has two meanings."""

STATUS_BY_CODE: dict[str, int] = {
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
    # Google asks clients to retry what a concurrent request aborted.
    "aborted": 503,
    "deadline_exceeded": 504,
}
"""Codes that say no more than a status: used inside a stream, where there is none."""

FAILURE_BY_REFUSAL: dict[str, Failure] = {
    "loop_detected": Failure("permanent", "loop_detected"),
    "recursive_loop_detected": Failure("permanent", "loop_detected"),
    "killed": Failure("permanent", "killed"),
    "budget_exceeded": Failure("permanent", "budget_exceeded"),
    "rate_limited": Failure("rate_limit", "rate_limited"),
    "breaker_open": Failure("server", "breaker_open"),
    "store_unavailable": Failure("server", "store_unavailable"),
}
"""Looptrap's own refusals: they count against no circuit, since no provider was called."""

_is_context = re.compile(
    r"prompt is too long|context (?:length|window)|maximum context|input token count", re.IGNORECASE
).search
_is_policy = re.compile(
    r"content (?:management |filtering )?policy|usage polic(?:y|ies)", re.IGNORECASE
).search
_is_spent = re.compile(r"exceeded your current quota|quota (?:is )?exhausted", re.IGNORECASE).search
_is_too_large = re.compile(r"\ARequest too large\b").search


def failure_by_message(message: str) -> Failure | None:
    """Return the permanent failure that a message without a code describes, if any."""
    if _is_context(message):
        return _CONTEXT
    return _POLICY if _is_policy(message) else None


def classify_429(message: str, quota_is_spent: bool | None, retry_after: float | None) -> Failure:
    """Return which meaning a 429 without a decisive code has."""
    if _is_too_large(message):
        # One request above the limit of a minute never fits.
        return Failure("permanent", "request_too_large")
    if quota_is_spent is None:
        # Google and OpenAI use these words, without a time, for quotas spent until tomorrow.
        quota_is_spent = retry_after is None and _is_spent(message) is not None
    return _QUOTA if quota_is_spent else Failure("rate_limit", "rate_limited", trips="credential")


_PERMANENT_STATUSES = frozenset((501, 505, 506, 507, 510, 511))
"""Statuses from 500 on for which a retry does not help."""

_PERMANENT_REFUSALS = frozenset(
    code for code, failure in FAILURE_BY_REFUSAL.items() if not failure.is_retryable
)


def classify_details(
    status: int | None,
    details: ErrorDetails,
    *,
    refusal: str = "",
    should_retry: bool | None = None,
    retry_after: float | None = None,
) -> Failure:
    """Return the failure of an answer; without a status, by its body alone."""
    if retry_after is None:
        retry_after = details.retry_after
    elif details.retry_after is not None:
        retry_after = max(retry_after, details.retry_after)
    own = (
        FAILURE_BY_REFUSAL.get(refusal)
        or FAILURE_BY_REFUSAL.get(details.refusal)
        or _refusal_by_code(details)
    )
    found = own or _provider_failure(status, details, retry_after)
    if should_retry is False and found.is_retryable:
        found = Failure("permanent", found.reason)
    elif should_retry is True and own is None and not found.is_retryable:
        found = Failure("rate_limit" if status == 429 else "server", found.reason)
    return msgspec.structs.replace(
        found, message=details.message or found.message, retry_after=retry_after
    )


def _refusal_by_code(details: ErrorDetails) -> Failure | None:
    """Return a refusal by its code; only permanent ones, as other gateways use codes like ours."""
    for code in details.codes:
        if code in _PERMANENT_REFUSALS:
            return FAILURE_BY_REFUSAL[code]
    return None


def _provider_failure(
    status: int | None, details: ErrorDetails, retry_after: float | None
) -> Failure:
    for code in details.codes:
        if code in FAILURE_BY_CODE:
            return FAILURE_BY_CODE[code]
    if status is None:
        known = (STATUS_BY_CODE[code] for code in details.codes if code in STATUS_BY_CODE)
        status = details.status or next(known, None)
    if status is None:
        # The answer had begun, so the request was valid: the failure is the provider's.
        return failure_by_message(details.message) or Failure(
            "server", "stream_error", trips="provider"
        )
    if status == 429:
        return classify_429(details.message, details.quota_is_spent, retry_after)
    if status == 529:
        return OVERLOADED
    return failure_by_status(status, details.message, retry_after)


def failure_by_status(status: int, message: str = "", retry_after: float | None = None) -> Failure:
    """Return the failure of a status other than 429 and 529."""
    reason = f"http_{status}"
    if status == 408:
        return Failure("server", "timeout", is_timeout=True, trips="provider")
    if status == 425:
        return Failure("server", reason)
    if status == 409:
        # SDKs retry every 409 as a lock that will be released. Mostly it is a lasting conflict: it
        # is worth a retry only where the server says when.
        return Failure("permanent" if retry_after is None else "server", reason)
    if status == 402:
        return Failure("permanent", "insufficient_quota", trips="credential")
    if status < 500:
        return failure_by_message(message) or Failure("permanent", reason)
    if status in _PERMANENT_STATUSES:
        return Failure("permanent", reason)
    return Failure("server", reason, trips="provider")


def classify_answer(
    status: int, headers: Headers | None = None, body: object = b"", now: float | None = None
) -> Failure | None:
    """Return the failure of an answer; None for a success.

    The body may be truncated, no JSON, or already decoded; `now` is in seconds since 1970.
    """
    if status < 400:
        return None
    found = failure_headers(headers)
    return classify_details(
        status,
        parse_error_body(body) if body else NO_DETAILS,
        refusal=refusal_reason(found),
        should_retry=parse_should_retry(found),
        retry_after=parse_retry_after(found, now),
    )


_FAILED = ("error", "response.failed")
_begins_as_error = re.compile(
    rb'\s*\{\s*"(?:error"\s*:\s*[{"]|type"\s*:\s*"(?:error|response\.failed)")'
).match
_decode = msgspec.json.decode


def classify_event(data: bytes) -> Failure | None:
    """Return the failure in one event's `data`; None for an event without an error."""
    if b"error" not in data and b"response.failed" not in data:
        return None
    try:
        document = _decode(data)
    except UNREADABLE:
        return classify_details(None, parse_error_body(data)) if _begins_as_error(data) else None
    if isinstance(document, list) and document:
        document = document[0]
    if not isinstance(document, dict):
        return None
    if document.get("type") in _FAILED or document.get("error"):
        return classify_details(None, parse_error_body(document))
    return None
