"""Verdicts: what was decided about a call, and why."""

from __future__ import annotations

from typing import Literal

import msgspec

from looptrap.detect.fingerprint import fingerprint_text
from looptrap.detect.signals.signal import Evidence
from looptrap.policy.action import Action
from looptrap.policy.policy import Compat
from looptrap.policy.rule import Rule
from looptrap.policy.watch import HistoryWatch, Watch

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


DELAY_PER_HIT_S = 0.1
MAX_DELAY_S = 30.0
NUDGE_EVERY = 3
"""A model that was told is given this many rounds before it is told again."""

_SUBJECTS = {
    "conversation": "identical request",
    "request": "identical request",
    "session": "call of one session",
    "tool": "identical tool call",
    "similar_prompt": "the same prompt with other words around it",
}
_DONE = {
    Action.WARN: "Warning",
    Action.THROTTLE: "Slowed down",
    Action.NUDGE: "Nudged",
    Action.STOP: "Stopped",
    Action.BLOCK: "Blocked",
}
_WOULD = {
    Action.WARN: "Would have been warned about",
    Action.THROTTLE: "Would have been slowed down",
    Action.NUDGE: "Would have been nudged",
    Action.STOP: "Would have been stopped",
    Action.BLOCK: "Would have been refused",
}


ADVICE = "Sending it again will not change the answer: change the approach, or stop."
"""What a refused client should do."""


def opening(action: Action, reason: Reason, *, is_shadow: bool = False) -> str:
    """Return how a message begins: what was done, or would have been, with a refusal's code.

    SDKs show only the message of an error, so this is where clients look for the code.
    """
    done = (_WOULD if is_shadow else _DONE)[action]
    return f"{done} ({CODES[reason]})" if action.refuses else done


def action_for(watch: Watch, hits: int, cooldown_left: float) -> Action:
    """Return what a watch wants done at that count; in a cooldown it refuses at the least."""
    action = watch.ladder.at(hits)
    if cooldown_left > 0 and not action.refuses:
        return watch.ladder.refusal() or action
    return action


def verdict_of(
    watch: Watch, action: Action, key: bytes, evidence: Evidence, cooldown_left: float = 0.0
) -> Verdict:
    """Return the verdict of one watch, in words for whoever reads the refusal."""
    rule = watch.rule
    count = evidence.count
    return Verdict(
        action=action,
        reason="loop_detected",
        policy=watch.policy.name,
        rule=rule.name,
        message=_message(action, evidence, cooldown_left, is_shadow=watch.is_shadow),
        count=count,
        threshold=watch.ladder.reached(count),
        fingerprint=fingerprint_text(key, isinstance(watch, HistoryWatch)),
        cooldown_left=cooldown_left,
        retry_after=rule.retry_after,
        delay=min(count * DELAY_PER_HIT_S, MAX_DELAY_S) if action is Action.THROTTLE else 0.0,
        evidence=(evidence,),
        is_early=action is Action.WARN and watch.ladder.severest is not Action.WARN,
        compat=watch.policy.compat,
    )


def is_nudge_due(verdict: Verdict) -> bool:
    """Say whether this is a round in which the model is told, rather than one in between."""
    return verdict.action is Action.NUDGE and (verdict.count - verdict.threshold) % NUDGE_EVERY == 0


def counted(rule: Rule, hits: int, signal: str = "") -> Evidence:
    """Return the evidence of a count; `signal` says what was counted where the rule does not."""
    signal = signal or rule.watch
    return Evidence(
        signal=signal,
        what=f"{_SUBJECTS[signal]} sent {hits} times in {rule.window.seconds:g} seconds",
        count=hits,
    )


def _message(action: Action, evidence: Evidence, cooldown_left: float, *, is_shadow: bool) -> str:
    text = f"{opening(action, 'loop_detected', is_shadow=is_shadow)}: {evidence.what}."
    if is_shadow or not action.refuses:
        return text
    pause = f" Refused for another {cooldown_left:.0f} seconds." if cooldown_left >= 1 else ""
    return f"{text}{pause} {ADVICE}"
