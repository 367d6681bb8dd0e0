"""ProviderHealth: which providers fail now, since when and why; and the log lines about it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from math import inf

import msgspec

from looptrap.gateway.provider import Provider

LOG_INTERVAL_S = 60.0
"""Seconds between two log lines of one kind about one provider."""

REPORTED_S = 900.0
"""Seconds after its latest failure for which a provider without calls is reported as failing."""

log = logging.getLogger("looptrap")


class FailureRun(msgspec.Struct, gc=False):
    """The failures of a provider since its latest answer; times are in seconds since 1970."""

    since: float
    latest: float = 0.0
    reason: str = ""
    """Of the latest failure, in words."""
    count: int = 0
    is_of_key: bool = False
    """Whether the latest failure is that of the operator's key."""


class _LogState(msgspec.Struct, gc=False):
    failed_at: float = -inf
    """When a failure was logged …"""
    recovered_at: float = -inf
    """… and when a recovery was."""
    unreported: int = 0
    """Failures since the former."""


class ProviderHealth:
    """Counts failures in a row for each provider, and logs the first one and sums after it."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._runs: dict[str, FailureRun] = {}
        self._log_states: dict[str, _LogState] = {}

    def failed(self, provider: str, reason: str, *, is_of_key: bool = False) -> None:
        """Take a failed call; log it, or once a minute how many there were."""
        now = self._clock()
        run = self._runs.setdefault(provider, FailureRun(now))
        run.latest, run.reason, run.is_of_key = now, reason, is_of_key
        run.count += 1
        state = self._log_states.setdefault(provider, _LogState())
        state.unreported += 1
        seconds = now - state.failed_at
        if seconds < LOG_INTERVAL_S:
            return
        if state.unreported == 1:
            log.warning("%s fails: %s", provider, reason)
        else:
            calls = f"{state.unreported:,} calls in {seconds:.0f} s"
            log.warning("%s fails: %s, the latest: %s", provider, calls, reason)
        state.failed_at, state.unreported = now, 0

    def answered(self, provider: str, *, has_operator_key: bool) -> bool:
        """Take an answer; return whether the provider works, for callers without a key too."""
        run = self._runs.get(provider)
        if run is None:
            return True
        if run.is_of_key and not has_operator_key:
            return False  # to a caller's own key
        del self._runs[provider]
        now, state = self._clock(), self._log_states[provider]
        state.unreported = 0
        if run.count > 1 and now - state.recovered_at >= LOG_INTERVAL_S:
            state.recovered_at = now
            calls, seconds = f"{run.count:,} failed calls", now - run.since
            log.warning("%s answers again, after %s in %.0f s", provider, calls, seconds)
        return True

    def failing(self) -> Iterator[tuple[str, FailureRun]]:
        """Yield the providers that fail now."""
        now = self._clock()
        for provider, run in list(self._runs.items()):
            if now - run.latest <= REPORTED_S:
                yield provider, run

    def reason(self, provider: str) -> str:
        """Return why the latest call of a provider failed; empty where it was answered."""
        run = self._runs.get(provider)
        return "" if run is None else run.reason


def refused_key(provider: Provider, status: int) -> str:
    """Return the reason for an answer to a call with the operator's key; empty where it is good."""
    if status not in (401, 403):
        return ""
    key = f" in {provider.key_name}" if provider.key_name else ""
    return f"status {status}, it refuses the key{key}"
