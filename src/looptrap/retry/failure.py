"""Failures: what went wrong with one attempt, and what that means for the next.

Failed answers are classified by status, headers and as much of the body as there is. Error bodies
are those of OpenAI, Anthropic, Google and Looptrap.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, Protocol, TypeAlias

import msgspec

from looptrap.dialect.content import UNREADABLE
from looptrap.wire.header_fields import parse_retry_after, parse_seconds

Bucket = Literal["rate_limit", "server", "tool", "permanent"]
"""What helps: waiting; a few retries; another plan of the model; nothing."""

Circuit = Literal["", "provider", "credential"]
"""The circuit that a failure counts against; "" for none."""


class Failure(msgspec.Struct, frozen=True, gc=False):
    """Why an attempt failed, by a status, an event in a stream, or an exception."""

    bucket: Bucket
    reason: str
    """A short code, such as `http_503`, `overloaded` or `insufficient_quota`."""
    message: str = ""
    retry_after: float | None = None
    """The seconds that the provider asks to wait; None where it does not say."""
    is_timeout: bool = False
    """Whether the network or the provider did not answer in time."""
    trips: Circuit = ""

    @property
    def is_retryable(self) -> bool:
        """Whether the same request may be sent again."""
        return self.bucket in ("rate_limit", "server")

    def __str__(self) -> str:
        return f"{self.reason} ({self.message})" if self.message else self.reason


# Error bodies

MAX_MESSAGE_CHARS = 300

_MAX_BODY_BYTES = 64 * 1024
_codes_in = re.compile(
    rb'"(?:error_code|code|type|status|error)"\s*:\s*"([A-Za-z_]{3,60})"'
).findall
_decode = msgspec.json.decode
_duration = re.compile(
    r"try again in (?:(\d{1,4})h)?(?:(\d{1,4})m(?!s))?(?:(\d{1,6}(?:\.\d+)?)(ms|s))?", re.IGNORECASE
).search

find_long_quota = re.compile(r"per_?day|daily|per_?month", re.IGNORECASE).search
"""Finds, in the name of a Google quota, that it is renewed daily or less often."""


class ErrorDetails(msgspec.Struct, frozen=True, gc=False):
    """The content of an error body."""

    codes: tuple[str, ...] = ()
    """Codes, types and states, in lower case, the most specific first."""
    message: str = ""
    status: int | None = None
    """The HTTP status in the body: in a stream there is no other."""
    refusal: str = ""
    """Looptrap's own reason."""
    retry_after: float | None = None
    quota_is_spent: bool | None = None
    """Whether a quota is spent for long, and not for a minute; None where the body does not say."""


NO_DETAILS = ErrorDetails()


def parse_error_body(body: object) -> ErrorDetails:
    """Return the details of a body, decoded or not; an unreadable one has none."""
    if isinstance(body, str):
        body = body.encode("utf-8", "replace")
    if isinstance(body, (bytes, bytearray, memoryview)):
        raw = bytes(body[:_MAX_BODY_BYTES])
        try:
            body = _decode(raw)
        except UNREADABLE:
            # Truncated, or a proxy's page: codes can still be found.
            codes = [code.decode().lower() for code in _codes_in(raw)]
            return ErrorDetails(tuple(codes), raw[:MAX_MESSAGE_CHARS].decode("utf-8", "replace"))
    if isinstance(body, list) and body:
        body = body[0]
    if not isinstance(body, dict):
        return NO_DETAILS
    return _details_of(body, error_object(body))


def error_object(document: dict[str, Any]) -> dict[str, Any]:
    """Return the part of a document that describes the error; all of it where it has no part."""
    response = document.get("response")
    outer = response if isinstance(response, dict) else document
    error = outer.get("error")
    if isinstance(error, dict):
        return error
    if isinstance(error, str):
        return {"code": error, "message": str(outer.get("error_description") or error)}
    return outer


