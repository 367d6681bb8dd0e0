"""Providers' list prices from the data of `genai-prices`; no network.

That package is slow to import and to compute with. So this module is imported only where prices are
needed, names are found through an index, and a listed model is converted to a `Price` once in half
an hour. Clients may send any name: an unknown name is as fast as a known one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal

from genai_prices.data_snapshot import find_provider_by_id, get_snapshot
from genai_prices.types import (
    ClauseEquals,
    ClauseOr,
    MatchLogic,
    ModelInfo,
    ModelPrice,
    Provider,
    Tier,
    TieredPrices,
)

from looptrap.money.price import NANO, NANO_PER_TOKEN, REFRESH_S, Price, Rates

FREE = ":free"
"""Suffix of models that cost nothing; others without a listed price are unpriced."""

_MODEL_PATH = re.compile(r"(?:.*/)?models/(.+)")
"""`models/…`, `accounts/…/models/…`, `projects/…/publishers/…/models/…`."""

_COMPACT_DATE = re.compile(r"-(20\d\d)(0[1-9]|1[0-2])(0[1-9]|[12]\d|3[01])(?=[-:]|$)")
"""`-20251211`, where the data has `-2025-12-11`."""

Listing = Decimal | TieredPrices | None


class Listed:
    """Finds the listed price of a model."""

    def __init__(self) -> None:
        self._providers = get_snapshot().providers
        self._catalogues = {provider.id: _Catalogue(provider) for provider in self._providers}
        self._prices: dict[int, tuple[int, Price | None]] = {}  # by the id of the listing

    def price(self, model: str, provider: str, now: float) -> Price | None:
        """Return the price of a model at that time; None where it is not listed."""
        info = self._find(model.lower(), provider)
        if info is None:
            return None
        time = int(now // REFRESH_S)
        known = self._prices.get(id(info))
        if known is None or known[0] != time:
            known = time, price_of(info, datetime.fromtimestamp(now, UTC))
            self._prices[id(info)] = known
        return known[1]

    def names(self) -> Iterator[str]:
        """Yield the names of all models."""
        return (info.id for provider in self._providers for info in provider.models)

    def _find(self, model: str, provider: str) -> ModelInfo | None:
        """Search the given provider first, then the providers that the name suggests."""
        place = _MODEL_PATH.fullmatch(model)
        bare = place[1] if place is not None else model
        names = dict.fromkeys([model, bare])
        if own := self._provider(provider):
            for name in names:
                if info := self._listing(own, name):
                    return info
        prefix, _, rest = bare.partition("/")
        if rest and (named := self._provider(prefix)):
            if info := self._listing(named, rest):
                return info
            names[rest] = None
        for name in names:
            maker = self._provider_by_model(name)
            if maker and (info := self._listing(maker, name)):
                return info
        return None

    def _listing(self, provider: Provider, name: str) -> ModelInfo | None:
        """Return what `provider.find_model` would, using the index."""
        dated = _COMPACT_DATE.sub(r"-\1-\2-\3", name)
        for spelling in dict.fromkeys((name, dated)):
            for at in (provider.id, *(provider.fallback_model_providers or ())):
                catalogue = self._catalogues.get(at)
                if catalogue is not None and (info := catalogue.find(spelling)):
                    return info
        return None

    def _provider(self, name: str) -> Provider | None:
        return find_provider_by_id(self._providers, name) if name else None

    def _provider_by_model(self, model: str) -> Provider | None:
        """Return the provider with models of such a name."""
        for provider in self._providers:
            if provider.model_match is not None and provider.model_match.is_match(model):
                return provider
        return None


class _Catalogue:
    """The models of one provider: by name, then by pattern."""

    __slots__ = ("_named", "_patterns")

    def __init__(self, provider: Provider) -> None:
        self._named: dict[str, tuple[int, ModelInfo]] = {}
        self._patterns: list[tuple[int, ModelInfo, MatchLogic]] = []
        for place, info in enumerate(provider.models):
            for clause in _alternatives(info.match):
                if isinstance(clause, ClauseEquals):
                    self._named.setdefault(clause.equals.lower(), (place, info))
                else:
                    self._patterns.append((place, info, clause))

    def find(self, name: str) -> ModelInfo | None:
        """Return the first model that matches a lower-case name."""
        last, found = self._named.get(name, (0, None))
        for place, info, clause in self._patterns:
            if found is not None and place >= last:
                break
            if clause.is_match(name):
                return info
        return found


def _alternatives(match: MatchLogic) -> Iterator[MatchLogic]:
    """Yield the clauses of which one has to match."""
    if isinstance(match, ClauseOr):
        for clause in match.or_:
            yield from _alternatives(clause)
    else:
        yield match


def price_of(info: ModelInfo, when: datetime) -> Price | None:
    """Return a price in plain numbers; None where it is not per token."""
    listed = info.get_prices(when)
    if listed.input_mtok is None:
        is_free = info.id.endswith(FREE)
        return Price(info.context_window, Rates(0, 0, 0, 0, 0, 0, 0)) if is_free else None
    starts = {tier.start for listing in vars(listed).values() for tier in _tiers(listing)}
    return Price(
        info.context_window,
        _rates(listed, 0),
        tuple((start, _rates(listed, start + 1)) for start in sorted(starts)),
        _price_at(listed.requests_kcount, 0, 0.0, NANO // 1000),
    )


def _rates(listed: ModelPrice, tokens: int) -> Rates:
    """Return the rates for a call with this many input tokens."""
    input_rate = _price_at(listed.input_mtok, tokens, 0.0)
    output_rate = _price_at(listed.output_mtok, tokens, 0.0)
    return Rates(
        input=input_rate,
        cached_input=_price_at(listed.cache_read_mtok, tokens, input_rate),
        cache_write=_price_at(listed.cache_write_mtok, tokens, input_rate),
        audio_input=_price_at(listed.input_audio_mtok, tokens, input_rate),
        output=output_rate,
        audio_output=_price_at(listed.output_audio_mtok, tokens, output_rate),
        reasoning=_price_at(listed.output_reasoning_mtok, tokens, output_rate),
    )


def _price_at(listing: Listing, tokens: int, otherwise: float, unit: int = NANO_PER_TOKEN) -> float:
    """Return the listed price at this many input tokens, in nano-dollars each."""
    if listing is None:
        return otherwise
    found = listing.base if isinstance(listing, TieredPrices) else listing
    for tier in _tiers(listing):
        if tokens > tier.start:
            found = tier.price
    return float(found * unit)


def _tiers(listing: Listing) -> list[Tier]:
    return listing.tiers if isinstance(listing, TieredPrices) else []
