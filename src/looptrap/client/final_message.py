"""The last message of an agent that was refused: what it says, and why. Needs `langchain-core`."""

from __future__ import annotations

from langchain_core.messages import AIMessage

from looptrap.errors import (
    BudgetExceededError,
    KilledError,
    LoopDetectedError,
    RateLimitedError,
    RefusedError,
)

METADATA_KEY = "looptrap"
"""Under which name the metadata of a last word say why it is one."""

REASON_BY_ERROR: dict[type[RefusedError], str] = {
    LoopDetectedError: "loop_detected",
    BudgetExceededError: "budget_exceeded",
    RateLimitedError: "rate_limited",
    KilledError: "killed",
}

REFUSAL_FIELDS = (
    "rule", "budget", "rate", "hit_count", "percent", "cooldown_seconds", "retry_after",
    "fingerprint",
)  # fmt: skip
"""What a refusal may say of itself that any checkpointer can keep."""


def final_ai_message(refusal: RefusedError) -> AIMessage:
    """Return what a model that was not asked is taken to say: no tool calls, so that agents end."""
    told = {name: getattr(refusal, name) for name in REFUSAL_FIELDS if hasattr(refusal, name)}
    reason = next(reason for kind, reason in REASON_BY_ERROR.items() if isinstance(refusal, kind))
    return AIMessage(refusal.message, response_metadata={METADATA_KEY: {"reason": reason, **told}})
