"""Dollars: amounts in nano-dollars as people and headers have them."""

from __future__ import annotations

NANO = 1_000_000_000
"""Nano-dollars in a dollar: whole numbers add up exactly, and a token costs some of them."""


def nano(usd: float) -> int:
    """Return an amount of dollars in nano-dollars."""
    return round(usd * NANO)


LEAST = NANO // 10_000
"""What is less is told as that."""


def in_words(amount: int) -> str:
    """Return an amount, which is 0 or more, as people write it: in cents, small ones finer."""
    usd = amount / NANO
    if not amount or usd >= 0.1:
        return f"${usd:,.2f}"
    return f"${usd:.2g}" if amount >= LEAST else f"less than ${LEAST / NANO:g}"


def in_header(amount: int) -> bytes:
    """Return an amount, which is 0 or more, as plain decimals."""
    whole, rest = divmod(amount, NANO)
    return (b"%d.%09d" % (whole, rest)).rstrip(b"0").rstrip(b".")
