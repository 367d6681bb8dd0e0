"""Prices: what a call's tokens cost, in nano-dollars; an unknown model has none."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import translate
from math import ceil
from typing import NamedTuple

from looptrap.dialect.model import Usage
from looptrap.schema import Number, setting, settings
from looptrap.store.model import UNLIMITED

_DOLLARS = Number(low=0, high=1_000_000, unit="dollars a million tokens")


@settings
class PriceSettings:
    """What a model costs, in dollars a million tokens; None is the plain input or output price."""

    input: float = setting("what input costs", _DOLLARS)
    output: float = setting("what output costs", _DOLLARS)
    cached_input: float | None = setting(
        "input that is read from the provider's cache; like input where not set",
        _DOLLARS,
        default=None,
    )
    cache_write: float | None = setting(
        "input that is written to that cache; like input where not set", _DOLLARS, default=None
    )
    audio_input: float | None = setting(
        "audio input; like input where not set", _DOLLARS, default=None
    )
    audio_output: float | None = setting(
        "audio output; like output where not set", _DOLLARS, default=None
    )
    context_window: int | None = setting(
        "how many tokens fit into one call",
        Number(low=1, high=1_000_000_000, whole=True),
        default=None,
    )


NANO = 1_000_000_000
"""Nano-dollars a dollar."""

NANO_PER_TOKEN = NANO // 1_000_000
"""Nano-dollars a token, where a million of them cost a dollar."""

MAX_CACHED_NAMES = 1_000
"""Cached names with a price, and as many without; others are looked up again. Clients may send any
number of names: no price changes."""

MAX_NAME_CHARS = 256
"""No listed model has a longer name."""

REFRESH_S = 1800
"""Half an hour: listed prices change with the date and the time of day."""

ROUNDING_SLACK = 1e-3
"""What floating point may add to a whole sum."""


Name = tuple[str, str]
"""A model and its provider."""


class Rates(NamedTuple):
    """Nano-dollars a token, by kind of token."""

    input: float
    cached_input: float
    cache_write: float
    audio_input: float
    output: float
    audio_output: float
    reasoning: float


@dataclass(frozen=True, slots=True)
class Price:
    """What one model costs."""

    context_window: int | None
    """The most tokens of one call, where known."""
    rates: Rates
    tiers: tuple[tuple[int, Rates], ...] = ()
    """Input tokens above which other rates apply, ascending."""
    request: float = 0.0
    """Nano-dollars a call, whatever its tokens."""

    @classmethod
    def from_settings(cls, settings: PriceSettings) -> Price:
        """Return the price that an operator has set."""

        def rate(usd: float | None, otherwise: float) -> float:
            return (otherwise if usd is None else usd) * NANO_PER_TOKEN

        rates = Rates(
            input=settings.input * NANO_PER_TOKEN,
            cached_input=rate(settings.cached_input, settings.input),
            cache_write=rate(settings.cache_write, settings.input),
            audio_input=rate(settings.audio_input, settings.input),
            output=settings.output * NANO_PER_TOKEN,
            audio_output=rate(settings.audio_output, settings.output),
            reasoning=settings.output * NANO_PER_TOKEN,
        )
        return cls(settings.context_window, rates)

    def cost(self, usage: Usage) -> int:
        """Return the cost in nano-dollars, rounded up; no more than the largest limit."""
        input_left, output_left = usage.input_tokens, usage.output_tokens
        rates = self.rates_for(input_left) if self.tiers else self.rates
        text, cached_input, cache_write, audio_input, output, audio_output, reasoning = rates
        # Each token has one price, also where a provider counts it in two places.
        total = self.request
        if tokens := usage.cached_tokens:
            tokens = min(tokens, input_left)
            input_left -= tokens
            total += tokens * cached_input
        if tokens := usage.cache_write_tokens:
            tokens = min(tokens, input_left)
            input_left -= tokens
            total += tokens * cache_write
        if tokens := usage.audio_input_tokens:
            tokens = min(tokens, input_left)
            input_left -= tokens
            total += tokens * audio_input
        if tokens := usage.reasoning_tokens:
            tokens = min(tokens, output_left)
            output_left -= tokens
            total += tokens * reasoning
        if tokens := usage.audio_output_tokens:
            tokens = min(tokens, output_left)
            output_left -= tokens
            total += tokens * audio_output
        try:
            return min(
                ceil(total + input_left * text + output_left * output - ROUNDING_SLACK), UNLIMITED
            )
        except OverflowError:  # an application reported counts that no provider can bill
            return UNLIMITED

    def rates_for(self, input_tokens: int) -> Rates:
        """Return the rates of a call with this many input tokens."""
        rates = self.rates
        for start, beyond in self.tiers:
            if input_tokens > start:
                rates = beyond
        return rates


PriceTable = dict[Name, tuple[int, Price | None]]
"""Prices, each with the half-hour for which it was found."""

UNREAD_MODEL_PRICE = Price.from_settings(PriceSettings(input=15.0, output=75.0))
"""The price of a call whose model could not be read, unless a higher one is set: that of the most
expensive models of the large providers."""


class Prices:
    """Finds the price of a model: as the operator set it, as listed, or the fallback.

    The constructor loads the listed prices, which is slow; lookups are fast.
    """

    def __init__(
        self,
        overrides: Mapping[str, PriceSettings] | None = None,
        fallback: PriceSettings | None = None,
    ) -> None:
        from looptrap.money.listed import Listed

        overridden = {
            name: Price.from_settings(settings) for name, settings in (overrides or {}).items()
        }
        self._exact = overridden
        self.has_providers = any("/" in name for name in overridden)
        """Whether a price may be set for one provider only."""
        self._patterns = [
            (re.compile(translate(name.replace("[", "[[]"))), price)
            for name, price in overridden.items()
            if {*"*?"} & {*name}
        ]
        self._listed = Listed()
        self._fallback = Price.from_settings(fallback) if fallback is not None else None
        self._known: PriceTable = {}
        self._unknown: PriceTable = {}
        self.dearest = max(
            (*overridden.values(), self._fallback or UNREAD_MODEL_PRICE),
            key=lambda price: price.rates.input + price.rates.output,
        )
        """The highest price that is set, for a model that could not be read."""

    def of(self, model: str, provider: str, now: float) -> Price | None:
        """Return the price of a model at a provider ("" if unknown); None where it has none."""
        time, name = int(now // REFRESH_S), (model, provider)
        known = self._known.get(name) or self._unknown.get(name)
        if known is not None and known[0] == time:
            return known[1]
        if len(model) > MAX_NAME_CHARS:
            return self._override(model[:MAX_NAME_CHARS], provider) or self._fallback
        price = self._override(model, provider) or self._listed.price(model, provider, now)
        # Unknown names have a table of their own: they displace no name with a price.
        if price is not None:
            _remember(self._known, name, (time, price))
            return price
        _remember(self._unknown, name, (time, self._fallback))
        return self._fallback

    def close_to(self, model: str, now: float) -> Sequence[str]:
        """Return up to three similar names that have a price, the closest first."""
        from difflib import get_close_matches

        names = sorted({*self._exact, *self._listed.names()})
        close = get_close_matches(model, names, n=9)
        return [name for name in close if self.of(name, "", now) is not None][:3]

    def _override(self, model: str, provider: str) -> Price | None:
        """Return the operator's price; an exact name has precedence over one with `*` or `?`."""
        names = [f"{provider}/{model}", model] if provider else [model]
        for name in names:
            if (price := self._exact.get(name)) is not None:
                return price
        for pattern, price in self._patterns:
            if any(pattern.match(name) for name in names):
                return price
        return None


