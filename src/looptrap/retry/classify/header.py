"""Headers of a failed answer: when to come again, whether to, and whether Looptrap refused it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from email.utils import parsedate_to_datetime
from typing import Any, TypeAlias

Headers: TypeAlias = Mapping[Any, Any] | Sequence[tuple[Any, Any]]
"""Names and values, each bytes or text, in any case."""

_WANTED = frozenset(
    (
        "date",
        "retry-after",
        "retry-after-ms",
        "x-looptrap-reason",
        "x-looptrap-verdict",
        "x-should-retry",
    )
)
_is_number = re.compile(r"[+-]?(?:\d{1,12}(?:\.\d*)?|\.\d+)", re.ASCII).fullmatch


def wanted(headers: Headers | None) -> dict[str, str]:
    """Return the headers that say something about a failure, by lower-case name."""
    found: dict[str, str] = {}
    for name, value in _pairs(headers):
        lowered = _text(name).lower()
        if lowered in _WANTED:
            found.setdefault(lowered, _text(value).strip())
    return found


def retry_after_of(headers: Headers | None, now: float | None = None) -> float | None:
    """Return the seconds that headers ask to wait; None where they do not, or make no sense.

    `now` is in seconds since 1970, for a date in an answer that does not say its own.
    """
    return retry_after(wanted(headers), now)


def retry_after(found: Mapping[str, str], now: float | None) -> float | None:
    """Return the same from what `wanted` found; `retry-after-ms` is the more exact."""
    milliseconds = found.get("retry-after-ms", "")
    if _is_number(milliseconds):
        return max(0.0, float(milliseconds) / 1000)
    value = found.get("retry-after", "")
    if _is_number(value):
        return max(0.0, float(value))
    until = _moment(value)
    # The answer's own date first: our clock and theirs need not agree.
    asked_at = _moment(found.get("date", ""))
    since = now if asked_at is None else asked_at
    return None if until is None or since is None else max(0.0, until - since)


def should_retry(found: Mapping[str, str]) -> bool | None:
    """Return what the server says about trying again; None where it says nothing."""
    return {"true": True, "false": False}.get(found.get("x-should-retry", "").lower())


def refusal(found: Mapping[str, str]) -> str:
    """Return why Looptrap refused the call; "" where it did not.

    A call that was let through with a warning carries a reason as well.
    """
    if found.get("x-looptrap-verdict", "block") not in ("block", "stop"):
        return ""
    return found.get("x-looptrap-reason", "")


def _pairs(headers: Headers | None) -> Iterable[tuple[Any, Any]]:
    if headers is None:
        return ()
    items = getattr(headers, "items", None)
    return items() if items is not None else headers


def _text(value: object) -> str:
    return value.decode("latin-1") if isinstance(value, bytes) else str(value)


def _moment(date: str) -> float | None:
    try:
        return parsedate_to_datetime(date).timestamp() if date else None
    except (TypeError, ValueError, OverflowError, IndexError):
        return None
