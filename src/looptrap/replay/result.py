"""What replaying a run found: the object that `looptrap replay --json` prints."""

from __future__ import annotations

import msgspec

from looptrap.detect.evidence import Evidence
from looptrap.policy.action import Action


class First(msgspec.Struct, frozen=True, gc=False):
    """At which assistant turn, counted from 0, each action would first have been taken."""

    warn: int | None = None
    throttle: int | None = None
    nudge: int | None = None
    stop: int | None = None
    block: int | None = None

    def at_least(self, action: Action) -> int | None:
        """Return the first turn at which that action or a severer one would have been taken."""
        turns = [
            turn
            for one in Action
            if one.severity >= action.severity
            and one is not Action.ALLOW
            and (turn := getattr(self, one.value)) is not None
        ]
        return min(turns, default=None)

    def refusal(self) -> int | None:
        """Return the first turn that would have been refused."""
        return self.at_least(Action.STOP)


class Result(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """What would have become of one run."""

    id: str
    calls: int
    """The assistant turns recorded."""
    verdict: Action
    """The severest of all its requests."""
    first: First
    rule: str | None = None
    """The rule that spoke the verdict; `signal` and `evidence` are its reasons."""
    signal: str | None = None
    evidence: tuple[Evidence, ...] = ()
    saved_calls: int = 0
    """Recorded turns from the first refusal on."""
    saved_tokens: int = 0
    """An estimate, by bytes, of what those calls carried and were answered."""
    saved_usd: float | None = None
