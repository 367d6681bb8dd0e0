"""Sort a failed answer by its status and by what its body says."""

from __future__ import annotations

import msgspec

from looptrap.retry.classify.code import (
    DECISIVE,
    OVERLOADED,
    REFUSALS,
    STANDS_FOR,
    hinted,
    limited,
)
from looptrap.retry.classify.told import Told
from looptrap.retry.failure import Failure

_NEVER = frozenset((501, 505, 506, 507, 510, 511))
"""Statuses from 500 on that another attempt does not change."""

_PERMANENT_REFUSALS = frozenset(
    code for code, failure in REFUSALS.items() if not failure.is_retryable
)


def sort(
    status: int | None,
    told: Told,
    *,
    refusal: str = "",
    should_retry: bool | None = None,
    retry_after: float | None = None,
) -> Failure:
    """Return what a failed answer means; without a status, by its body alone."""
    if retry_after is None:
        retry_after = told.retry_after
    elif told.retry_after is not None:
        retry_after = max(retry_after, told.retry_after)
    own = REFUSALS.get(refusal) or REFUSALS.get(told.refusal) or _refused(told)
    found = own or _sorted(status, told, retry_after)
    if should_retry is False and found.is_retryable:
        found = Failure("permanent", found.reason)
    elif should_retry is True and own is None and not found.is_retryable:
        found = Failure("rate_limit" if status == 429 else "server", found.reason)
    return msgspec.structs.replace(
        found, message=told.message or found.message, retry_after=retry_after
    )


def _refused(told: Told) -> Failure | None:
    """Return a refusal told by its code; other gateways have codes like our passing ones."""
    for code in told.codes:
        if code in _PERMANENT_REFUSALS:
            return REFUSALS[code]
    return None


def _sorted(status: int | None, told: Told, retry_after: float | None) -> Failure:
    for code in told.codes:
        if code in DECISIVE:
            return DECISIVE[code]
    if status is None:
        known = (STANDS_FOR[code] for code in told.codes if code in STANDS_FOR)
        status = told.status or next(known, None)
    if status is None:
        # The request was good enough to begin an answer: what broke it is on their side.
        return hinted(told.message) or Failure("server", "stream_error", trips="provider")
    if status == 429:
        return limited(told.message, told.quota_is_spent, retry_after)
    if status == 529:
        return OVERLOADED
    return by_status(status, told.message, retry_after)


def by_status(status: int, message: str = "", retry_after: float | None = None) -> Failure:
    """Return what a status means that is neither 429 nor 529."""
    reason = f"http_{status}"
    if status == 408:
        return Failure("server", "timeout", is_timeout=True, trips="provider")
    if status == 425:
        return Failure("server", reason)
    if status == 409:
        # SDKs retry every 409 as a lock that will be released. Mostly it is a conflict instead, and
        # stays one: it is worth another attempt only where the server says when.
        return Failure("permanent" if retry_after is None else "server", reason)
    if status == 402:
        return Failure("permanent", "insufficient_quota", trips="credential")
    if status < 500:
        return hinted(message) or Failure("permanent", reason)
    if status in _NEVER:
        return Failure("permanent", reason)
    return Failure("server", reason, trips="provider")
