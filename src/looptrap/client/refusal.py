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
    detail = _table(body, "detail") or _table(_table(body, "error"), "detail")
    if not detail:
        return None
    told = _Detail(detail)
    message, rule, fingerprint = told.text("message"), told.text("rule"), told.text("fingerprint")
    match detail.get("error"):
        case "recursive_loop_detected":
            return LoopDetectedError(
                message,
                hit_count=int(told.number("hit_count")),
                cooldown_seconds=told.number("cooldown_seconds"),
                fingerprint=fingerprint,
                rule=rule,
                evidence=told.evidence(),
            )
        case "budget_exceeded":
            percent = int(told.number("hit_count"))
            return BudgetExceededError(
                message, budget=rule, percent=percent, fingerprint=fingerprint
            )
        case "rate_limited":
            return RateLimitedError(message, rate=rule, retry_after=_retry_after(headers))
        case "killed":
            return KilledError(message, rule=rule)
    return None


def _table(body: object, name: str) -> Mapping[str, Any]:
    """Return a table inside another: LiteLLM's proxy passes only `error` on, with all inside it."""
    found = body.get(name) if isinstance(body, Mapping) else None
    return found if isinstance(found, Mapping) else {}


class _Detail:
    """What a refusal says of itself; what is not as it should be is told as nothing."""

    def __init__(self, fields: Mapping[str, Any]) -> None:
        self._fields = fields

    def text(self, name: str) -> str:
        value = self._fields.get(name)
        return value if isinstance(value, str) else ""

    def number(self, name: str) -> float:
        value = self._fields.get(name)
        return float(value) if isinstance(value, int | float) else 0.0

    def evidence(self) -> tuple[Evidence, ...]:
        try:
            return msgspec.convert(self._fields.get("evidence", ()), tuple[Evidence, ...])
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
    """Yield all that vendors keep of an answer's body, the fullest last.

    Anthropic has it in `body`, Google in `details`; OpenAI keeps only its `error`, and that is all
    there is of an error amid a stream.
    """
    body = getattr(error, "body", None)
    yield body
    yield getattr(error, "details", None)
    yield _decoded(getattr(error, "response", None))
    if isinstance(body, Mapping):
        yield {"detail": {"error": body.get("code"), "message": body.get("message")}}


def _decoded(response: Any) -> object:
    """Return the body of an answer; None where there is none, or it was not read to its end."""
    try:
        return response.json()
    except (AttributeError, RuntimeError, TypeError, ValueError):
        return None
