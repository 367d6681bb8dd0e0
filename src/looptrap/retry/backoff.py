"""Backoff: how long to wait before the next attempt."""

from __future__ import annotations

from math import inf, ldexp

import msgspec

from looptrap.errors import ConfigError
from looptrap.retry.failure import Failure

_MOST_DOUBLINGS = 64


class Backoff(msgspec.Struct, frozen=True, gc=False):
    """Full jitter under an exponential ceiling; a provider's Retry-After is the least it waits."""

    base: float = 0.4
    cap: float = 20.0
    longest_retry_after: float = 60.0

    def __post_init__(self) -> None:
        if not 0 < self.base <= self.cap < inf:
            raise ConfigError(
                f"backoff: base is {self.base:g} and cap {self.cap:g},"
                " must be above 0, and base not above cap"
            )
        if not 0 <= self.longest_retry_after < inf:
            raise ConfigError(
                f"backoff: longest_retry_after is {self.longest_retry_after:g}, must be 0 or more"
            )

    def delay(self, attempt: int, chance: float) -> float:
        """Return the seconds to wait after the `attempt`-th failure; `chance` is within 0 and 1."""
        return chance * min(self.cap, ldexp(self.base, min(attempt - 1, _MOST_DOUBLINGS)))

    def wait(self, attempt: int, failure: Failure, chance: float) -> float | None:
        """Return the seconds to wait; None when the provider asks for more than is waited for."""
        delay = self.delay(attempt, chance)
        asked = failure.retry_after
        if asked is None:
            return delay
        if asked > self.longest_retry_after:
            return None
        # All were told the same moment: up to `base` later, so that they do not meet there.
        return max(delay, asked + chance * self.base)
