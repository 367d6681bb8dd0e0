"""What clients are told in our own words when attempts have come to nothing."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil
from typing import TYPE_CHECKING

from looptrap.gateway.attempt.attempt import NO_RETRY
from looptrap.gateway.unanswered import status_and_code
from looptrap.retry.course import Failed
from looptrap.wire.flight import UpstreamError

if TYPE_CHECKING:
    from looptrap.gateway.relay import Relay

Skipped = Sequence[tuple[str, str]]
"""Places that were not tried, with the reason."""


def attempts_field(attempts: int) -> tuple[bytes, bytes]:
    """Return the header that says how many attempts there were."""
    return (b"X-Looptrap-Attempts", b"%d" % attempts)


def tell_open(relay: Relay, failed: Failed, skipped: Skipped) -> None:
    """Say that nobody was asked, and when to come again: every circuit is open."""
    relay.fail(
        503,
        "breaker_open",
        f"Left alone after failures in a row: {_reasons(failed, skipped)}.",
        headers=[(b"X-Looptrap-Reason", b"breaker_open"), attempts_field(0)],
        retry_after=max(1, ceil(failed.retry_after or 0.0)),
    )


def tell_unanswered(
    relay: Relay, failed: Failed, skipped: Skipped, error: UpstreamError | None
) -> None:
    """Say that no provider answered."""
    status, code = (502, "upstream_failed") if error is None else status_and_code(error)
    relay.fail(
        status,
        code,
        f"No provider answered: {_reasons(failed, skipped)}.",
        headers=[relay.provider_field, attempts_field(failed.attempts), NO_RETRY],
        retry_after=None if failed.retry_after is None else ceil(failed.retry_after),
    )


def tell_late(relay: Relay, deadline: float, attempts: int) -> None:
    """Say that the time of the route is over."""
    relay.fail(
        504,
        "deadline_exceeded",
        f"No answer had begun within {deadline:g} s.",
        headers=[relay.provider_field, attempts_field(attempts), NO_RETRY],
    )


def _reasons(failed: Failed, skipped: Skipped) -> str:
    reasons = [(name, failure.reason) for name, failure in failed.reasons]
    return "; ".join(f"{name}: {reason}" for name, reason in (*reasons, *skipped))
