"""One circuit breaker: after failures in a row it leaves a provider alone for a while.

closed ──(`threshold` failures in a row)──► open ──(`open_for` seconds)──► half-open
  ▲                                           ▲                               │
  └────────────── the one probe succeeds ─────┼───────────────────────────────┤
                                              └────────── it fails ───────────┘

Pure: time is passed in and never runs backwards (a monotonic clock); changes are returned. Nothing
awaits inside, so one event loop needs no lock; threads hold one of their own around each call.
"""

from __future__ import annotations

from math import inf
from typing import Literal

import msgspec

from looptrap.errors import ConfigError

State = Literal["closed", "open", "half_open"]

SHORTEST_OPENING = 1.0
LONGEST_OPENING = 60.0
"""What a Retry-After may change an opening to; a breaker set to more is open for that at most."""

PROBE_PATIENCE = 1.0
"""When to come again while a probe is out: its answer decides, not the clock."""


class Permit(msgspec.Struct, frozen=True, gc=False):
    """Leave to make one attempt; handed back with its outcome."""

    generation: int
    is_probe: bool = False


class Breaker:
    """Counts failures in a row, and decides who may pass."""

    __slots__ = (
        "_failures",
        "_generation",
        "_is_open",
        "_least",
        "_open_for",
        "_permit",
        "_probed_until",
        "_threshold",
        "_until",
        "is_passing",
    )

    def __init__(
        self, threshold: int = 5, open_for: float = 60.0, least: float | None = None
    ) -> None:
        """Open for `open_for` seconds, or as a Retry-After asks, if not for less than `least`.

        A `least` of None is `open_for`: then no Retry-After shortens an opening.
        """
        if threshold < 1:
            raise ConfigError(f"breaker: threshold is {threshold}, must be 1 or more")
        if not 0 < open_for < inf:
            raise ConfigError(f"breaker: open_for is {open_for:g}, must be above 0")
        self._threshold = threshold
        self._open_for = open_for
        self._least = open_for if least is None else least
        self.is_passing = True
        """Whether what opened it passes by itself, as a limit does and a spent quota does not."""
        self._failures = 0
        self._is_open = False
        self._until = self._probed_until = -inf
        self._generation = 0
        self._permit = Permit(0)

    def state(self, now: float) -> State:
        """Return whether calls pass, are refused, or one is let through to find out."""
        if not self._is_open:
            return "closed"
        return "open" if now < self._until else "half_open"

    def allow(self, now: float) -> Permit | None:
        """Return leave for one attempt, or None; half-open there is one at a time."""
        if not self._is_open:
            return self._permit
        if now < self._until or now < self._probed_until:
            return None
        # A probe that is never reported ends by itself, or nobody would ever pass again.
        self._probed_until = now + self._open_for
        self._generation += 1
        return Permit(self._generation, is_probe=True)

    def retry_after(self, now: float) -> float:
        """Return the seconds after which asking again may help; 0 when calls pass."""
        if not self._is_open:
            return 0.0
        if now < self._until:
            return self._until - now
        return max(0.0, min(self._probed_until - now, PROBE_PATIENCE))

    def done(
        self,
        permit: Permit,
        failed: bool | None,
        now: float,
        retry_after: float | None = None,
        *,
        is_passing: bool = True,
    ) -> State | None:
        """Take an attempt's outcome, None for neither good nor bad; return a new state, if any.

        Outcomes of attempts from before the latest change mean nothing any more.
        """
        if permit.generation != self._generation:
            return None
        if failed is None:
            if permit.is_probe:
                self._withdraw(until=now)
            return None
        if not failed:
            self._failures = 0
            return self._close() if permit.is_probe else None
        self._failures += 1
        if not permit.is_probe and self._failures < self._threshold:
            return None
        self.is_passing = is_passing
        asked = self._open_for if retry_after is None else self._bounded(retry_after)
        return self._open(now + max(self._least, asked))

    def deny(self, permit: Permit, now: float) -> None:
        """Give a probe back unused: another instance has its own out."""
        if permit.is_probe and permit.generation == self._generation:
            self._withdraw(until=now + PROBE_PATIENCE)

    def learn(self, seconds: float, now: float) -> State | None:
        """Open for as long as another instance has; return the new state, if it is one."""
        if not seconds > 0:
            return None
        was_open = self._is_open
        if not was_open:
            self.is_passing = True
        self._open(now + self._bounded(seconds))
        return None if was_open else "open"

    def _bounded(self, seconds: float) -> float:
        # Whoever says so, provider or instance: nothing keeps this road closed for long.
        return min(seconds, max(self._open_for, LONGEST_OPENING))

    def _open(self, until: float) -> State:
        self._is_open = True
        self._until = max(self._until, until)
        self._probed_until = -inf
        self._failures = 0
        self._generation += 1
        return "open"

    def _close(self) -> State:
        self._is_open = False
        self._until = self._probed_until = -inf
        self._generation += 1
        self._permit = Permit(self._generation)
        return "closed"

    def _withdraw(self, *, until: float) -> None:
        self._probed_until = until
        self._generation += 1
