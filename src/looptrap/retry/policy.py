"""Retry policies, backoff and chains: how often, how long and where a call is tried again."""

from __future__ import annotations

from math import inf, ldexp

import msgspec

from looptrap.errors import ConfigError
from looptrap.retry.classify import DEFAULT_CLASSIFIERS, Classifiers
from looptrap.retry.failure import Failure

_MAX_DOUBLINGS = 64


class Backoff(msgspec.Struct, frozen=True, gc=False):
    """Full jitter under an exponential ceiling; a provider's Retry-After is the minimum."""

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
        return chance * min(self.cap, ldexp(self.base, min(attempt - 1, _MAX_DOUBLINGS)))

    def wait(self, attempt: int, failure: Failure, chance: float) -> float | None:
        """Return the seconds to wait; None when Retry-After exceeds `longest_retry_after`."""
        delay = self.delay(attempt, chance)
        requested = failure.retry_after
        if requested is None:
            return delay
        if requested > self.longest_retry_after:
            return None
        # All clients get the same Retry-After: up to `base` is added to spread them.
        return max(delay, requested + chance * self.base)


class RetryPolicy(msgspec.Struct, frozen=True):
    """The limits of one call; each limit of attempts is for one link of a chain."""

    attempts: int = 3
    server_attempts: int = 3
    """How many attempts may end in a failure of the server or of the connection."""
    timeout_attempts: int = 2
    """How many may end in a time-out: each costs a whole context, and the time."""
    limit_waits: int = 8
    """How often a call at the end of its chain waits while its credential is rate limited; 0 for
    never."""
    backoff: Backoff = Backoff()
    deadline: float | None = None
    """Seconds for the whole call, including waits; None for no limit."""
    classifiers: Classifiers = DEFAULT_CLASSIFIERS

    def __post_init__(self) -> None:
        for name in ("attempts", "server_attempts", "timeout_attempts"):
            if getattr(self, name) < 1:
                raise ConfigError(
                    f"retry policy: {name} is {getattr(self, name)}, must be 1 or more"
                    " (the first attempt counts)"
                )
        if self.limit_waits < 0:
            raise ConfigError(f"retry policy: limit_waits is {self.limit_waits}, must be 0 or more")
        if self.deadline is not None and not 0 < self.deadline < inf:
            raise ConfigError(f"retry policy: deadline is {self.deadline:g}, must be above 0")


class Link(msgspec.Struct, frozen=True, gc=False):
    """One target of a call."""

    provider: str
    model: str | None = None
    """None keeps the caller's."""
    credential: str | None = ""
    """A digest of the credential used there, which rate limits apply to; with None, limits open no
    circuit."""
    has_breaker: bool = True
    """Whether it is skipped for a while after failures in a row."""

    @property
    def name(self) -> str:
        """`provider/model`, or the provider alone."""
        return self.provider if self.model is None else f"{self.provider}/{self.model}"

    @classmethod
    def parse(cls, name: str, credential: str = "") -> Link:
        """Return the link of `provider/model` or `provider`; a model may have slashes in it."""
        provider, slash, model = name.partition("/")
        if not provider or (slash and not model):
            raise ConfigError(f"chain: {name!r} is neither 'provider/model' nor 'provider'")
        return cls(provider, model or None, credential)


class Chain(msgspec.Struct, frozen=True, gc=False):
    """Links in the order in which they are tried."""

    links: tuple[Link, ...]

    def __post_init__(self) -> None:
        if not self.links:
            raise ConfigError("chain: has no links, must have at least one")

    @classmethod
    def of(cls, *names: str) -> Chain:
        """Return the chain of names such as `anthropic/claude-opus-4-7` or `openai`."""
        return cls(tuple(map(Link.parse, names)))