def _remember(table: PriceTable, name: Name, entry: tuple[int, Price | None]) -> None:
    """Cache an entry; a full table is cleared, which is safe from several threads."""
    if len(table) >= MAX_CACHED_NAMES:
        table.clear()
    table[name] = entry


def nano(usd: float) -> int:
    """Return an amount of dollars in nano-dollars."""
    return round(usd * NANO)


def usd(amount: float) -> float:
    """Return an amount of nano-dollars in dollars."""
    return amount / NANO


MIN_SHOWN = NANO // 10_000
"""Smaller amounts are shown as less than this."""


def dollars_in_words(amount: int) -> str:
    """Return an amount of 0 or more for people: in cents, small ones with more digits."""
    usd = amount / NANO
    if not amount or usd >= 0.1:
        return f"${usd:,.2f}"
    return f"${usd:.2g}" if amount >= MIN_SHOWN else f"less than ${MIN_SHOWN / NANO:g}"


def format_usd(amount: float | None) -> str:
    """Return dollars in words; an unknown price is never shown as 0."""
    return "unpriced" if amount is None else dollars_in_words(nano(amount))


def dollars_in_header(amount: int) -> bytes:
    """Return an amount of 0 or more as a plain decimal number."""
    whole, rest = divmod(amount, NANO)
    return (b"%d.%09d" % (whole, rest)).rstrip(b"0").rstrip(b".")
