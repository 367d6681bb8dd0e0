"""Retry policies: how often, how long and on whose word a call is tried again."""

from __future__ import annotations

from math import inf

import msgspec

from looptrap.errors import ConfigError
from looptrap.retry.backoff import Backoff
from looptrap.retry.classify.classifiers import DEFAULT, Classifiers


class RetryPolicy(msgspec.Struct, frozen=True):
    """What one call may cost; each limit of attempts is for one link of a chain."""

    attempts: int = 3
    server_attempts: int = 3
    """How many attempts may end in a failure of the server or of the connection."""
    timeout_attempts: int = 2
    """How many may end in a time-out: each has cost a whole context, and all that time."""
    limit_waits: int = 8
    """How often a call waits, at the end of its chain, while its credential is left alone for a
    limit; 0 for never."""
    backoff: Backoff = Backoff()
    deadline: float | None = None
    """The seconds for all of it, waits included; None for no end."""
    classifiers: Classifiers = DEFAULT

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
