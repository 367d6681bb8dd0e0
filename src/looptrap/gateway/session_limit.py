"""What a client lets its session cost: never more than the operator does."""

from __future__ import annotations

import re

from looptrap.gateway.auth import Denied
from looptrap.money.dollar import nano

_DOLLARS = re.compile(rb"(?=[.\d]*[1-9])\d{1,6}(?:\.\d{1,9})?")

INVALID = Denied(
    400,
    "invalid_session_limit",
    "X-Looptrap-Session-Limit-Usd must be an amount of dollars above 0, such as 2.50.",
)


def session_limit(sent: bytes) -> int | Denied | None:
    """Return the limit in nano-dollars, None where none was sent; or why it is none."""
    if not sent:
        return None
    return nano(float(sent)) if _DOLLARS.fullmatch(sent) else INVALID
