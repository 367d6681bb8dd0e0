"""One circuit breaker: after failures in a row it leaves a provider alone for a while.

closed ──(`threshold` failures in a row)──► open ──(`open_for` seconds)──► half-open
  ▲                                           ▲                               │
  └────────────── the one probe succeeds ─────┼───────────────────────────────┤
                                              └────────── it fails ───────────┘

Who failed matters: a prompt that makes a provider answer 500 says nothing about other prompts. An
opening is for those whose attempts failed: one conversation, or one caller when several of its
conversations failed. It is for everybody when attempts of several callers failed, or when a failure
has no source. All others pass, and their own failures in a row widen the opening.

Pure: time is passed in and never runs backwards (a monotonic clock); changes are returned. Nothing
awaits inside, so one event loop needs no lock; threads hold one of their own around each call.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
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


class Source:
    """Whose attempt it is: a caller, and one of its conversations."""

    __slots__ = ("_conversation", "_find", "caller")

    def __init__(self, caller: str, find: Callable[[], Hashable]) -> None:
        """`find` returns what tells conversations apart; it is asked at the first failure only."""
        self.caller = caller
        self._find: Callable[[], Hashable] | None = find
        self._conversation: Hashable = None

    @property
    def conversation(self) -> Hashable:
        """What tells it apart from other conversations of the caller."""
        if self._find is not None:
            self._conversation, self._find = self._find(), None
        return self._conversation


Blamed = dict[str, Hashable]
"""Callers, each with the one conversation that failed, or EVERY_CONVERSATION."""

EVERY_CONVERSATION = None


class Permit(msgspec.Struct, frozen=True, gc=False):
    """Leave to make one attempt; handed back with its outcome."""

    generation: int
    is_probe: bool = False


class Breaker:
    """Counts failures in a row, and decides who may pass."""

    __slots__ = (
        "_blamed",
        "_failures",
        "_generation",
        "_is_open",
        "_least",
        "_open_for",
        "_permit",
        "_probed_until",
        "_suspects",
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
        self._suspects: Blamed | None = {}  # of these failures; None for everybody
        self._blamed: Blamed | None = None  # whom it is open for; None for everybody
        self._is_open = False
        self._until = self._probed_until = -inf
        self._generation = 0
        self._permit = Permit(0)

    def state(self, now: float) -> State:
        """Return whether calls pass, are refused, or one is let through to find out."""
        if not self._is_open:
            return "closed"
        return "open" if now < self._until else "half_open"

    @property
    def blamed(self) -> Blamed | None:
        """Whom it was opened for; None for everybody."""
        return self._blamed

    def concerns(self, source: Source | None) -> bool:
        """Say whether it is open, or half-open, for that source."""
        if not self._is_open:
            return False
        return self._blamed is None or (source is not None and _is_among(self._blamed, source))

    def allow(self, now: float, source: Source | None = None) -> Permit | None:
        """Return leave for one attempt, or None; half-open there is one at a time."""
        if not self._is_open or not self.concerns(source):
            return self._permit
        if now < self._until or now < self._probed_until:
            return None
        # A probe that is never reported ends by itself, or nobody would ever pass again.
        self._probed_until = now + self._open_for
        self._renew()
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
        source: Source | None = None,
    ) -> State | None:
        """Take an attempt's outcome, None for neither good nor bad; return a new state, if any.

        Outcomes of attempts from before the latest change mean nothing any more. A failure without
        a source is everybody's.
        """
        if permit.generation != self._generation:
            return None
        if failed is None:
            if permit.is_probe:
                self._withdraw(until=now)
            return None
        if not failed:
            self._forget()
            return self._close() if permit.is_probe else None
        if permit.is_probe:
            # It speaks for its caller alone: whether others get an answer, they find out.
            blamed: Blamed | None = None
            if source is not None:
                blamed = {source.caller: EVERY_CONVERSATION}
            if self._blamed is not None and source is not None:
                blamed = _joined(self._blamed, {source.caller: source.conversation})
        else:
            self._failures += 1
            suspect = None if source is None else {source.caller: source.conversation}
            self._suspects = _joined(self._suspects, suspect)
            if self._failures < self._threshold:
                return None
            blamed = _joined(self._blamed, self._suspects) if self._is_open else self._suspects
        self.is_passing = is_passing
        asked = self._open_for if retry_after is None else self._bounded(retry_after)
        return self._open(now + max(self._least, asked), blamed)

    def deny(self, permit: Permit, now: float) -> None:
        """Give a probe back unused: another instance has its own out."""
        if permit.is_probe and permit.generation == self._generation:
            self._withdraw(until=now + PROBE_PATIENCE)

    def learn(self, seconds: float, now: float, caller: str | None = None) -> State | None:
        """Open for as long as another instance has, for that caller or for everybody.

        Return the new state, if it is one.
        """
        if not seconds > 0:
            return None
        was_open = self._is_open
        if not was_open:
            self.is_passing = True
        blamed: Blamed | None = None if caller is None else {caller: EVERY_CONVERSATION}
        if was_open:
            blamed = _joined(self._blamed, blamed)
        self._open(now + self._bounded(seconds), blamed)
        return None if was_open else "open"

    def _bounded(self, seconds: float) -> float:
        # Whoever says so, provider or instance: nothing keeps this road closed for long.
        return min(seconds, max(self._open_for, LONGEST_OPENING))

    def _open(self, until: float, blamed: Blamed | None) -> State:
        self._is_open = True
        self._blamed = blamed
        self._until = max(self._until, until)
        self._probed_until = -inf
        self._forget()
        self._renew()
        return "open"

    def _close(self) -> State:
        self._is_open = False
        self._until = self._probed_until = -inf
        self._renew()
        return "closed"

    def _withdraw(self, *, until: float) -> None:
        self._probed_until = until
        self._renew()

    def _forget(self) -> None:
        if self._failures:
            self._failures = 0
            self._suspects = {}

    def _renew(self) -> None:
        self._generation += 1
        self._permit = Permit(self._generation)


def _is_among(blamed: Blamed, source: Source) -> bool:
    if source.caller not in blamed:
        return False
    conversation = blamed[source.caller]
    return conversation is EVERY_CONVERSATION or conversation == source.conversation


def _joined(one: Blamed | None, other: Blamed | None) -> Blamed | None:
    """Return whom both blame: two conversations are the whole caller, two callers everybody."""
    if one is None or other is None:
        return None
    joined = dict(one)
    for caller, conversation in other.items():
        known = joined.setdefault(caller, conversation)
        if known != conversation:
            joined[caller] = EVERY_CONVERSATION
    return joined if len(joined) < 2 else None
