"""What went wrong: counted always, told once a second at most."""

from __future__ import annotations

import logging
from collections.abc import Callable

log = logging.getLogger("looptrap")

QUIET = 1.0
"""Seconds between two lines of the log."""


class Trouble:
    """Errors of a store, as plain numbers for metrics and as few lines for the log."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self.errors = 0
        self._monotonic = monotonic
        self._quiet_until = float("-inf")
        self._unsaid = 0

    def report(self, where: object, reason: str) -> None:
        """Count an error, and say it unless another was said just before."""
        self.errors += 1
        now = self._monotonic()
        if now < self._quiet_until:
            self._unsaid += 1
            return
        self._quiet_until = now + QUIET
        more = f" ({self._unsaid} more errors since the last line)" if self._unsaid else ""
        self._unsaid = 0
        log.error("store %s: %s; counting locally%s", where, reason, more)
