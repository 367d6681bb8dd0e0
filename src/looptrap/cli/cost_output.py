"""Prints what a loop costs, as a table or JSON."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil
from textwrap import fill

import click
import msgspec

from looptrap.cli.output import print_table
from looptrap.dialect.model import Usage
from looptrap.money.price import NANO, NANO_PER_TOKEN, Price
from looptrap.replay.projection import LoopProjection

HOUR_S = 3600.0
SPAN_SECONDS = {"minute": 60.0, "hour": HOUR_S, "night": 12 * HOUR_S, "weekend": 63 * HOUR_S}
"""Seconds; a weekend lasts from Friday, 18:00, to Monday, 9:00."""

MAX_SPAN_S = max(SPAN_SECONDS.values())

HEADINGS = ("A LOOP OF A", "#CALLS", "#COSTS", "#PASSED", "#WITH LOOPTRAP", "#SAVED")

WIDTH = 80


class LoopSpanCost(msgspec.Struct, frozen=True):
    """What a loop of some length costs."""

    span: str
    seconds: float
    calls: int
    cost_usd: float
    passed: int
    """How many of the calls Looptrap lets pass."""
    with_looptrap_usd: float
    saved_usd: float


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopCost:
    """What one loop costs, with Looptrap and without."""

    model: str
    usage: Usage
    """Of each call."""
    price: Price
    rps: float
    loop: LoopProjection
    source: str
    """Where the policies come from."""

    def spans(self) -> Iterator[LoopSpanCost]:
        """Yield the costs, from the shortest time to the longest."""
        each = self.price.cost(self.usage)
        for name, seconds in SPAN_SECONDS.items():
            # A rounding error is not another call.
            calls = ceil(round(seconds * self.rps, 6))
            passed = min(self.loop.calls_in(seconds), calls)
            paid = passed * each / NANO
            total = calls * each / NANO
            yield LoopSpanCost(
                name, seconds, calls, total, passed, paid, (calls - passed) * each / NANO
            )

    def as_json(self) -> str:
        """Return everything as one JSON object."""
        fields = {
            "model": self.model,
            "input_tokens": self.usage.input_tokens,
            "output_tokens": self.usage.output_tokens,
            "rps": self.rps,
            "call_usd": self.price.cost(self.usage) / NANO,
            "policies": self.source,
            "rule": self.loop.rule or None,
            "first_refused": self.loop.first,
            "until_refused_usd": self._until_refused(),
            "followed_seconds": self.loop.seconds,
            "spans": list(self.spans()),
        }
        return msgspec.json.encode(fields).decode()

    def show(self) -> None:
        """Print a table, with an introduction and a conclusion."""
        click.echo(f"{fill(self._call(), WIDTH)}\n")
        print_table(HEADINGS, [_row(span) for span in self.spans()])
        click.echo(f"\n{fill(self._caught(), WIDTH)}")

    def _call(self) -> str:
        usage = self.usage
        rates = self.price.rates_for(usage.input_tokens)
        each = self.price.cost(usage) / NANO
        return (
            f"{self.model}, {self.rps:g} calls a second of {usage.input_tokens:,} tokens in and"
            f" {usage.output_tokens:,} out: {_dollars(each, exact=True)} a call, at"
            f" {_dollars(rates.input / NANO_PER_TOKEN)} a million tokens of input and"
            f" {_dollars(rates.output / NANO_PER_TOKEN)} of output."
        )

    def _until_refused(self) -> float | None:
        """Return the cost of an agent that stops at the first refusal."""
        first = self.loop.first
        return None if first is None else (first - 1) * self.price.cost(self.usage) / NANO

    def _caught(self) -> str:
        loop, spent = self.loop, self._until_refused()
        if spent is None:
            slowed = loop.judged < ceil(round(loop.seconds * self.rps, 6))
            what = "only slow it down" if slowed else "let all of it pass"
            return f"The policies of {self.source} {what}: none refuses equal calls at this rate."
        return (
            f"{loop.rule} of {self.source} refuses call {loop.first}: an agent that ends there has"
            f" spent {_dollars(spent)}. The table is for one that goes on regardless, and tries"
            " again after every cooldown."
        )


def _row(span: LoopSpanCost) -> tuple[str, ...]:
    return (
        span.span,
        f"{span.calls:,}",
        _dollars(span.cost_usd),
        f"{span.passed:,}",
        _dollars(span.with_looptrap_usd),
        _dollars(span.saved_usd),
    )


def _dollars(amount: float, *, exact: bool = False) -> str:
    """Return dollars and cents; if `exact`, to a hundredth of a cent."""
    return f"${amount:,.4f}" if exact else f"${amount:,.2f}"
