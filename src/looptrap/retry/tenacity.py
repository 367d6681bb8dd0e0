"""The policy as tenacity's strategies: `retry`, `wait` and `stop`.

    policy = RetryPolicy()

    @tenacity.retry(
        retry=retry_if_worth(policy),
        wait=wait_policy(policy),
        stop=stop_policy(policy),
        reraise=True,
    )
    def ask(): ...

Give all three the same policy. For circuits, chains and turns there is `retrying`.
"""

from __future__ import annotations

from weakref import WeakKeyDictionary

import tenacity
from tenacity.retry import retry_base
from tenacity.stop import stop_base
from tenacity.wait import wait_base

from looptrap.retry.failure import Failure
from looptrap.retry.policy import RetryPolicy
from looptrap.retry.run import current_attempt
from looptrap.retry.timing import current_timing


class _Strategy:
    def __init__(self, policy: RetryPolicy = RetryPolicy()) -> None:  # noqa: B008 - frozen
        self._policy = policy

    def _failure(self, retry_state: tenacity.RetryCallState) -> Failure | None:
        """Return how the latest attempt failed; None where it did not."""
        error = retry_state.outcome.exception() if retry_state.outcome is not None else None
        if error is None:
            return None
        return self._policy.classifiers.classify(error, current_timing().wall())


class retry_if_worth(_Strategy, retry_base):  # noqa: N801 - tenacity names them like functions
    """Retry what the policy classifies as retryable; nothing inside another attempt."""

    def __call__(self, retry_state: tenacity.RetryCallState) -> bool:
        failure = self._failure(retry_state)
        return failure is not None and failure.is_retryable and current_attempt() is None


class wait_policy(_Strategy, wait_base):  # noqa: N801
    """Wait as the policy's backoff says, Retry-After included."""

    def __call__(self, retry_state: tenacity.RetryCallState) -> float:
        failure = self._failure(retry_state)
        if failure is None:
            return 0.0
        chance = current_timing().chance()
        # A longer Retry-After is never waited for: `stop_policy` ends the call.
        seconds = self._policy.backoff.wait(retry_state.attempt_number, failure, chance)
        return failure.retry_after or 0.0 if seconds is None else seconds


class stop_policy(_Strategy, stop_base):  # noqa: N801
    """Stop at the policy's attempts and deadline, and when a provider asks for too long a wait."""

    def __init__(self, policy: RetryPolicy = RetryPolicy()) -> None:  # noqa: B008
        super().__init__(policy)
        # One strategy serves all calls: failures are kept per state, and dropped with it.
        self._failures: WeakKeyDictionary[tenacity.RetryCallState, list[Failure]] = (
            WeakKeyDictionary()
        )

    def __call__(self, retry_state: tenacity.RetryCallState) -> bool:
        policy, failure = self._policy, self._failure(retry_state)
        if failure is not None:
            failures = self._failures.setdefault(retry_state, [])
            failures.append(failure)
            if (
                sum(seen.bucket == "server" for seen in failures) >= policy.server_attempts
                or sum(seen.is_timeout for seen in failures) >= policy.timeout_attempts
                or policy.backoff.wait(retry_state.attempt_number, failure, 0.0) is None
            ):
                return True
        if retry_state.attempt_number >= policy.attempts:
            return True
        spent = (retry_state.seconds_since_start or 0.0) + retry_state.upcoming_sleep
        return policy.deadline is not None and spent >= policy.deadline
