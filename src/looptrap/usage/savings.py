"""Amounts in dollars, and what refusals saved, in words. Pure."""

from __future__ import annotations

from looptrap.money.price import NANO, dollars_in_words, nano


def usd(amount: float) -> float:
    """Return an amount of nano-dollars in dollars."""
    return amount / NANO


def format_usd(amount: float | None) -> str:
    """Return dollars in words; an unknown price is never shown as 0."""
    return "unpriced" if amount is None else dollars_in_words(nano(amount))


def rounded_mean(total: int, number: int) -> int:
    """Return the rounded mean; 0 for no values."""
    return round(total / number) if number else 0


def describe_savings(
    refused: int, saved_usd: float | None, projected_usd_an_hour: float | None
) -> str:
    """Describe what refusals saved, and the projection apart from it; empty without refusals."""
    if not refused:
        return ""
    calls = f"{refused:,} call{'s' if refused > 1 else ''} refused"
    if saved_usd is None:
        return f"{calls}, unpriced"
    each = format_usd(saved_usd / refused)
    about = "" if each.startswith("less") else "about "
    saved = f"{format_usd(saved_usd)} saved: {calls} at {about}{each} each"
    if projected_usd_an_hour is None:
        return saved
    return f"{saved}; it was burning {format_usd(projected_usd_an_hour)} an hour (projection)"
