"""Verdicts: what was decided about a call, and why."""

from __future__ import annotations

from typing import Literal

import msgspec

from looptrap.detect.evidence import Evidence
from looptrap.policy.action import Action
from looptrap.policy.policy import Compat

Reason = Literal[
    "",
    "loop_detected",
    "budget_threshold",
    "budget_exceeded",
    "rate_limited",
    "killed",
    "store_unavailable",
]

CODES: dict[Reason, str] = {
    "loop_detected": "recursive_loop_detected",
    "budget_exceeded": "budget_exceeded",
    "rate_limited": "rate_limited",
    "killed": "killed",
    "store_unavailable": "store_unavailable",
}
"""The `code` under which clients know each reason for a refusal."""


class Verdict(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """What was decided about a call, and why."""

    action: Action = Action.ALLOW
    reason: Reason = ""
    policy: str = ""
    rule: str = ""
    message: str = ""
    count: int = 0
    """How often it has happened, refusals during the cooldown included."""
    threshold: int = 0
    """The count from which on the rule takes this action."""
    fingerprint: str = ""
    """What was counted, as a versioned keyed digest; releases name it."""
    cooldown_left: float = 0.0
    retry_after: float | None = None
    """What the rule wants clients told; None: the cooldown left."""
    delay: float = 0.0
    """How long a throttled call is held back, in seconds."""
    evidence: tuple[Evidence, ...] = ()
    is_early: bool = False
    """A warning of a rule that does more at higher counts: many an agent stutters and recovers."""
    compat: tuple[Compat, ...] = ()
    """Systems whose own answer headers the client is to see too."""


ALLOWED = Verdict()
