"""Settings of prices."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from looptrap.errors import Problem
from looptrap.money.setting import PriceSettings
from looptrap.schema import INVALID, Field, Mapped, Number, Table, Text

_DOLLARS = Number(low=0, high=1_000_000, unit="dollars a million tokens")


@dataclass(frozen=True, slots=True, kw_only=True)
class _PriceTable(Table[PriceSettings]):
    """The price of one model, that knows what a dot in the model's name does to TOML."""

    def read(self, value: object, place: str, problems: list[Problem]) -> Any:
        if isinstance(value, dict) and any(isinstance(item, dict) for item in value.values()):
            problems.append(
                Problem(
                    place,
                    "holds a table, must be a price; the name of a model with a dot in it stands"
                    ' in quotes: [prices."gpt-4.1"]',
                )
            )
            return INVALID
        # Without arguments, super() looks for the class as it was before it had slots.
        return super(_PriceTable, self).read(value, place, problems)


PRICE: Table[PriceSettings] = _PriceTable(
    build=PriceSettings,
    fields=[
        Field(name="input", kind=_DOLLARS, required=True, doc="what input costs"),
        Field(name="output", kind=_DOLLARS, required=True, doc="what output costs"),
        Field(
            name="cached_input",
            kind=_DOLLARS,
            doc="input that is read from the provider's cache; like input where not set",
        ),
        Field(
            name="cache_write",
            kind=_DOLLARS,
            doc="input that is written to that cache; like input where not set",
        ),
        Field(name="audio_input", kind=_DOLLARS, doc="what is heard; like input where not set"),
        Field(name="audio_output", kind=_DOLLARS, doc="what is spoken; like output where not set"),
        Field(
            name="context_window",
            kind=Number(low=1, high=1_000_000_000, whole=True),
            doc="how many tokens fit into one call",
        ),
    ],
)

PRICES = Field(
    name="prices",
    kind=Mapped(Text(form="the name of a model"), PRICE, "models and their prices"),
    default={},
    doc="what models cost, by name or `provider/name`; `*` and `?` are wild; goes before what"
    " providers list",
)

PRICE_FALLBACK = Field(
    name="price_fallback",
    kind=PRICE,
    doc="what every model costs for which no price is known; without it these are unpriced",
)
