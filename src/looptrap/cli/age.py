"""Times as people say them: `3 min ago`, `24h`."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from looptrap.errors import ConfigError, Problem

_UNITS = {"s": 1.0, "m": 60.0, "min": 60.0, "h": 3_600.0, "d": 86_400.0}
_SPAN = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)\s*(s|min|m|h|d)")


def span(seconds: float) -> str:
    """Return how long something took, in the unit that suits it."""
    whole = max(int(seconds), 0)
    if whole < 60:
        return f"{whole} s"
    if whole < 3_600:
        return f"{whole // 60} min"
    if whole < 86_400:
        hours, minutes = whole // 3_600, whole % 3_600 // 60
        return f"{hours} h {minutes} min" if minutes else f"{hours} h"
    days = whole // 86_400
    return f"{days} day{'s' if days > 1 else ''}"


def ago(then: str, now: datetime) -> str:
    """Return how long a time in ISO 8601 is past."""
    seconds = (now - datetime.fromisoformat(then)).total_seconds()
    return f"{span(seconds)} ago" if seconds >= 1 else "just now"


def at(then: str) -> str:
    """Return a time in ISO 8601 as a date and time of UTC, to the second."""
    return f"{datetime.fromisoformat(then).astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"


def since(text: str, place: str, now: datetime) -> str:
    """Return the time that `24h`, or a time itself, stands for, in ISO 8601."""
    if match := _SPAN.fullmatch(text.strip()):
        try:
            return (now - timedelta(seconds=float(match[1]) * _UNITS[match[2]])).isoformat()
        except OverflowError:
            raise ConfigError([Problem(place, "is too long")]) from None
    try:
        then = datetime.fromisoformat(text)
    except ValueError:
        message = "must be a span such as 90s, 30m, 24h or 7d, or a time: 2026-11-16T09:00:00Z"
        raise ConfigError([Problem(place, message)]) from None
    # Without an offset it is the time of who types it.
    return then.astimezone().isoformat()
