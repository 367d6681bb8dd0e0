"""Headers of a failed answer: when to come again, whether to, and whether Looptrap refused it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from looptrap.wire.retry_after import retry_after as asked_for
from looptrap.wire.retry_after import seconds_of

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
    milliseconds = seconds_of(found.get("retry-after-ms", ""))
    if milliseconds is not None:
        return milliseconds / 1000
    return asked_for(found.get("retry-after", ""), now, found.get("date", ""))


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