def _details_of(document: dict[str, Any], error: dict[str, Any]) -> ErrorDetails:
    detail = document.get("detail")
    refusal = detail.get("error") if isinstance(detail, dict) else None
    message = error.get("message")
    message = message if isinstance(message, str) else ""
    details = list(_details(error))
    return ErrorDetails(
        tuple(code.lower() for code in _codes(error, details)),
        message[:MAX_MESSAGE_CHARS],
        _status(error.get("code")),
        refusal if isinstance(refusal, str) else "",
        _retry_delay(details, message),
        _quota_is_spent(details),
    )


def _details(error: dict[str, Any]) -> Iterator[dict[str, Any]]:
    details = error.get("details")
    for detail in details if isinstance(details, list) else [details]:
        if isinstance(detail, dict):
            yield detail


def _codes(error: dict[str, Any], details: list[dict[str, Any]]) -> Iterator[str]:
    named = [detail.get("error_code") or detail.get("reason") for detail in details]
    for code in (*named, error.get("code"), error.get("type"), error.get("status")):
        if isinstance(code, str):
            yield code


def _status(code: object) -> int | None:
    if isinstance(code, str) and code.isascii() and code.isdigit() and len(code) == 3:
        code = int(code)
    return code if isinstance(code, int) and 400 <= code < 600 else None


def _retry_delay(details: list[dict[str, Any]], message: str) -> float | None:
    """Return the delay in Google's RetryInfo, or in OpenAI's message."""
    for detail in details:
        delay = detail.get("retryDelay")
        if isinstance(delay, str) and re.fullmatch(r"\d{1,9}(\.\d+)?s", delay, re.ASCII):
            return float(delay[:-1])
    found = _duration(message)
    if found is None or not any(found.groups()):
        return None
    hours, minutes, last, unit = found.groups()
    rest = float(last or 0) / (1000 if unit and unit.lower() == "ms" else 1)
    return int(hours or 0) * 3600 + int(minutes or 0) * 60 + rest


def _quota_is_spent(details: list[dict[str, Any]]) -> bool | None:
    violations = [
        violation
        for detail in details
        if isinstance(listed := detail.get("violations"), list)
        for violation in listed
        if isinstance(violation, dict)
    ]
    if not violations:
        return None
    # A daily quota comes with RetryInfo as well, which does not help. A quota of 0 is a model that
    # the account does not have.
    return any(
        violation.get("quotaValue") == "0"
        or find_long_quota(f"{violation.get('quotaId')} {violation.get('quotaMetric')}") is not None
        for violation in violations
    )


# Headers


class HasItems(Protocol):
    """Headers of servers and clients: mappings, and messages that are no mappings."""

    def items(self) -> Iterable[tuple[Any, Any]]: ...


Headers: TypeAlias = HasItems | Sequence[tuple[str, str]] | Sequence[tuple[bytes, bytes]]
"""Names and values, each bytes or text, in any case."""


def retry_after_of(headers: Headers | None, now: float | None = None) -> float | None:
    """Return the seconds in Retry-After headers; None without a valid one.

    `now` is in seconds since 1970, for a date in an answer without a Date header.
    """
    return _retry_after(_by_name(headers), now)


def _retry_after(headers: Mapping[str, str], now: float | None) -> float | None:
    milliseconds = parse_seconds(headers.get("retry-after-ms", ""))
    if milliseconds is not None:
        return milliseconds / 1000
    return parse_retry_after(headers.get("retry-after", ""), now, headers.get("date", ""))


def _by_name(headers: Headers | None) -> dict[str, str]:
    """Return the first value of each header, by lower-case name."""
    found: dict[str, str] = {}
    for name, value in text_pairs(headers or ()):
        found.setdefault(name, value.strip())
    return found


def text_pairs(headers: Headers) -> Iterator[tuple[str, str]]:
    """Yield names, in lower case, and values as text."""
    pairs = headers if isinstance(headers, Sequence) else headers.items()
    for name, value in pairs:
        yield _text(name).lower(), _text(value)


