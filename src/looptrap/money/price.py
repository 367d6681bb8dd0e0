"""Prices: what a call's tokens cost, in nano-dollars; a model that nobody knows has none."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import translate
from math import ceil
from typing import NamedTuple, TypeVar

import msgspec

from looptrap.dialect.model import Usage
from looptrap.schema import Number, setting, settings
from looptrap.store.model import UNLIMITED

_DOLLARS = Number(low=0, high=1_000_000, unit="dollars a million tokens")


@settings
class PriceSettings:
    """What a model costs, in dollars a million tokens; what is None costs like the rest."""

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
"""Names whose prices are kept at hand, and as many of names without one; others are looked up
again. Clients may send any name: how many they send changes no price."""

MAX_NAME_CHARS = 256
"""Characters of a name beyond which no model is listed."""

REFRESH_S = 1800
"""Seconds, from one half hour to the next: listed prices change with the date and time of day."""

ROUNDING_SLACK = 1e-3
"""What floating point may add to a sum that is whole."""


Name = tuple[str, str]
"""A model and its provider."""

Entry = TypeVar("Entry")


class Rates(NamedTuple):
    """Nano-dollars a token, by what the token was."""

    input: float
    cached_input: float
    cache_write: float
    audio_input: float
    output: float
    audio_output: float
    reasoning: float


class Price(msgspec.Struct, frozen=True):
    """What one model costs."""

    context_window: int | None
    """Tokens that fit into one call, where that is known."""
    rates: Rates
    tiers: tuple[tuple[int, Rates], ...] = ()
    """The rates for calls with more input than so many tokens, ascending."""
    request: float = 0.0
    """Nano-dollars a call, whatever its tokens."""

    @classmethod
    def from_settings(cls, settings: PriceSettings) -> Price:
        """Return the price that an operator has set."""

        def rate(given: float | None, otherwise: float) -> float:
            return (otherwise if given is None else given) * NANO_PER_TOKEN

        input_usd, output_usd = settings.input, settings.output
        rates = Rates(
            input=rate(input_usd, input_usd),
            cached_input=rate(settings.cached_input, input_usd),
            cache_write=rate(settings.cache_write, input_usd),
            audio_input=rate(settings.audio_input, input_usd),
            output=rate(output_usd, output_usd),
            audio_output=rate(settings.audio_output, output_usd),
            reasoning=rate(output_usd, output_usd),
        )
        return cls(settings.context_window, rates)

    def cost(self, usage: Usage) -> int:
        """Return what that costs in nano-dollars, rounded up; no more than the largest limit."""
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
        except OverflowError:  # counts that an application says, and no provider can have billed
            return UNLIMITED

    def rates_for(self, input_tokens: int) -> Rates:
        """Return the rates of a call with so many tokens of input."""
        rates = self.rates
        for start, beyond in self.tiers:
            if input_tokens > start:
                rates = beyond
        return rates


UNREAD_MODEL_PRICE = Price.from_settings(PriceSettings(input=15.0, output=75.0))
"""What a call costs whose model could not be read, where no price is set that is dearer: as much as
the dear models of the large providers."""


class Prices:
    """Knows what models cost: by the operator's word, by what providers list, else by a fallback.

    Making one loads the listed prices, which takes a moment; asking it does not.
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
        """Whether a model may have a price at one provider and none at others."""
        self._patterns = [
            (_pattern(name), price) for name, price in overridden.items() if {*"*?"} & {*name}
        ]
        self._listed = Listed()
        self._fallback = Price.from_settings(fallback) if fallback is not None else None
        self._known: dict[Name, tuple[int, Price]] = {}
        self._unknown: dict[Name, tuple[int, Price | None]] = {}
        self.dearest = max(
            (*overridden.values(), self._fallback or UNREAD_MODEL_PRICE),
            key=lambda price: price.rates.input + price.rates.output,
        )
        """The dearest price that is set: of a model that could not be read."""

    def of(self, model: str, provider: str, now: float) -> Price | None:
        """Return the price of a model at a provider, "" where that is not known; None: unpriced."""
        time, name = int(now // REFRESH_S), (model, provider)
        known = self._known.get(name) or self._unknown.get(name)
        if known is not None and known[0] == time:
            return known[1]
        if len(model) > MAX_NAME_CHARS:
            return self._override(model[:MAX_NAME_CHARS], provider) or self._fallback
        price = self._override(model, provider) or self._listed.price(model, provider, now)
        # What is made up has a table of its own: it crowds out nothing that has a price.
        if price is not None:
            _remember(self._known, name, (time, price))
            return price
        _remember(self._unknown, name, (time, self._fallback))
        return self._fallback

    def close_to(self, model: str, now: float) -> Sequence[str]:
        """Return names like that one which have a price; the closest first, three at the most."""
        from difflib import get_close_matches

        names = sorted({*self._exact, *self._listed.names()})
        close = get_close_matches(model, names, n=9)
        return [name for name in close if self.of(name, "", now) is not None][:3]

    def _override(self, model: str, provider: str) -> Price | None:
        """Return what the operator says; a name as it is goes before one with `*` or `?`."""
        names = list(_names_of(model, provider))
        for name in names:
            if (price := self._exact.get(name)) is not None:
                return price
        for pattern, price in self._patterns:
            if any(pattern.match(name) for name in names):
                return price
        return None


def _remember(table: dict[Name, Entry], name: Name, entry: Entry) -> None:
    """Keep an entry at hand; a full table is begun anew, which several threads may do at once."""
    if len(table) >= MAX_CACHED_NAMES:
        table.clear()
    table[name] = entry


def _pattern(name: str) -> re.Pattern[str]:
    return re.compile(translate(name.replace("[", "[[]")))


def _names_of(model: str, provider: str) -> Iterator[str]:
    """Yield what an operator may call a model: at that provider, or anywhere."""
    if provider:
        yield f"{provider}/{model}"
    yield model


"""Nano-dollars in a dollar: whole numbers add up exactly, and a token costs some of them."""


def nano(usd: float) -> int:
    """Return an amount of dollars in nano-dollars."""
    return round(usd * NANO)


MIN_SHOWN = NANO // 10_000
"""What is less is told as that."""


def dollars_in_words(amount: int) -> str:
    """Return an amount, which is 0 or more, as people write it: in cents, small ones finer."""
    usd = amount / NANO
    if not amount or usd >= 0.1:
        return f"${usd:,.2f}"
    return f"${usd:.2g}" if amount >= MIN_SHOWN else f"less than ${MIN_SHOWN / NANO:g}"


def dollars_in_header(amount: int) -> bytes:
    """Return an amount, which is 0 or more, as plain decimals."""
    whole, rest = divmod(amount, NANO)
    return (b"%d.%09d" % (whole, rest)).rstrip(b"0").rstrip(b".")
