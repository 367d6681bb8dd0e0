"""Retry-After: the seconds that a server asks to be left alone. Pure."""

from __future__ import annotations

import re
from email.utils import parsedate_to_datetime

_is_number = re.compile(r"[+-]?(?:\d{1,12}(?:\.\d*)?|\.\d+)", re.ASCII).fullmatch


def seconds_of(value: str) -> float | None:
    """Return a number of seconds, 0 for less; None for what is no number."""
    return max(0.0, float(value)) if _is_number(value) else None


def retry_after(value: str, now: float | None, date: str = "") -> float | None:
    """Return the seconds that a number or a date asks for; None where it makes no sense.

    `date` is what the answer says of its own time: our clock and theirs need not agree.
    """
    seconds = seconds_of(value)
    if seconds is not None:
        return seconds
    until, asked_at = _moment(value), _moment(date)
    since = now if asked_at is None else asked_at
    return None if until is None or since is None else max(0.0, until - since)


def _moment(date: str) -> float | None:
    try:
        return parsedate_to_datetime(date).timestamp() if date else None
    except (TypeError, ValueError, OverflowError, IndexError):
        return None
