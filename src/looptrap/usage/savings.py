"""Savings: what a loop costs a call, and what its refused calls would have cost. Pure."""

from __future__ import annotations

from looptrap.money.price import NANO, dollars_in_words, nano

HOUR_S = 3_600.0

MIN_RATE_SPAN_S = 60.0
"""Seconds: what was seen for less makes no rate."""


def usd(amount: float) -> float:
    """Return an amount of nano-dollars in dollars."""
    return amount / NANO


def format_usd(amount: float | None) -> str:
    """Return dollars as people write them; what has no price is never told as 0."""
    return "unpriced" if amount is None else dollars_in_words(nano(amount))


def rounded_mean(total: int, number: int) -> int:
    """Return the mean, rounded; 0 of none."""
    return round(total / number) if number else 0


def cost_per_call(cost: int, priced: int, estimate: int, estimated: int) -> float | None:
    """Return what a call of a loop costs, in nano-dollars; None where no price is known.

    That is the mean of the calls that passed. Where none did, it is the mean of what the input
    alone of refused ones would have cost: less than a call costs, whose answer is paid for too.
    """
    if priced:
        return cost / priced
    return estimate / estimated if estimated else None


def saved_cost(refused: int, cost: int, priced: int, estimate: int, estimated: int) -> int | None:
    """Return what refused calls would have cost, in nano-dollars; None where no price is known."""
    if priced:
        return rounded_mean(refused * cost, priced)
    return estimate if estimated else None


def describe_savings(
    refused: int, saved_usd: float | None, projected_usd_an_hour: float | None
) -> str:
    """Say what refusals saved, and apart from it what is a projection; empty where none were."""
    if not refused:
        return ""
    calls = f"{refused:,} call{'s' if refused > 1 else ''} refused"
    if saved_usd is None:
        return f"{calls}, unpriced"
    each = format_usd(saved_usd / refused)
    about = "" if each.startswith("less") else "about "
    told = f"{format_usd(saved_usd)} saved: {calls} at {about}{each} each"
    if projected_usd_an_hour is None:
        return told
    return f"{told}; it was burning {format_usd(projected_usd_an_hour)} an hour (projection)"
