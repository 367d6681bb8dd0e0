"""Response headers about a verdict."""

from __future__ import annotations

from math import ceil

from looptrap.dialect.answer import Headers
from looptrap.policy.action import Action
from looptrap.policy.rate import RateStatus
from looptrap.policy.verdict import ALLOWED, Verdict

MAX_RETRY_AFTER_S = 60

TRANSIENT_REASONS = frozenset(("rate_limited", "store_unavailable"))
"""Reasons that end by themselves: the same call may be sent again."""

COST = b"X-Looptrap-Cost-Usd"
UNPRICED = b"unpriced"

_ALLOW: Headers = [(b"X-Looptrap-Verdict", b"allow")]


def headers_of(
    verdict: Verdict, shadow: Verdict | None = None, pace: RateStatus | None = None
) -> Headers:
    """Return the headers with the verdict, and the one of shadow mode."""
    if verdict is ALLOWED and shadow is None and pace is None:
        return _ALLOW
    headers = [(b"X-Looptrap-Verdict", verdict.action.value.encode())]
    if verdict.action is not Action.ALLOW:
        headers += [
            (b"X-Looptrap-Reason", verdict.reason.encode()),
            (b"X-Looptrap-Rule", verdict.rule.encode()),
            (b"X-Looptrap-Count", b"%d" % verdict.count),
        ]
    if verdict.action is Action.THROTTLE:
        headers.append((b"X-Looptrap-Delay-Ms", _milliseconds(verdict.delay)))
    if verdict.action.refuses:
        headers += [*refusal_headers(verdict), (COST, b"0")]
    if pace is not None:
        headers += [
            (b"RateLimit-Limit", b"%d" % pace.limit),
            (b"RateLimit-Remaining", b"%d" % pace.remaining),
            (b"RateLimit-Reset", b"%d" % ceil(pace.reset)),
        ]
    if shadow is not None:
        headers.append((b"X-Looptrap-Shadow", shadow.action.value.encode()))
    if "fairvisor" in verdict.compat:
        headers += _fairvisor_headers(verdict)
    return headers


def retry_after(verdict: Verdict) -> int | None:
    """Return the seconds that a refused client should wait; None when waiting does not help."""
    if verdict.retry_after is not None:
        return ceil(verdict.retry_after)
    if verdict.cooldown_left > 0:
        return min(ceil(verdict.cooldown_left), MAX_RETRY_AFTER_S)
    return None


def refusal_headers(verdict: Verdict) -> Headers:
    """Return the headers that keep SDKs from retrying a refused call, or say when to."""
    seconds = retry_after(verdict)
    is_transient = verdict.reason in TRANSIENT_REASONS and seconds is not None
    headers = [(b"x-should-retry", b"false")] if not is_transient else []
    if seconds is not None:
        headers.insert(0, (b"Retry-After", b"%d" % seconds))
    return headers


def _fairvisor_headers(verdict: Verdict) -> Headers:
    headers = [(b"X-Fairvisor-Reason", verdict.reason.encode())]
    if verdict.action is Action.THROTTLE:
        headers.append((b"X-Fairvisor-Loop-Delay", _milliseconds(verdict.delay)))
    return headers


def _milliseconds(seconds: float) -> bytes:
    return b"%d" % round(seconds * 1000)
