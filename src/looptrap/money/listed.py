"""Listed prices: what providers ask, as the data of `genai-prices` has it; no network.

That package is slow to import and to reckon with. So this module is imported only where prices are
asked for, and what is known of a model is made into a `Price` once.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal

from genai_prices.data_snapshot import find_provider_by_id, get_snapshot
from genai_prices.types import ModelInfo, ModelPrice, Provider, Tier, TieredPrices

from looptrap.money.price import A_TOKEN, NANO, Price, Rates

FREE = ":free"
"""How the names of models end that cost nothing; others without a listed price are unpriced."""

_PLACE = re.compile(r"(?:.*/)?models/(.+)")
"""`models/…`, `accounts/…/models/…`, `projects/…/publishers/…/models/…`: where a model is found."""

Listing = Decimal | TieredPrices | None


class Listed:
    """Finds the listed price of a model."""

    def __init__(self) -> None:
        self._providers = get_snapshot().providers

    def price(self, model: str, provider: str, now: float) -> Price | None:
        """Return what that model costs at that time; None where nothing is listed for it."""
        info = self._find(model.lower(), provider)
        return None if info is None else price_of(info, datetime.fromtimestamp(now, UTC))

    def names(self) -> Iterator[str]:
        """Yield the names of all models."""
        return (info.id for one in self._providers for info in one.models)

    def _find(self, model: str, provider: str) -> ModelInfo | None:
        """Look at the provider first, if it is one that is known, then wherever the name leads.

        The look-ups of the data itself would remember every name for ever.
        """
        place = _PLACE.fullmatch(model)
        bare = place[1] if place is not None else model
        names = dict.fromkeys([model, bare])
        if own := self._provider(provider):
            for name in names:
                if info := own.find_model(name, all_providers=self._providers):
                    return info
        prefix, _, rest = bare.partition("/")
        if rest and (named := self._provider(prefix)):
            if info := named.find_model(rest, all_providers=self._providers):
                return info
            names[rest] = None
        for name in names:
            maker = self._maker(name)
            if maker and (info := maker.find_model(name, all_providers=self._providers)):
                return info
        return None

    def _provider(self, name: str) -> Provider | None:
        return find_provider_by_id(self._providers, name) if name else None

    def _maker(self, model: str) -> Provider | None:
        """Return whose models are called like that."""
        for one in self._providers:
            if one.model_match is not None and one.model_match.is_match(model):
                return one
        return None


def price_of(info: ModelInfo, when: datetime) -> Price | None:
    """Return a price of plain numbers; None where tokens are not what is paid for."""
    listed = info.get_prices(when)
    if listed.input_mtok is None:
        is_free = info.id.endswith(FREE)
        return Price(info.context_window, Rates(0, 0, 0, 0, 0, 0, 0)) if is_free else None
    starts = {tier.start for one in _listings(listed) for tier in _tiers(one)}
    return Price(
        info.context_window,
        _rates(listed, 0),
        tuple((start, _rates(listed, start + 1)) for start in sorted(starts)),
        _at(listed.requests_kcount, 0, 0.0, NANO // 1000),
    )


def _rates(listed: ModelPrice, tokens: int) -> Rates:
    """Return the rates for a call with so many tokens of input."""
    asked = _at(listed.input_mtok, tokens, 0.0)
    said = _at(listed.output_mtok, tokens, 0.0)
    return Rates(
        input=asked,
        cached=_at(listed.cache_read_mtok, tokens, asked),
        written=_at(listed.cache_write_mtok, tokens, asked),
        heard=_at(listed.input_audio_mtok, tokens, asked),
        output=said,
        spoken=_at(listed.output_audio_mtok, tokens, said),
        thought=_at(listed.output_reasoning_mtok, tokens, said),
    )


def _at(listing: Listing, tokens: int, otherwise: float, unit: int = A_TOKEN) -> float:
    """Return what is listed for so much input, in nano-dollars each."""
    if listing is None:
        return otherwise
    found = listing.base if isinstance(listing, TieredPrices) else listing
    for tier in _tiers(listing):
        if tokens > tier.start:
            found = tier.price
    return float(found * unit)


def _listings(listed: ModelPrice) -> Iterator[Listing]:
    return iter(vars(listed).values())


def _tiers(listing: Listing) -> list[Tier]:
    return listing.tiers if isinstance(listing, TieredPrices) else []
