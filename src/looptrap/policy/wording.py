"""The words of verdicts: names and counts from the evidence, nothing of the prompt."""

from __future__ import annotations

from looptrap.detect.round import NUDGE_MARK
from looptrap.policy.action import Action
from looptrap.policy.verdict import ADVICE, CODES, Verdict, opening


def repeated(verdict: Verdict) -> str:
    """Return what repeats, and how often."""
    seen = "; ".join(evidence.what for evidence in verdict.evidence)
    return seen or f"the same happened {verdict.count} times"


def refused(verdict: Verdict) -> str:
    """Return why a call is refused; also where a milder verdict had to become a refusal."""
    if verdict.action is Action.BLOCK or verdict.reason != "loop_detected":
        return verdict.message
    return f"{opening(Action.BLOCK, verdict.reason)}: {repeated(verdict)}. {ADVICE}"


def ended(verdict: Verdict) -> str:
    """Return the last words of a run that is ended here."""
    if verdict.reason != "loop_detected":
        return f"Looptrap ended this run. {verdict.message}"
    return (
        f"Looptrap ended this run ({CODES[verdict.reason]}) because it was going in circles:"
        f" {repeated(verdict)}."
        " The model was not asked again. Before starting over, change the approach:"
        " other arguments, another tool, or a smaller task."
    )


def nudge(verdict: Verdict) -> str:
    """Return what a model that goes in circles reads."""
    return (
        f"{NUDGE_MARK}\n"
        f"You are going in circles: {repeated(verdict)}."
        " Doing the same once more will bring the same result."
        " Try a different strategy: other arguments, another tool, or answer with what you have,"
        " saying what is missing."
    )
