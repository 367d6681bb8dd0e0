"""Refusals as a client gets them, by a gateway or in its own process, as exceptions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from looptrap.detect.signals.signal import Evidence
from looptrap.errors import (
    BudgetExceededError,
    KilledError,
    LoopDetectedError,
    RateLimitedError,
    RefusedError,
)


def parse_refusal(body: object, headers: Mapping[str, str]) -> RefusedError | None:
    """Return what the body of an answer refuses, in whatever dialect; None where it does not."""
    # LiteLLM's proxy passes only `error` on, with all else inside it.
    detail = _table(body, "detail") or _table(_table(body, "error"), "detail")
    if not detail:
        return None
    message, rule = _text(detail, "message"), _text(detail, "rule")
    hit_count, fingerprint = int(_number(detail, "hit_count")), _text(detail, "fingerprint")
    match detail.get("error"):
        case "recursive_loop_detected":
            return LoopDetectedError(
                message,
                hit_count=hit_count,
                cooldown_seconds=_number(detail, "cooldown_seconds"),
                fingerprint=fingerprint,
                rule=rule,
                evidence=_evidence(detail),
            )
        case "budget_exceeded":
            return BudgetExceededError(
                message, budget=rule, percent=hit_count, fingerprint=fingerprint
            )
        case "rate_limited":
            return RateLimitedError(message, rate=rule, retry_after=_retry_after(headers))
        case "killed":
            return KilledError(message, rule=rule)
    return None


# What has another type than it should is read as empty.


def _table(body: object, name: str) -> Mapping[str, Any]:
    value = body.get(name) if isinstance(body, Mapping) else None
    return value if isinstance(value, Mapping) else {}


def _text(detail: Mapping[str, Any], name: str) -> str:
    value = detail.get(name)
    return value if isinstance(value, str) else ""


def _number(detail: Mapping[str, Any], name: str) -> float:
    value = detail.get(name)
    return float(value) if isinstance(value, int | float) else 0.0


def _evidence(detail: Mapping[str, Any]) -> tuple[Evidence, ...]:
    try:
        return msgspec.convert(detail.get("evidence", ()), tuple[Evidence, ...])
    except msgspec.ValidationError:
        return ()


def _retry_after(headers: Mapping[str, str]) -> float:
    seconds = headers.get("retry-after", "")
    return float(seconds) if seconds.isdecimal() else 0.0


def unwrap_refusal(error: BaseException) -> RefusedError | None:
    """Return the refusal that an exception is, or was raised from; None where there is none."""
    for one in _causes(error):
        if isinstance(one, RefusedError):
            return one
        headers = _headers(one)
        for body in _bodies(one):
            if (refusal := parse_refusal(body, headers)) is not None:
                return refusal
    return None


def refusal_in(error: Exception) -> RefusedError:
    """Return the refusal that an exception is, or was raised from; raise any other one again."""
    refusal = unwrap_refusal(error)
    if refusal is None:
        raise error
    return refusal


METADATA_KEY = "looptrap"
"""Under this key, the metadata of a final message say why it is one."""

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
"""Fields of refusals that any checkpointer can keep."""


def final_message_fields(error: Exception) -> dict[str, Any]:
    """Return what makes a refusal the final message of a model, in LangChain's `AIMessage`.

    Without tool calls in it, agents end. Any other exception is raised again.
    """
    refusal = refusal_in(error)
    fields = {name: getattr(refusal, name) for name in REFUSAL_FIELDS if hasattr(refusal, name)}
    reason = next(reason for kind, reason in REASON_BY_ERROR.items() if isinstance(refusal, kind))
    return {
        "content": refusal.message,
        "response_metadata": {METADATA_KEY: {"reason": reason, **fields}},
    }


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Yield an exception, what it was raised from, and so on."""
    seen: set[int] = set()
    cause: BaseException | None = error
    while cause is not None and id(cause) not in seen:
        seen.add(id(cause))
        yield cause
        cause = cause.__cause__


def _headers(error: BaseException) -> Mapping[str, str]:
    headers: Any = getattr(getattr(error, "response", None), "headers", None)
    return headers if isinstance(headers, Mapping) else {}


def _bodies(error: BaseException) -> Iterator[object]:
    """Yield what SDKs keep of an answer's body.

    Anthropic has it in `body`, Google in `details`; OpenAI keeps only its `error`, and of an error
    within a stream there is nothing else.
    """
    body = getattr(error, "body", None)
    yield body
    yield getattr(error, "details", None)
    yield _decoded(getattr(error, "response", None))
    if isinstance(body, Mapping):
        yield {"detail": {"error": body.get("code"), "message": body.get("message")}}


def _decoded(response: Any) -> object:
    """Return the body of an answer; None where there is none, or it was not read completely."""
    try:
        return response.json()
    except (AttributeError, RuntimeError, TypeError, ValueError):
        return None