def _text(value: object) -> str:
    if isinstance(value, bytes):
        return value.decode("latin-1")
    return "" if value is None else str(value)


# Answers and events

_QUOTA = Failure("permanent", "insufficient_quota", trips="credential")
_CONTEXT = Failure("permanent", "context_length")
_POLICY = Failure("permanent", "content_policy")
_LOCKED = Failure("server", "locked")
"""Another request holds a lock for a short time; that says nothing about the provider."""

# Overload is handled like a limit, by longer waits. But it affects the whole provider: counted
# against each credential, a thousand tenants would retry five times each.
OVERLOADED = Failure("rate_limit", "overloaded", trips="provider")

_CODES_BY_FAILURE = {
    _QUOTA: "insufficient_quota billing_error billing_hard_limit_reached billing_not_active"
    " enforced_spend_limit_reached quota_exceeded",
    _CONTEXT: "context_length_exceeded string_above_max_length",
    Failure("permanent", "request_too_large"): "request_too_large",
    _POLICY: "bio_policy content_filter content_policy_violation image_content_policy_violation"
    " misalignment_policy_violation responsibleaipolicyviolation",
    OVERLOADED: "overloaded_error server_is_overloaded engine_overloaded slow_down",
    _LOCKED: "conversation_locked thread_continue_in_flight",
}
FAILURE_BY_CODE: dict[str, Failure] = {
    code: failure for failure, codes in _CODES_BY_FAILURE.items() for code in codes.split()
}
"""Codes that decide whatever the status is: a 429 has two meanings."""

_CODES_BY_STATUS = {
    400: "invalid_prompt invalid_request_error invalid_argument failed_precondition out_of_range"
    " already_exists",
    401: "invalid_api_key authentication_error unauthenticated",
    403: "permission_error permission_denied",
    404: "model_not_found not_found_error not_found",
    409: "conflict_error",
    429: "rate_limit_exceeded rate_limit_error resource_exhausted",
    499: "cancelled",
    500: "server_error internal_error internal_server_error api_error unknown internal data_loss",
    501: "unimplemented",
    # Google asks clients to retry what a concurrent request aborted.
    503: "unavailable aborted",
    504: "vector_store_timeout timeout_error deadline_exceeded",
}
STATUS_BY_CODE: dict[str, int] = {
    code: status for status, codes in _CODES_BY_STATUS.items() for code in codes.split()
}
"""Codes that say no more than a status: used inside a stream, where there is none."""

FAILURE_BY_STATUS: dict[int, Failure] = {
    402: _QUOTA,
    408: Failure("server", "timeout", is_timeout=True, trips="provider"),
    425: Failure("server", "http_425"),
    529: OVERLOADED,
}

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
    known = (FAILURE_BY_REFUSAL.get(code) for code in details.codes)
    return next((found for found in known if found and not found.is_retryable), None)


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
    if status in FAILURE_BY_STATUS:
        return FAILURE_BY_STATUS[status]
    reason = f"http_{status}"
    if status == 409:
        # SDKs retry every 409 as a lock that will be released. Mostly it is a lasting conflict: it
        # is worth a retry only where the server says when.
        return Failure("permanent" if retry_after is None else "server", reason)
    if status < 500:
        return failure_by_message(details.message) or Failure("permanent", reason)
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
    found = _by_name(headers)
    # A call that passed with a warning has a reason as well.
    is_refused = found.get("x-looptrap-verdict", "block") in ("block", "stop")
    return classify_details(
        status,
        parse_error_body(body) if body else NO_DETAILS,
        refusal=found.get("x-looptrap-reason", "") if is_refused else "",
        should_retry={"true": True, "false": False}.get(found.get("x-should-retry", "").lower()),
        retry_after=_retry_after(found, now),
    )


_FAILED = ("error", "response.failed")
_begins_as_error = re.compile(
    rb'\s*\{\s*"(?:error"\s*:\s*[{"]|type"\s*:\s*"(?:error|response\.failed)")'
).match


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
