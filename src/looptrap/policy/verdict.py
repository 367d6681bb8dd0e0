"""Verdicts: what was decided about a call, and why; their texts name nothing of the prompt."""

from __future__ import annotations

from typing import Literal

import msgspec

from looptrap.detect.fingerprint import fingerprint_text
from looptrap.detect.harness import FINAL_MARK
from looptrap.detect.round import NUDGE_MARK
from looptrap.detect.signals.signal import Evidence
from looptrap.policy.action import Action
from looptrap.policy.policy import Compat
from looptrap.policy.watch import CountingWatch, HistoryWatch, Watch

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
"""The `code` in responses for each reason of a refusal."""


class Verdict(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """What was decided about a call, and why."""

    action: Action = Action.ALLOW
    reason: Reason = ""
    policy: str = ""
    rule: str = ""
    message: str = ""
    count: int = 0
    """How often it happened, including refusals during the cooldown."""
    threshold: int = 0
    """The count from which the rule takes this action."""
    fingerprint: str = ""
    """A versioned keyed digest of what was counted; releases name it."""
    cooldown_left: float = 0.0
    retry_after: float | None = None
    """The rule's own Retry-After; None: the rest of the cooldown."""
    delay: float = 0.0
    """Seconds by which a throttled call is delayed."""
    evidence: tuple[Evidence, ...] = ()
    is_early: bool = False
    """A warning of a rule with severer actions at higher counts: many agents recover by then."""
    compat: tuple[Compat, ...] = ()
    """Systems whose own response headers are sent too."""


ALLOWED = Verdict()


DELAY_PER_HIT_S = 0.1
MAX_DELAY_S = 30.0
NUDGE_EVERY = 3
"""Rounds from one nudge to the next."""

_SUBJECTS = {
    "conversation": "identical request",
    "request": "identical request",
    "session": "call of one session",
    "tool": "identical tool call",
    "similar_prompt": "the same prompt with other words around it",
}
_OPENINGS = {
    Action.WARN: ("Warning", "Would have been warned about"),
    Action.THROTTLE: ("Slowed down", "Would have been slowed down"),
    Action.NUDGE: ("Nudged", "Would have been nudged"),
    Action.STOP: ("Stopped", "Would have been stopped"),
    Action.BLOCK: ("Blocked", "Would have been refused"),
}
"""What was done, and what would have been."""

ADVICE = "Sending it again will not change the answer: change the approach, or stop."
"""Advice in a refusal."""


def opening(action: Action, reason: Reason, *, is_shadow: bool = False) -> str:
    """Return the beginning of a message: what was done, or would have been, with a refusal's code.

    SDKs show only the message of an error, so the code stands there.
    """
    done = _OPENINGS[action][is_shadow]
    return f"{done} ({CODES[reason]})" if action.refuses else done


def action_for(watch: Watch, hits: int, cooldown_left: float) -> Action:
    """Return a watch's action at that count; in a cooldown at least a refusal."""
    action = watch.ladder.at(hits)
    if cooldown_left > 0 and not action.refuses:
        return watch.ladder.refusal() or action
    return action


def verdict_of(
    watch: Watch, action: Action, key: bytes, evidence: Evidence, cooldown_left: float = 0.0
) -> Verdict:
    """Return the verdict of one watch."""
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
    """Return whether the model is nudged in this round, and not in a later one."""
    return verdict.action is Action.NUDGE and (verdict.count - verdict.threshold) % NUDGE_EVERY == 0


def counted(watch: Watch, hits: int, signal: str = "") -> Evidence:
    """Return the evidence of a count; `signal` names what was counted where the rule does not."""
    signal, window = signal or watch.rule.watch, watch.rule.window
    span = "in a row" if window.kind.awaits_answers else f"in {window.seconds:g} seconds"
    if isinstance(watch, CountingWatch) and watch.is_across:
        span += ", under other sessions or users"
    return Evidence(
        signal=signal,
        what=f"{_SUBJECTS[signal]} sent {hits} times {span}",
        count=hits,
    )


def _message(action: Action, evidence: Evidence, cooldown_left: float, *, is_shadow: bool) -> str:
    text = f"{opening(action, 'loop_detected', is_shadow=is_shadow)}: {evidence.what}."
    if is_shadow or not action.refuses:
        return text
    pause = f" Refused for another {cooldown_left:.0f} seconds." if cooldown_left >= 1 else ""
    return f"{text}{pause} {ADVICE}"


def _repetition(verdict: Verdict) -> str:
    seen = "; ".join(evidence.what for evidence in verdict.evidence)
    return seen or f"the same happened {verdict.count} times"


def refusal_text(verdict: Verdict) -> str:
    """Return why a call is refused; also where a milder verdict had to become a refusal."""
    if verdict.action is Action.BLOCK or verdict.reason != "loop_detected":
        return verdict.message
    return f"{opening(Action.BLOCK, verdict.reason)}: {_repetition(verdict)}. {ADVICE}"


def final_text(verdict: Verdict) -> str:
    """Return the last words of a run that is ended here."""
    if verdict.reason != "loop_detected":
        return f"{FINAL_MARK}. {verdict.message}"
    return (
        f"{FINAL_MARK} ({CODES[verdict.reason]}) because it was going in circles:"
        f" {_repetition(verdict)}."
        " The model was not asked again. Before starting over, change the approach:"
        " other arguments, another tool, or a smaller task."
    )


def nudge_text(verdict: Verdict) -> str:
    """Return what a model that goes in circles reads."""
    return (
        f"{NUDGE_MARK}\n"
        f"You are going in circles: {_repetition(verdict)}."
        " Doing the same once more will bring the same result."
        " Try a different strategy: other arguments, another tool, or answer with what you have,"
        " saying what is missing."
    )
