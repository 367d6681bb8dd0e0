"""Dollars: amounts in nano-dollars as people and headers have them."""

from __future__ import annotations

NANO = 1_000_000_000
"""Nano-dollars in a dollar: whole numbers add up exactly, and a token costs some of them."""


def nano(usd: float) -> int:
    """Return an amount of dollars in nano-dollars."""
    return round(usd * NANO)


def in_words(amount: int) -> str:
    """Return an amount as people write it: in cents, or two digits of what is less than ten."""
    usd = amount / NANO
    return f"${usd:,.2f}" if abs(usd) >= 0.1 or not amount else f"${usd:.2g}"


def in_header(amount: int) -> bytes:
    """Return an amount, which is 0 or more, as plain decimals."""
    whole, rest = divmod(amount, NANO)
    return (b"%d.%09d" % (whole, rest)).rstrip(b"0").rstrip(b".")
